// @ts-check
/** Numbers in words. */

/** @param {number | undefined | null} value in seconds */
export function seconds(value) {
  if (value === undefined || value === null) return "";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  return value < 100 ? `${value.toFixed(value < 10 ? 2 : 1)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

/** @param {number | undefined | null} value */
export function count(value) {
  if (value === undefined || value === null) return "";
  if (value < 10_000) return String(value < 100 ? Math.round(value * 100) / 100 : Math.round(value));
  return value < 1e6 ? `${(value / 1000).toFixed(1)} k` : `${(value / 1e6).toFixed(2)} M`;
}

/** Tokens in a second. @param {number | undefined | null} value */
export function pace(value) {
  return value === undefined || value === null ? "" : value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

/** @param {number} value in bytes */
export function bytes(value) {
  if (value < 1024) return `${value} B`;
  const [size, unit] = value < 1024 ** 2 ? [value / 1024, "KiB"] : value < 1024 ** 3 ? [value / 1024 ** 2, "MiB"] : [value / 1024 ** 3, "GiB"];
  return `${size.toFixed(1).replace(/\.0$/, "")} ${unit}`;
}

const WHY = /** @type {Record<string, string>} */ ({
  "mismatched delimiters": "braces of its JSON are not closed",
  "mismatched brackets": "brackets of its JSON are not closed",
  "unbalanced delimiters": "its JSON is not closed",
  "malformed JSON": "its arguments are not JSON",
});

/** Why a call could not be delivered; the model is told in the words of the record. @param {string} reason */
export function why(reason) {
  return WHY[reason] ?? reason;
}

/** The time of a day, and the day if it is another. @param {number} time in seconds since the epoch */
export function moment(time) {
  const when = new Date(time * 1000);
  return when.toDateString() === new Date().toDateString() ? clock(time) : `${when.toLocaleDateString("en-CA")} ${clock(time)}`;
}

/** @param {number} time in seconds since the epoch */
export function clock(time) {
  const when = new Date(time * 1000);
  return [when.getHours(), when.getMinutes(), when.getSeconds()].map((each) => String(each).padStart(2, "0")).join(":");
}

const SIGNS = /** @type {Record<string, string>} */ ({ USD: "$", EUR: "€", GBP: "£" });

/** @param {number | undefined | null} value @param {string} currency of the operator's prices */
export function cost(value, currency) {
  if (value === undefined || value === null) return "";
  const least = value > 0 && value < 0.0001, sign = SIGNS[currency];
  const digits = value === 0 ? "0" : least ? "0.0001" : value < 0.01 ? value.toFixed(4) : value.toFixed(value < 1 ? 3 : 2);
  return `${least ? "< " : ""}${sign ?? ""}${digits}${sign ? "" : ` ${currency}`}`;
}

/** @param {number} value as the service meters them */
export function credits(value) {
  return value ? String(Number(value.toFixed(4))) : "";
}

/** What one answer cost, `≈` before what was estimated: the two are never one sum. @param {any} call */
export function money(call) {
  if (call.cost === undefined) return "";
  const estimated = call.estimated_cost ? [`≈${cost(call.estimated_cost, call.currency)}`] : [];
  return (call.cost || !estimated.length ? [cost(call.cost, call.currency), ...estimated] : estimated).join(" + ");
}

/** Tokens of one answer, `≈` before those that the service did not tell. @param {any} usage */
export function tokens(usage) {
  if (!usage) return "";
  const prompt = usage.input + usage.cache_read + usage.cache_write;
  return `${usage.input_estimated ? "≈" : ""}${count(prompt)} + ${usage.output_estimated ? "≈" : ""}${count(usage.output)}`;
}

/** The model that was asked for, and the one that was asked. @param {any} call */
export function model(call) {
  const asked = call.model || "", used = call.upstream_model || "";
  return !used || asked === used ? asked || used : asked ? `${asked} → ${used}` : used;
}

const FINISHES = /** @type {Record<string, string>} */ ({
  end: "the model had said all", tool_call: "the model called a tool", length: "it was cut, or reached its limit of tokens", context_full: "the context window is full",
  stop_sequence: "a stop sequence came", content_filter: "a filter took the rest", paused: "the service paused", compacted: "the service summed the conversation up", refusal: "the model declined",
});

/** Why a model stopped, in words. @param {string} reason */
export function finishes(reason) {
  return Object.hasOwn(FINISHES, reason) ? FINISHES[reason] : reason;
}

/** A number of things, in the singular or the plural. @param {number} number @param {string} one @param {string} [more] */
export function many(number, one, more = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : more}`;
}

const KINDS = /** @type {Record<string, string>} */ ({ error: "bad", left: "left", notice: "left" });

/** How a call stands, in a mark and words; only one of which nothing is to be said is good. @param {any} call */
export function standing(call) {
  if (call.state !== "ended") return { mark: "▸", words: call.state, kind: "going", more: "" };
  const status = call.status ? `${call.status} ` : "", [worst, ...rest] = call.remarks ?? [];
  if (worst) return { mark: worst.mark, words: `${status}${worst.words}`, kind: KINDS[worst.kind] ?? "left", more: rest.length ? ` +${rest.length}` : "" };
  if (call.outcome === "complete" && call.status && call.status < 400) return { mark: "✓", words: `${status}complete`, kind: "good", more: "" };
  return { mark: "?", words: `${status}${call.outcome ?? "no outcome"}`, kind: "left", more: "" };
}
