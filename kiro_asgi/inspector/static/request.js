// @ts-check
/** The client's request beside what a service was sent, and the rules by which one became the other. */

import { ask } from "./api.js";
import { h, table } from "./dom.js";
import { many } from "./format.js";
import { Rows } from "./rows.js";
import { leaf } from "./tree.js";

/** @typedef {{path: string, depth: number, name: string, value: any, leaf: boolean, close: string}} Line */

/** JSON as lines. @param {any} document @returns {Line[]} */
export function lines(document) {
  /** @type {Line[]} */
  const found = [];
  const walk = (/** @type {any} */ value, /** @type {string} */ path, /** @type {string} */ name, /** @type {number} */ depth) => {
    const branch = value !== null && typeof value === "object" && Object.keys(value).length > 0;
    found.push({ path, depth, name, value: branch ? (Array.isArray(value) ? "[" : "{") : value, leaf: !branch, close: "" });
    if (!branch) return;
    const list = Array.isArray(value);
    for (const [key, part] of Object.entries(value)) walk(part, list ? `${path}[${key}]` : path ? `${path}.${key}` : key, list ? "" : key, depth + 1);
    found.push({ path, depth, name: "", value: list ? "]" : "}", leaf: false, close: path });
  };
  walk(document, "", "", 0);
  return found;
}

/** Values that both have: what is only on one side was added, changed or left out. @param {Line[]} one */
function values(one) {
  return new Set(one.filter((line) => line.leaf).map((line) => JSON.stringify(line.value)));
}

const IMAGE = /^(?:data:(image\/(?:png|jpeg|gif|webp));base64,)?([A-Za-z0-9+/_-]{100,}=*)$/;
const TYPES = /** @type {Record<string, string>} */ ({ iVBORw: "image/png", "/9j/": "image/jpeg", R0lGOD: "image/gif", UklGR: "image/webp" });

/** The address of an image whose bytes are a text, empty for none. @param {unknown} value */
export function imageIn(value) {
  const match = typeof value === "string" ? IMAGE.exec(value) : null;
  const type = match && (match[1] ?? Object.entries(TYPES).find(([start]) => match[2].startsWith(start))?.[1]);
  return type ? `data:${type};base64,${match[2]}` : "";
}

/** @param {any} value */
function whole(value) {
  const image = imageIn(value), place = h("div", {});
  const show = h("button", { type: "button", click: () => place.replaceChildren(h("img", { src: image, alt: "An image of the request", class: "shown" })) }, "Show the image");
  return [image ? h("p", {}, show) : "", place, h("pre", { tabindex: "0" }, typeof value === "string" ? value : JSON.stringify(value, null, 1))];
}

/** @param {string} name @param {any} document @param {Set<string>} other @param {Map<string, any[]>} rules @param {HTMLElement} shown */
function side(name, document, other, rules, shown) {
  const all = lines(document);
  const rows = new Rows(name, (/** @type {Line} */ line) => {
    const pad = h("span", { class: "pad" }, "  ".repeat(line.depth)), found = line.close ? [] : rules.get(line.path) ?? [];
    const text = line.leaf ? leaf(typeof line.value === "string" ? line.value.slice(0, 300) : line.value) : line.value;
    return [pad, line.name ? h("span", { class: "member" }, `${line.name}: `) : "", text, ...found.map((each) => h("span", { class: "rule", title: each.what }, each.rule))];
  });
  rows.items = all;
  rows.mark = (place) => (all[place].leaf && !other.has(JSON.stringify(all[place].value)) ? "only" : "");
  rows.onchoose = (place) => shown.replaceChildren(h("h3", {}, all[place].path || name), ...(all[place].leaf ? whole(all[place].value) : [h("p", { class: "note" }, "Choose a value to see all of it.")]));
  const alone = all.filter((line) => line.leaf && !other.has(JSON.stringify(line.value))).length;
  return h("section", { class: "column", "aria-label": name }, h("h3", {}, name, h("span", { class: "note" }, ` ${many(alone, "value")} only on this side`)), rows.element);
}

const LOSSES = /** @type {Record<string, string>} */ ({ none: "nothing", form: "the form only", content: "content" });

/** @param {any} explained */
function ruleTable(explained) {
  if (!explained.ok) return h("p", { class: "bad" }, `The gateway would refuse it now: ${explained.error}${explained.param ? ` (${explained.param})` : ""}`);
  if (explained.as_it_is) return h("p", { class: "note" }, "The service speaks this API: the request went through as it is, except for the model's name.");
  const because = explained.translated_because?.what && explained.translated_because.reason !== "service.other" ? h("p", {}, `Translated, although the service speaks this API: ${explained.translated_because.what} (${explained.translated_because.reason})`) : "";
  if (!explained.rules.length) return h("div", {}, because, h("p", { class: "good" }, "No rule changed anything: nothing was lost."));
  return h("div", {}, because, table("Rules", ["Rule", "Times", "First place", "What is lost", "What it does"],
    explained.rules.map((/** @type {any} */ each) => [each.rule, each.times, each.place, h("span", { class: each.loss === "content" ? "bad" : "" }, LOSSES[each.loss] ?? each.loss), each.what])));
}

/** @param {any} call */
export async function requestOf(call) {
  const told = await ask(`request?${new URLSearchParams({ call: call.id })}`);
  const shown = /** @type {HTMLElement} */ (h("section", { class: "step", "aria-live": "polite", "aria-label": "The chosen value" }, h("p", { class: "note" }, "Marked values are on one side only. Choose one to see it whole.")));
  const rules = /** @type {Map<string, any[]>} */ (new Map());
  for (const each of told.explained.rules ?? []) if (each.place) rules.set(each.place, [...(rules.get(each.place) ?? []), each]);
  const sent = told.sent, lanes = h("div", { class: "lanes two" });
  const draw = (/** @type {number} */ at) => {
    const payload = sent[at]?.payload;
    lanes.replaceChildren(
      side("What the client sent", told.client, payload === undefined ? values(lines(told.client)) : values(lines(payload)), rules, shown),
      payload === undefined ? h("p", { class: "note" }, "No service was asked.") : side(`What ${sent[at].upstream} was sent`, payload, values(lines(told.client)), new Map(), shown));
  };
  draw(sent.length - 1);
  const pick = sent.length < 2 ? "" : h("p", {}, h("label", { for: "attempt" }, "Attempt "), h("select", { id: "attempt", change: (/** @type {Event} */ event) => draw(Number(/** @type {HTMLSelectElement} */ (event.target).value)) },
    ...sent.map((/** @type {any} */ each, /** @type {number} */ at) => h("option", { value: at, selected: at === sent.length - 1 }, `${each.number} ${each.upstream}`))));
  return [ruleTable(told.explained), pick, lanes, shown];
}
