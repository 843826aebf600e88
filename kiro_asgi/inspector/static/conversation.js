// @ts-check
/** The calls that tell one conversation, turn by turn. */

import { ask } from "./api.js";
import { h, table } from "./dom.js";
import { clock } from "./format.js";

/** @param {any} call */
export async function conversationOf(call) {
  const { turns } = await ask(`conversation?${new URLSearchParams({ call: call.id })}`);
  const rows = turns.map((/** @type {any} */ turn) => [
    turn.id === call.id ? h("strong", {}, clock(turn.time)) : h("a", { href: `#call/${encodeURIComponent(turn.id)}/conversation` }, clock(turn.time)),
    turn.changed ? h("span", { class: "left" }, `begins anew after ${turn.same} of them: what went before was changed`) : turn.same ? "goes on" : "begins",
    turn.messages, turn.same, turn.messages - turn.same,
  ]);
  return [
    h("p", {}, "Calls of this client whose first message is the same. Where an earlier message was changed, a service's cache of the prompt is of no use from there on."),
    table("Turns", ["Call", "What it does", "Messages", "As before", "New"], rows, 2),
  ];
}
