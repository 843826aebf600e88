// @ts-check
/** JSON as a tree that opens and closes. */

import { h } from "./dom.js";

const MOST = 500; // members of one level

/**
 * @param {any} value
 * @param {string} [name]
 * @param {number} [depth]
 * @returns {Node}
 */
export function tree(value, name = "", depth = 0) {
  const head = name ? [h("span", { class: "member" }, name), ": "] : [];
  if (value === null || typeof value !== "object") return h("div", { class: "leaf" }, ...head, leaf(value));
  const members = Object.entries(value), list = Array.isArray(value);
  if (!members.length) return h("div", { class: "leaf" }, ...head, list ? "[]" : "{}");
  const inner = h("div", { class: "branch" });
  const fill = () => {
    if (inner.childNodes.length) return;
    inner.append(...members.slice(0, MOST).map(([key, part]) => tree(part, key, depth + 1)));
    if (members.length > MOST) inner.append(h("div", { class: "note" }, `and ${members.length - MOST} more`));
  };
  const details = h("details", { open: depth < 2, toggle: fill }, h("summary", {}, ...head, list ? `[${members.length}]` : `{${members.length}}`), inner);
  if (depth < 2) fill();
  return details;
}

/** @param {unknown} value */
export function leaf(value) {
  const kind = value === null ? "null" : typeof value;
  return h("span", { class: `value ${kind}` }, kind === "string" ? JSON.stringify(value) : String(value));
}
