// @ts-check
/** The calls of one conversation, turn by turn. */

import { ask } from "./api.js";
import { h, table } from "./dom.js";
import { many, moment } from "./format.js";

/** What a call does with the messages of the call that it goes on from. @param {any} turn */
function what(turn) {
  const system = turn.system_changed ? h("span", { class: "left" }, "The system message is another one, so the service's cache begins anew. ") : "";
  if (turn.changed) return [system, h("span", { class: "left" }, `Message ${turn.same + 1} was changed: the service's cache is of use for ${many(turn.same, "message")} only.`)];
  return [system, turn.same === 0 ? "The conversation begins." : turn.same === turn.messages ? "Asked again." : "It goes on."];
}

/** @param {any} call */
export async function conversationOf(call) {
  const { turns } = await ask(`conversation?${new URLSearchParams({ call: call.id })}`);
  const rows = turns.map((/** @type {any} */ turn) => [
    turn.id === call.id ? h("strong", {}, moment(turn.time)) : h("a", { href: `#call/${encodeURIComponent(turn.id)}/conversation` }, moment(turn.time)),
    h("span", {}, ...what(turn)), turn.messages, turn.same, turn.messages - turn.same,
  ]);
  return [
    h("p", {}, "The calls of this client that begin with the same message of its user, whatever the system message is. A service's cache of the prompt reaches as far as nothing was changed."),
    table("Turns", ["Call", "What happens", "Messages", "Same as before", "New"], rows, 2),
  ];
}
