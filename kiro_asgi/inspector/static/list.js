// @ts-check
/** The list of calls.  Only the rows in sight are in the page, so ten thousand are as quick as ten. */

import { ask } from "./api.js";
import { h } from "./dom.js";
import { filter, NAMES } from "./filter.js";
import { bytes, clock, cost, count, model, seconds, standing, tokens } from "./format.js";

const HEIGHT = 32; // px of a row, as in app.css
const AROUND = 10; // rows above and below those in sight

/** Columns: head, what is in a cell, and its class; those of class `more` are left out on narrow screens. */
const COLUMNS = /** @type {[string, (call: any) => any, string][]} */ ([
  ["Time", (call) => h("a", { href: `#call/${encodeURIComponent(call.id)}` }, clock(call.time)), ""],
  ["Outcome", (call) => [call.pinned ? "📌 " : "", outcome(call)], ""],
  ["API", (call) => call.api, "more"],
  ["Model", model, "name"],
  ["Upstream", (call) => call.upstream ?? "", "more"],
  ["Key", (call) => call.principal ?? "", "more"],
  ["Total", (call) => seconds(call.state === "ended" ? call.seconds : (performance.now() - call.began) / 1000), "number"],
  ["First", (call) => seconds(call.first), "number more"],
  ["Tokens", (call) => tokens(call.usage), "number more"],
  ["Tokens/s", (call) => count(call.tokens_per_second), "number more"],
  ["Cost", (call) => cost(call.cost), "number more"],
  ["Tries", (call) => call.attempts || "", "number more"],
]);

/** @param {any} call */
function outcome(call) {
  const { mark, words, kind } = standing(call);
  return h("span", { class: kind, title: call.error ? `${call.error} ${call.code ?? ""}` : false }, h("span", { "aria-hidden": "true" }, `${mark} `), words);
}

export class CallList {
  /** @type {any[]} */ #shown = [];
  /** @type {Map<number, {call: any, row: HTMLElement}>} */ #rows = new Map();
  #selected = "";
  #fits = filter("");
  #above = /** @type {HTMLElement} */ (h("tr", { "aria-hidden": "true" }, h("td", { colspan: COLUMNS.length })));
  #below = /** @type {HTMLElement} */ (h("tr", { "aria-hidden": "true" }, h("td", { colspan: COLUMNS.length })));
  #body = h("tbody");
  #pause = h("button", { type: "button", click: () => this.live.toggle() }, "Pause");
  #count = h("p", { class: "count", "aria-live": "polite" });
  #room = h("p", { class: "room" });
  #input = /** @type {HTMLInputElement} */ (h("input", {
    id: "filter", type: "search", spellcheck: "false", autocomplete: "off",
    placeholder: "status:4xx  model:sonnet  key:alice  slow:>5s  first:>2s  rule:  -outcome:complete",
    input: () => { this.#refilter(); this.onfilter(this.#input.value); },
  }));
  #table = h("table", { class: "calls" },
    h("caption", { class: "unseen" }, "Calls, the newest first"),
    h("thead", {}, h("tr", {}, ...COLUMNS.map(([head, , kind]) => h("th", { scope: "col", class: kind || false }, head)))),
    this.#body);
  #pane = h("div", { class: "rows", tabindex: "0", role: "region", "aria-label": "Calls", scroll: () => this.#draw() }, this.#table);

  /** Told of a filter that somebody writes. @type {(text: string) => void} */
  onfilter = () => {};

  /** @param {import("./live.js").Live} live */
  constructor(live) {
    this.live = live;
    this.element = h("section", { class: "list", "aria-label": "List of calls" },
      h("div", { class: "bar" },
        h("label", { for: "filter" }, "Filter"), this.#input,
        this.#pause,
        h("button", { type: "button", title: "Let go of all calls that have ended and are not pinned", click: () => ask("calls", { method: "DELETE" }) }, "Clear"),
        this.#count, this.#room),
      h("details", { class: "help" }, h("summary", {}, "How to filter"),
        h("p", {}, `Words that occur anywhere, or name:value, all of which have to fit. Names: ${NAMES.join(", ")}. Numbers take >, <, >=, <=, and s, ms or k behind them; status takes 4xx. A - before a word turns it around. Keys: j and k go down and up, Enter opens, / filters, p pauses, Escape closes.`)),
      this.#pane);
    live.addEventListener("change", () => this.refresh());
    new ResizeObserver(() => this.#draw()).observe(this.#pane);
    setInterval(() => this.#draw(), 250);
  }

  /** @param {string} text */
  set filter(text) {
    if (this.#input.value !== text) this.#input.value = text;
    this.#refilter();
  }

  get filter() {
    return this.#input.value;
  }

  focusFilter() {
    this.#input.focus();
  }

  #refilter() {
    this.#fits = filter(this.#input.value);
    this.refresh();
  }

  /** Show what the gateway keeps now. */
  refresh() {
    this.#shown = this.live.matching(this.#fits);
    const all = this.live.calls.size, { bytes: used, most_bytes: most } = this.live.room;
    const words = this.#shown.length === all ? `${all} calls` : `${this.#shown.length} of ${all} calls`;
    if (this.#count.textContent !== words) this.#count.textContent = words;
    this.#pause.textContent = this.live.state === "paused" ? "Go on" : "Pause";
    this.#room.textContent = most ? `${bytes(used)} of ${bytes(most)}` : "";
    this.#draw();
  }

  /** The call whose row is marked. @param {string} id */
  select(id) {
    this.#selected = id;
    this.#rows.clear();
    this.#draw();
  }

  get selected() {
    return this.#selected;
  }

  /** Go to the next call, or the one before; gives its id. @param {number} step */
  move(step) {
    if (!this.#shown.length) return "";
    const at = this.#shown.findIndex((call) => call.id === this.#selected);
    const next = at < 0 ? 0 : Math.min(Math.max(at + step, 0), this.#shown.length - 1);
    const top = next * HEIGHT, room = this.#pane.clientHeight - 2 * HEIGHT;
    if (top < this.#pane.scrollTop) this.#pane.scrollTop = top;
    else if (top > this.#pane.scrollTop + room) this.#pane.scrollTop = top - room;
    this.select(this.#shown[next].id);
    return this.#shown[next].id;
  }

  #draw() {
    if (!this.element.isConnected) return;
    const first = Math.max(Math.floor(this.#pane.scrollTop / HEIGHT) - AROUND, 0);
    const last = Math.min(Math.ceil((this.#pane.scrollTop + this.#pane.clientHeight) / HEIGHT) + AROUND, this.#shown.length);
    const calls = this.#shown.slice(Math.min(first, last), last), rows = new Map();
    for (const [at, call] of calls.entries()) {
      const known = this.#rows.get(call.number);
      const row = known?.call === call && call.state === "ended" ? known.row : this.#row(call);
      row.setAttribute("aria-rowindex", String(first + at + 2));
      rows.set(call.number, { call, row });
    }
    this.#rows = rows;
    this.#table.setAttribute("aria-rowcount", String(this.#shown.length + 1));
    for (const [row, rest] of /** @type {[HTMLElement, number][]} */ ([[this.#above, Math.min(first, last)], [this.#below, this.#shown.length - last]])) {
      row.style.height = `${rest * HEIGHT}px`;
      row.hidden = rest === 0;
    }
    const wanted = [this.#above, ...calls.map((call) => rows.get(call.number).row), this.#below];
    const present = this.#body.children;
    if (wanted.length === present.length && wanted.every((row, at) => row === present[at])) return;
    const focused = document.activeElement?.getAttribute("href");
    const inside = this.#body.contains(document.activeElement);
    this.#body.replaceChildren(...wanted);
    if (inside && focused) /** @type {HTMLElement | null} */ (this.#body.querySelector(`a[href="${CSS.escape(focused)}"]`))?.focus({ preventScroll: true });
  }

  /** @param {any} call */
  #row(call) {
    const chosen = call.id === this.#selected;
    return h("tr", { class: chosen ? "chosen" : false, "aria-current": chosen ? "true" : false, click: () => { location.hash = `call/${encodeURIComponent(call.id)}`; } },
      ...COLUMNS.map(([, cell, kind]) => h("td", { class: kind || false }, ...[cell(call)].flat())));
  }
}
