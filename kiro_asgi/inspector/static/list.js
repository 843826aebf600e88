// @ts-check
/** The list of calls.  Only the rows in sight are in the page, so ten thousand are as quick as ten. */

import { ask } from "./api.js";
import { h, plain } from "./dom.js";
import { CHIPS, filter, NAMES, searched, unknown } from "./filter.js";
import { bytes, many, model, moment, money, pace, seconds, standing, tokens } from "./format.js";

const HEIGHT = 32; // px of a row, as in app.css
const AROUND = 10; // rows above and below those in sight

/** What was asked, and which tools were called. @param {any} call @param {any} [glimpse] */
function asked(call, glimpse) {
  return [...(glimpse?.tools ?? []).map((/** @type {string} */ each) => h("span", { class: "tool", title: `calls ${each}` }, `⚙ ${each}`)), h("span", { title: glimpse?.asked || false }, glimpse?.asked ?? "")];
}

/** Columns: head, what is in a cell, and its class; those of class `most` are left out unless the screen is wide, and those of class `more` on narrow ones. */
const COLUMNS = /** @type {[string, (call: any, glimpse?: any) => any, string][]} */ ([
  ["Time", (call) => h("a", { href: `#call/${encodeURIComponent(call.id)}` }, moment(call.time)), ""],
  ["Outcome", (call) => [call.pinned ? "📌 " : "", outcome(call)], "outcome"],
  ["Asked", asked, "asked"],
  ["Model", model, "name"],
  ["API", (call) => call.api, "more most"],
  ["Upstream", (call) => call.upstream ?? "", "more most"],
  ["Key", (call) => call.principal ?? "", "more"],
  ["Total", (call) => seconds(call.state === "ended" ? call.seconds : (performance.now() - call.began) / 1000), "number more"],
  ["First", (call) => seconds(call.first), "number more"],
  ["Tokens", (call) => tokens(call.usage), "number more"],
  ["Tokens/s", (call) => pace(call.tokens_per_second), "number more most"],
  ["Cost", money, "number more"],
  ["Tries", (call) => call.attempts || "", "number more"],
]);

/** @param {any} call */
function outcome(call) {
  const { mark, words, kind, more } = standing(call), all = (call.remarks ?? []).map((/** @type {any} */ each) => `${each.words} (${each.code})`);
  return h("span", { class: kind, title: all.length ? all.join("\n") : false }, h("span", { "aria-hidden": "true" }, `${mark} `), words, more ? h("span", { class: "more-remarks" }, more) : "");
}

export class CallList {
  /** @type {any[]} */ #shown = [];
  /** @type {Map<number, {call: any, glimpse: any, row: HTMLElement}>} */ #rows = new Map();
  #selected = "";
  /** Words of the filter that are searched for in texts. @type {string[]} */ #words = [];
  #content = "";
  #fits = filter("");
  #above = /** @type {HTMLElement} */ (h("tr", { "aria-hidden": "true" }, h("td", { colspan: COLUMNS.length })));
  #below = /** @type {HTMLElement} */ (h("tr", { "aria-hidden": "true" }, h("td", { colspan: COLUMNS.length })));
  #body = h("tbody");
  #pause = h("button", { type: "button", click: () => this.live.toggle() }, "Pause");
  #chips = CHIPS.map(([name, word, what]) => ({ name, word, button: h("button", { type: "button", class: "chip", title: what, "aria-pressed": "false", click: () => this.#chip(word) }) }));
  #problem = h("p", { class: "note unknown", role: "status", hidden: true });
  #search = h("p", { class: "note unknown", role: "status", hidden: true });
  #nothing = h("p", { class: "note nothing", hidden: true });
  #count = h("p", { class: "count", "aria-live": "polite" });
  #room = h("p", { class: "room", title: "The list has the calls of one process of the gateway; others have their own" });
  #input = /** @type {HTMLInputElement} */ (h("input", {
    id: "filter", type: "search", spellcheck: "false", autocomplete: "off",
    placeholder: "status:4xx  model:sonnet  key:alice  slow:>5s  first:>2s  rule:  -outcome:complete",
    input: () => { this.#refilter(); this.onfilter(this.#input.value); },
  }));
  #table = h("table", { class: "calls" },
    h("caption", { class: "unseen" }, "Calls, the newest first"),
    h("thead", {}, h("tr", {}, ...COLUMNS.map(([head, , kind]) => h("th", { scope: "col", class: kind || false }, head)))),
    this.#body);
  #pane = h("div", { class: "rows", tabindex: "0", role: "region", "aria-label": "Calls", scroll: () => this.#draw() }, this.#table, this.#nothing);

  /** Told of a filter that somebody writes. @type {(text: string) => void} */
  onfilter = () => {};

  /** @param {import("./live.js").Live} live */
  constructor(live) {
    this.live = live;
    this.element = h("section", { class: "list", "aria-label": "List of calls" },
      h("div", { class: "bar" },
        h("label", { for: "filter" }, "Filter"), this.#input,
        this.#pause,
        h("button", { type: "button", title: "Delete all calls that have ended and are not pinned", click: () => ask("calls", { method: "DELETE" }) }, "Clear"),
        this.#count, this.#room),
      h("div", { class: "bar chips", role: "group", "aria-label": "Show only" }, ...this.#chips.map(({ button }) => button)),
      this.#problem, this.#search,
      h("details", { class: "help" }, h("summary", {}, "How to filter"),
        h("p", {}, `Words that occur anywhere, also in requests and answers where the gateway keeps them, or name:value. A call matches if all of them fit. Names: ${NAMES.join(", ")}. Numbers take >, <, >=, <=, and s, ms or k behind them; status takes 4xx. A - before a word excludes calls that match it. Keys: j and k go down and up, Enter opens, / filters, p pauses, Escape closes.`)),
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

  /** Put a word into the filter, or take it out. @param {string} word */
  #chip(word) {
    const words = this.#input.value.split(" ").filter(Boolean), rest = words.filter((each) => each !== word);
    this.#input.value = (rest.length < words.length ? rest : [...words, word]).join(" ");
    this.#refilter();
    this.onfilter(this.#input.value);
  }

  #refilter() {
    this.#fits = filter(this.#input.value, (word, call) => this.live.search.has(word, call));
    this.#words = searched(this.#input.value);
    this.live.search.words = this.live.content === "full" ? this.#words : [];
    const names = unknown(this.#input.value);
    this.#problem.toggleAttribute("hidden", !names.length);
    this.#problem.textContent = `There is no field ${names.map((name) => `“${plain(name)}”`).join(", ")}, so the filter looks for it as text. The fields are: ${NAMES.join(", ")}.`;
    this.refresh();
  }

  /** Show what the gateway keeps now. */
  refresh() {
    this.#shown = this.live.matching(this.#fits);
    const all = this.live.calls.size, { bytes: used, most_bytes: most, process } = this.live.room;
    const words = this.#shown.length === all ? many(all, "call") : `${this.#shown.length.toLocaleString("en")} of ${many(all, "call")}`;
    if (this.#count.textContent !== words) this.#count.textContent = words;
    this.#pause.textContent = this.live.state === "paused" ? "Resume" : "Pause";
    this.#room.textContent = most ? `Recorded: ${bytes(used)}, room for ${bytes(most)}; process ${process}` : "";
    this.#searching();
    this.#table.classList.toggle("bare", this.live.content === "none");
    for (const { name, word, button } of this.#chips) {
      const trait = word.split(":")[1], label = `${name} ${this.live.having(trait).toLocaleString("en")}`;
      if (button.textContent !== label) button.textContent = label;
      button.setAttribute("aria-pressed", String(this.#input.value.split(" ").includes(word)));
    }
    this.#nothing.toggleAttribute("hidden", this.#shown.length > 0 || this.live.state === "connecting");
    this.#nothing.textContent = all ? "No call matches this filter." : "No calls yet. Send the gateway a request, and it appears here at once.";
    this.#draw();
  }

  #searching() {
    const { content, search } = this.live, full = content === "full";
    if (content !== this.#content) search.words = full ? this.#words : [];
    this.#content = content;
    const told = !this.#words.length ? "" : !full ? "Only names are searched: the gateway keeps texts of requests and answers with inspector.content = \"full\"."
      : search.problem ? search.problem : search.left ? `Searching requests and answers: ${many(search.left, "call")} left.` : "";
    if (this.#search.textContent !== told) this.#search.textContent = told;
    this.#search.toggleAttribute("hidden", !told);
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
      const glimpse = this.live.content === "none" ? undefined : this.live.glimpses.of(call);
      const row = known?.call === call && known.glimpse === glimpse && call.state === "ended" ? known.row : this.#row(call, glimpse);
      row.setAttribute("aria-rowindex", String(first + at + 2));
      rows.set(call.number, { call, glimpse, row });
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

  /** @param {any} call @param {any} glimpse */
  #row(call, glimpse) {
    const chosen = call.id === this.#selected;
    return h("tr", { class: chosen ? "chosen" : false, "aria-current": chosen ? "true" : false, click: () => { location.hash = `call/${encodeURIComponent(call.id)}`; } },
      ...COLUMNS.map(([, cell, kind]) => h("td", { class: kind || false }, ...[cell(call, glimpse)].flat())));
  }
}
