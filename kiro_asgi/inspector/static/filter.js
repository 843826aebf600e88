// @ts-check
/**
 * The filter of the list: words that all have to fit, each a text that occurs anywhere, or `name:value`.  A `-` before a
 * word negates it; `"` holds words together.  Nothing here knows of the page.
 */

import { model } from "./format.js";

const SLOW = 10; // s without anything for the client

/** What a call has, of which there are chips above the list. @param {any} call @returns {string[]} */
export function traits(call) {
  const kinds = (call.remarks ?? []).map((/** @type {any} */ each) => (each.kind === "error" ? "error" : "notice"));
  const slow = (call.first ?? call.seconds) >= SLOW || call.gap >= SLOW;
  return [...new Set(kinds), call.usage?.thinking && "thinking", call.finish === "tool_call" && "tool", call.pinned && "pin", call.rules?.length && "rule", slow && "slow"].filter(Boolean);
}

/** The chips: a name, the word of the filter, and what it means. */
export const CHIPS = [
  ["Errors", "has:error", "No answer, or not all of it"],
  ["Notices", "has:notice", "Something was lost, changed or tried again on the way, or the client left"],
  ["Tools", "has:tool", "The answer ends with a tool call"],
  ["Slow", "has:slow", `Nothing came for ${SLOW} seconds`],
];

/** Names to what is compared: texts that are to occur, or numbers. */
const TEXTS = /** @type {Record<string, (call: any) => unknown>} */ ({
  api: (call) => call.api,
  code: (call) => call.code,
  error: (call) => call.error,
  finish: (call) => call.finish,
  has: (call) => (call.has ?? traits(call)).join(" "),
  id: (call) => call.id,
  key: (call) => call.principal,
  model,
  outcome: (call) => call.outcome ?? call.state,
  path: (call) => call.path,
  problem: (call) => (call.remarks ?? []).map((/** @type {any} */ each) => `${each.words} ${each.code}`).join(" "),
  rule: (call) => (call.rules ?? []).join(" "),
  notice: (call) => Object.keys(call.notices ?? {}).join(" "),
  state: (call) => call.state,
  up: (call) => call.upstream,
  agent: (call) => call.agent,
});

const NUMBERS = /** @type {Record<string, (call: any) => number | undefined>} */ ({
  status: (call) => call.status,
  slow: (call) => call.seconds,
  first: (call) => call.first,
  gap: (call) => call.gap,
  tries: (call) => call.attempts,
  input: (call) => call.usage && call.usage.input + call.usage.cache_read + call.usage.cache_write,
  output: (call) => call.usage?.output,
  cost: (call) => call.cost === undefined ? undefined : call.cost + (call.estimated_cost ?? 0),
});

export const NAMES = [...Object.keys(TEXTS), ...Object.keys(NUMBERS), "text"].sort();

const SHORTEST = 3; // characters of a word that texts are searched for

/** @typedef {(call: any) => boolean} Fits */
/** @typedef {(word: string, call: any) => boolean} Has whether a word is in the request or the answer of a call */

const WORD = /(-?)([a-z]+:)?(?:"([^"]*)"?|(\S+))/gi;

/** Fields of a filter that there are not. @param {string} text @returns {string[]} */
export function unknown(text) {
  const names = [...text.matchAll(WORD)].map(([, , name]) => (name ?? "").slice(0, -1).toLowerCase());
  return [...new Set(names)].filter((name) => name && !NAMES.includes(name));
}

/** The words of a filter that may be in texts of requests and answers. @param {string} text @returns {string[]} */
export function searched(text) {
  const words = [...text.matchAll(WORD)].map(([, , name, quoted, word]) => {
    const known = (name ?? "").slice(0, -1).toLowerCase(), value = quoted ?? word;
    return known === "text" ? value : NAMES.includes(known) ? "" : `${name ?? ""}${value}`;
  });
  return [...new Set(words)].filter((word) => word.length >= SHORTEST);
}

/**
 * What a filter lets through.
 * @param {string} text
 * @param {Has} [has]
 * @returns {Fits}
 */
export function filter(text, has = () => false) {
  const words = [...text.matchAll(WORD)].map(([, not, name, quoted, word]) =>
    one(not === "-", (name ?? "").slice(0, -1).toLowerCase(), name ?? "", quoted ?? word, has));
  return (call) => words.every((fits) => fits(call));
}

/**
 * @param {boolean} turned
 * @param {string} name
 * @param {string} written the name as it was written, with its colon
 * @param {string} value
 * @param {Has} has
 * @returns {Fits}
 */
function one(turned, name, written, value, has) {
  const inTexts = (/** @type {any} */ call) => has(name === "text" ? value : written + value, call);
  const fits = name === "text" ? inTexts : Object.hasOwn(NUMBERS, name) ? number(NUMBERS[name], value)
    : Object.hasOwn(TEXTS, name) ? text(TEXTS[name], value) : anywhere(written + value, inTexts);
  return (call) => fits(call) !== turned;
}

/** @param {string} value @param {Fits} inTexts @returns {Fits} */
function anywhere(value, inTexts) {
  const wanted = value.toLowerCase();
  return (call) => Object.values(TEXTS).some((read) => String(read(call) ?? "").toLowerCase().includes(wanted)) || inTexts(call);
}

/** @param {(call: any) => unknown} read @param {string} value @returns {Fits} */
function text(read, value) {
  const wanted = value.toLowerCase();
  return (call) => String(read(call) ?? "").toLowerCase().includes(wanted);
}

/** `4xx`, `>2`, `<=0.5`, `250ms`, `200`. @param {(call: any) => number | undefined} read @param {string} value @returns {Fits} */
function number(read, value) {
  const kind = /^([1-5])xx$/i.exec(value);
  if (kind) return (call) => Math.floor((read(call) ?? 0) / 100) === Number(kind[1]);
  const told = /^(>=|<=|>|<|=)?([0-9]*\.?[0-9]+)(ms|s|k)?$/i.exec(value);
  if (!told) return () => false;
  const bound = Number(told[2]) * ({ ms: 0.001, k: 1000 }[(told[3] ?? "").toLowerCase()] ?? 1);
  return (call) => {
    const it = read(call);
    if (it === undefined || it === null) return false;
    switch (told[1]) {
      case ">": return it > bound;
      case "<": return it < bound;
      case ">=": return it >= bound;
      case "<=": return it <= bound;
      default: return it === bound;
    }
  };
}
