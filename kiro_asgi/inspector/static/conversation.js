// @ts-check
/** The calls of one conversation, turn by turn. */

import { ask } from "./api.js";
import { h, table } from "./dom.js";
import { count, many, moment } from "./format.js";

/** What a call does with the messages of the call that it goes on from. @param {any} turn */
function what(turn) {
  const system = turn.system_changed ? h("span", { class: "left" }, "The system message is another one, so the service's cache begins anew. ") : "";
  if (turn.changed) return [system, h("span", { class: "left" }, `Message ${turn.same + 1} was changed: the service's cache is of use for ${many(turn.same, "message")} only.`)];
  return [system, turn.same === 0 ? "The conversation begins." : turn.same === turn.messages ? "Asked again." : "It goes on."];
}

/** The credits of a turn, and how many more or fewer they are than those of the turn before. @param {any} turn @param {any} before */
function credits(turn, before) {
  if (turn.credits === undefined) return "";
  const more = before?.credits === undefined ? 0 : turn.credits - before.credits;
  return more ? `${turn.credits} (${more > 0 ? "+" : "−"}${Math.abs(more).toFixed(4)})` : String(turn.credits);
}

/** @param {any} call */
export async function conversationOf(call) {
  const { turns } = await ask(`conversation?${new URLSearchParams({ call: call.id })}`);
  const metered = turns.some((/** @type {any} */ turn) => turn.credits !== undefined), cached = turns.some((/** @type {any} */ turn) => turn.cache_read);
  const rows = turns.map((/** @type {any} */ turn, /** @type {number} */ index) => [
    turn.id === call.id ? h("strong", {}, moment(turn.time)) : h("a", { href: `#call/${encodeURIComponent(turn.id)}/conversation` }, moment(turn.time)),
    h("span", {}, ...what(turn)), turn.messages, turn.same, turn.messages - turn.same,
    ...(cached ? [turn.cache_read === undefined ? "" : count(turn.cache_read)] : []),
    ...(metered ? [credits(turn, turns[index - 1])] : []),
  ]);
  return [
    h("p", {}, "The calls of this client that begin with the same message of its user, whatever the system message is. A service's cache of the prompt reaches as far as nothing was changed."),
    table("Turns", ["Call", "What happens", "Messages", "Same as before", "New", ...(cached ? ["Tokens from a cache"] : []), ...(metered ? ["Credits (more than the turn before)"] : [])], rows, 2),
  ];
}
