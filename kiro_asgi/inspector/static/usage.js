// @ts-check
/** What was used, out of the ledger.  What a service told and what was estimated are never one sum. */

import { ask } from "./api.js";
import { bars } from "./charts.js";
import { h, table } from "./dom.js";
import { cost, count, credits, seconds } from "./format.js";

const PARTS = ["day", "key", "group", "upstream", "model"];

const money = (/** @type {number} */ value, /** @type {any} */ _, /** @type {string} */ currency) => cost(value, currency);

const AMOUNTS = /** @type {[string, string, (value: any, each: any, currency: string) => string][]} */ ([
  ["requests", "Requests", count], ["failures", "Failed", count],
  ["input_tokens", "Input, counted", count], ["estimated_input_tokens", "Input, estimated", count],
  ["output_tokens", "Output, counted", count], ["estimated_output_tokens", "Output, estimated", count],
  ["cache_read_tokens", "From a cache", count], ["cache_write_tokens", "Into a cache", count],
  ["thinking_tokens", "Thinking", count], ["credits", "Credits", credits], ["answers_with_credits", "Credits per answer", (_, each) => credits(each.credits / each.answers_with_credits)],
  ["cost", "Cost, counted", money], ["estimated_cost", "Cost, estimated", money], ["unpriced", "Without a price", count],
]);

/** Every day from one to another. @param {string} first @param {string} last */
function days(first, last) {
  const found = [];
  for (let at = Date.parse(first); at <= Date.parse(last); at += 86_400_000) found.push(new Date(at).toISOString().slice(0, 10));
  return found;
}

export class Usage {
  #by = new Set(["key", "model"]);
  #first = /** @type {HTMLInputElement} */ (h("input", { type: "date", id: "first", change: () => this.show() }));
  #last = /** @type {HTMLInputElement} */ (h("input", { type: "date", id: "last", change: () => this.show() }));
  #csv = h("a", { download: true }, "Table for spreadsheets (CSV)");
  #found = h("div");
  element = h("section", { class: "page", "aria-label": "Usage" },
    h("h2", {}, "Usage"),
    h("form", { class: "bar", submit: (/** @type {Event} */ event) => event.preventDefault() },
      h("label", { for: "first" }, "From"), this.#first, h("label", { for: "last" }, "to"), this.#last,
      h("fieldset", {}, h("legend", {}, "Group by"), ...PARTS.map((part) => h("label", {},
        h("input", { type: "checkbox", checked: this.#by.has(part), change: () => { this.#by.has(part) ? this.#by.delete(part) : this.#by.add(part); this.show(); } }), ` ${part}`))),
      this.#csv),
    this.#found);

  /** Ask, and show what there is. */
  async show() {
    const parts = PARTS.filter((part) => this.#by.has(part)), by = parts.length ? parts : ["key"];
    const query = new URLSearchParams({ by: by.join(",") });
    if (this.#first.value) query.set("first", this.#first.value);
    if (this.#last.value) query.set("last", this.#last.value);
    this.#csv.setAttribute("href", `api/usage.csv?${query}`);
    try {
      const told = await ask(`usage?${query}`);
      this.#csv.toggleAttribute("hidden", !told.kept);
      if (!told.kept) {
        this.#found.replaceChildren(h("p", { class: "note" }, "This gateway keeps no usage. Set state.usage = true to see what was used by day, client and model."));
        return;
      }
      this.#first.value ||= told.first;
      this.#last.value ||= told.last;
      query.set("by", "day");
      this.#draw(by, told, (await ask(`usage?${query}`)).totals);
    } catch (error) {
      this.#found.replaceChildren(h("p", { class: "note", role: "alert" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {string[]} by @param {any} told @param {any[]} daily */
  #draw(by, told, daily) {
    const all = days(told.first, told.last), known = new Map(daily.map((each) => [each.day, each]));
    const of = (/** @type {string} */ name) => all.map((day) => known.get(day)?.[name] ?? 0);
    const failed = of("failures"), first = all.map((day) => {
      const it = known.get(day);
      return it?.answers_with_content ? it.first_content_seconds / it.answers_with_content : 0;
    });
    const columns = AMOUNTS.filter(([name]) => told.totals.some((/** @type {any} */ each) => each[name]));
    this.#found.replaceChildren(
      h("div", { class: "charts" },
        bars("Requests", all, [{ name: "answered", kind: "told", values: of("requests").map((value, at) => value - failed[at]) }, { name: "failed", kind: "failed", values: failed }], count),
        bars("Input tokens", all, [{ name: "counted", kind: "told", values: of("input_tokens") }, { name: "estimated", kind: "estimated", values: of("estimated_input_tokens") }], count),
        bars("Output tokens", all, [{ name: "counted", kind: "told", values: of("output_tokens") }, { name: "estimated", kind: "estimated", values: of("estimated_output_tokens") }], count),
        bars("Time to the first content, on average", all, [{ name: "time to the first content", kind: "told", values: first }], seconds)),
      told.totals.length ? table(`Sums from ${told.first} to ${told.last}${told.cut ? ", the last 5,000" : ""}`,
        [...by, ...columns.map(([, head]) => head), "First content"],
        told.totals.map((/** @type {any} */ each) => [
          ...by.map((part) => each[part]), ...columns.map(([name, , words]) => words(each[name], each, told.currency)),
          each.answers_with_content ? seconds(each.first_content_seconds / each.answers_with_content) : ""]), by.length) : h("p", { class: "note" }, "No call was counted in these days. Usage appears here a few seconds after a call has ended."),
      h("p", { class: "note" }, "Usage is written every few seconds, and belongs to the day on which the call began. Counted: by the service. Estimated: by the gateway, where the service sends no count."));
  }
}
