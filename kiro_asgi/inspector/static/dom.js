// @ts-check
/** Elements out of values.  Every text becomes a text node, so nothing that a model or a client wrote is ever markup. */

const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/**
 * A text in which characters that hide, or turn others around, are seen.
 * @param {unknown} text
 */
export function plain(text) {
  return String(text).replace(INVISIBLE, (each) => `⟨U+${each.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * @template {Element} T
 * @param {T} element
 * @param {Record<string, unknown>} attributes functions listen to the event of that name, `false` leaves out
 * @param {Child[]} children
 */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, /** @type {EventListener} */ (value));
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, plain(value === true ? "" : value));
  }
  for (const child of children) {
    if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(document.createTextNode(plain(child)));
  }
  return element;
}

/**
 * An element of HTML.
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...Child} children
 */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * An element of SVG.
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...Child} children
 */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/**
 * A table; texts of numbers are at the right.
 * @param {string} caption
 * @param {string[]} heads
 * @param {Child[][]} rows
 * @param {number} [words] columns at the beginning that are no numbers
 */
export function table(caption, heads, rows, words = heads.length) {
  const aligned = (/** @type {number} */ at) => (at < words ? {} : { class: "number" });
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, ...heads.map((head, at) => h("th", { scope: "col", ...aligned(at) }, head)))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, at) => h("td", aligned(at), ...[cell].flat())))))));
}
