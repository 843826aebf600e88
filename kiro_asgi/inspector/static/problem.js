// @ts-check
/** What went wrong with a call: the cause of each thing that is to be said of it, and what to do. */

import { ask } from "./api.js";
import { h } from "./dom.js";
import { bytes, many, why } from "./format.js";

const KINDS = /** @type {Record<string, string>} */ ({ error: "bad", left: "left", notice: "left" });

/** @param {any} each */
function remark(each) {
  return h("li", {},
    h("p", {}, h("strong", { class: KINDS[each.kind] ?? "left" }, h("span", { "aria-hidden": "true" }, `${each.mark} `), each.words), each.times > 1 ? ` (${many(each.times, "time")})` : "", " ", h("code", { class: "note" }, each.code)),
    h("p", {}, each.cause),
    each.advice ? h("p", {}, h("span", { class: "note" }, "What to do: "), each.advice) : "");
}

/** A call that its client did not get, or not as one. @param {any} each */
function partial(each) {
  return h("section", { class: "block call", "aria-label": `What came of the call of ${each.name}` },
    h("h3", {}, "What came of the call of ", h("code", {}, each.name || "a tool without a name"), h("span", { class: "note" }, ` ${bytes(each.bytes)}`)),
    h("pre", { tabindex: "0" }, each.arguments || "(no arguments)"),
    each.why ? h("p", { class: "note" }, `Left out, because ${why(each.why)}.`) : "");
}

/** What a service sent of its own accord, and nothing else. @param {any} each */
function words(each) {
  return h("section", { class: "block", "aria-label": `What ${each.upstream} said` },
    h("h3", {}, `What ${each.upstream} said`, h("span", { class: "note" }, ` in attempt ${each.number}${each.status ? `, with status ${each.status}` : ""}`)),
    each.message ? h("p", {}, each.message) : "",
    each.words ? h("pre", { class: "words", tabindex: "0" }, each.words) : "");
}

/** How an attempt ended of which the service said nothing. @param {any} each */
function found(each) {
  return h("p", { class: "note" }, `Attempt ${each.number}, at ${each.upstream}: ${each.found}${each.bytes ? `, after ${bytes(each.bytes)} of the answer` : ""}.`);
}

/** How a call failed, as far as that is kept; of a good call there is nothing to ask for. @param {any} call */
export async function failureOf(call) {
  return call.remarks?.length && call.recorded ? ask(`failure?${new URLSearchParams({ call: call.id })}`).catch(() => null) : null;
}

/** Nothing for a good call. @param {any} call @returns {Promise<import("./dom.js").Child[]>} */
export async function problemsOf(call) {
  if (!call.remarks?.length) return [];
  const told = await failureOf(call);
  return [h("section", { class: "problems", "aria-label": "What happened" },
    h("h3", {}, "What happened"),
    h("ul", {}, ...call.remarks.map(remark)),
    ...(told?.partial ?? []).map(partial),
    ...(told?.attempts ?? []).filter((/** @type {any} */ each) => each.found).map(found),
    ...(told?.attempts ?? []).filter((/** @type {any} */ each) => each.words || each.message).map(words))];
}
