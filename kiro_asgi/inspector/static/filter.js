// @ts-check
/**
 * The filter of the list: words that all have to fit, each a text that occurs anywhere, or `name:value`.  A `-` before a
 * word turns it around; `"` holds words together.  Nothing here knows of the page.
 */

import { model } from "./format.js";

/** Names to what is compared: texts that are to occur, or numbers. */
const TEXTS = /** @type {Record<string, (call: any) => unknown>} */ ({
  api: (call) => call.api,
  code: (call) => call.code,
  error: (call) => call.error,
  finish: (call) => call.finish,
  has: (call) => [call.usage?.thinking && "thinking", call.finish === "tool_call" && "tool", call.pinned && "pin", call.rules?.length && "rule", call.notices && "notice"].filter(Boolean).join(" "),
  id: (call) => call.id,
  key: (call) => call.principal,
  model,
  outcome: (call) => call.outcome ?? call.state,
  path: (call) => call.path,
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
  cost: (call) => call.cost,
});

export const NAMES = [...Object.keys(TEXTS), ...Object.keys(NUMBERS)].sort();

/** @typedef {(call: any) => boolean} Fits */

/**
 * What a filter lets through.
 * @param {string} text
 * @returns {Fits}
 */
export function filter(text) {
  const words = [...text.matchAll(/(-?)([a-z]+:)?(?:"([^"]*)"?|(\S+))/gi)].map(([, not, name, quoted, word]) =>
    one(not === "-", (name ?? "").slice(0, -1).toLowerCase(), quoted ?? word));
  return (call) => words.every((fits) => fits(call));
}

/**
 * @param {boolean} turned
 * @param {string} name
 * @param {string} value
 * @returns {Fits}
 */
function one(turned, name, value) {
  const fits = name in NUMBERS ? number(NUMBERS[name], value) : name in TEXTS ? text(TEXTS[name], value) : anywhere(name, value);
  return (call) => fits(call) !== turned;
}

/** @param {string} name @param {string} value @returns {Fits} */
function anywhere(name, value) {
  const wanted = (name ? `${name}:${value}` : value).toLowerCase();
  return (call) => Object.values(TEXTS).some((read) => String(read(call) ?? "").toLowerCase().includes(wanted));
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
