// @ts-check
/** All that is known of one call. */

import { answerOf } from "./answer.js";
import { ask } from "./api.js";
import { compareOf } from "./compare.js";
import { conversationOf } from "./conversation.js";
import { h, table } from "./dom.js";
import { clock, count, finishes, model, money, pace, seconds, standing, tokens } from "./format.js";
import { failureOf, problemsOf } from "./problem.js";
import { reportOf } from "./report.js";
import { requestOf } from "./request.js";
import { streamOf } from "./stream.js";
import { timeline } from "./timeline.js";

/** @param {any} call */
function facts(call) {
  const usage = call.usage, rows = /** @type {[string, any][]} */ ([
    ["Request", `${call.method} ${call.path}`],
    ["Began", `${new Date(call.time * 1000).toLocaleDateString()} ${clock(call.time)}`],
    ["Key", call.principal],
    ["Program", call.agent],
    ["Model", model(call)],
    ["Upstream", call.upstream],
    ["Error", call.error && `${call.error} ${call.code ?? ""}`],
    ["Stopped because", call.finish && finishes(call.finish)],
    ["Tokens", usage && `${tokens(usage)}${usage.thinking ? `, ${count(usage.thinking)} of them thinking` : ""}${usage.cache_read ? `, ${count(usage.cache_read)} read from a cache` : ""}`],
    ["Pace", call.tokens_per_second && `${usage?.output_estimated ? "≈" : ""}${pace(call.tokens_per_second)} tokens/s`],
    ["Credits", usage?.credits],
    ["Cost", call.cost !== undefined && money(call)],
    ["Waited for the client", call.blocked >= 0.01 && seconds(call.blocked)],
    ["Adapted by rules", (call.rules ?? []).join(", ")],
    ["Notices, by their codes", Object.entries(call.notices ?? {}).map(([code, times]) => `${code} × ${times}`).join(", ")],
    ["Id", call.id],
  ]);
  return h("dl", {}, ...rows.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** @param {any} call */
function attempts(call) {
  if (!call.tries.length) return h("p", { class: "note" }, "No request was sent to a service.");
  return table("Attempts", ["No.", "Upstream", "Model", "Credential", "Outcome", "Error", "Began", "Took", "First", "Tokens"], call.tries.map((/** @type {any} */ each) => [
    each.number, each.upstream, each.model, each.credential,
    each.outcome ? `${each.status ? `${each.status} ` : ""}${each.outcome}` : "under way",
    each.error ? [h("span", {}, each.said), " ", h("code", { class: "note" }, `${each.error} ${each.code ?? ""}`)] : "",
    seconds(each.at), seconds(each.seconds), seconds(each.first), tokens(each.usage),
  ]), 6);
}

/** What may be taken away, and whether it stays. @param {any} call */
function exportsOf(call) {
  const query = (/** @type {Record<string, string>} */ more) => new URLSearchParams({ call: call.id, ...more });
  const told = h("span", { role: "status", class: "note" });
  const copy = h("button", { type: "button", click: async () => {
    try {
      const { command } = await ask(`curl?${query({ origin: location.origin })}`);
      await navigator.clipboard.writeText(command);
      told.textContent = "Copied; KIRO_ASGI_KEY has to hold a key.";
    } catch (error) {
      told.textContent = /** @type {Error} */ (error).message;
    }
  } }, "Copy as curl");
  const file = (/** @type {string} */ words, /** @type {string} */ address) => h("a", { href: address, download: "" }, words);
  const summary = h("button", { type: "button", click: async () => {
    try {
      await navigator.clipboard.writeText(reportOf(call, await failureOf(call)));
      told.textContent = "Copied.";
    } catch (error) {
      told.textContent = /** @type {Error} */ (error).message;
    }
  } }, "Copy as Markdown");
  const pin = h("button", { type: "button", "aria-pressed": String(Boolean(call.pinned)), click: () => change("pins", call.pinned ? "DELETE" : "PUT") }, call.pinned ? "Unpin" : "Pin");
  const remove = h("button", { type: "button", disabled: call.state !== "ended", click: async () => { await change("calls", "DELETE"); location.hash = "calls"; } }, "Delete");
  const change = async (/** @type {string} */ what, /** @type {string} */ method) => {
    try {
      await ask(`${what}?${query({})}`, { method });
      call.pinned = method === "PUT";
      pin.textContent = call.pinned ? "Unpin" : "Pin";
      pin.setAttribute("aria-pressed", String(call.pinned));
    } catch (error) {
      told.textContent = /** @type {Error} */ (error).message;
    }
  };
  if (!call.recorded) return h("p", { class: "exports" }, summary, " ", pin, " ", remove, " ", told);
  return h("p", { class: "exports" }, copy, " ", summary, " ", pin, " ", remove, " ", file("Save tape", `api/tape?${query({})}`), " ", file("Save masked tape", `api/tape?${query({ content: "masked" })}`), " ", file("Save HAR", `api/har?${query({})}`), " ", told);
}

/** What there is to see of a call: its part of the address, its name, and what makes it. */
const TABS = /** @type {[string, string, (call: any) => Promise<import("./dom.js").Child[]>][]} */ ([
  ["facts", "Facts", async (call) => [...await problemsOf(call), facts(call), attempts(call), exportsOf(call)]],
  ["answer", "Answer", answerOf],
  ["stream", "Stream", streamOf],
  ["request", "Request", requestOf],
  ["conversation", "Conversation", conversationOf],
  ["compare", "Run again", compareOf],
]);

const SOON = 100; // ms until a call under way is looked at again
const REST = 3; // times as long as looking took, so that a long answer keeps the gateway busy for a quarter of the time at most

export class Detail {
  element = h("section", { class: "detail", "aria-label": "One call", tabindex: "-1", hidden: true });
  #top = h("div");
  #panel = h("div", { role: "tabpanel", id: "panel", "aria-labelledby": "tab-facts", tabindex: "-1" });
  #tabs = h("div", { role: "tablist", "aria-label": "What to see of the call", class: "tabs", keydown: (/** @type {Event} */ event) => this.#key(/** @type {KeyboardEvent} */ (event)) });
  #id = "";
  #tab = "";
  #state = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #again;

  /** Show a call; with an empty id, none. @param {string} id @param {string} [tab] */
  async show(id, tab = "facts") {
    clearTimeout(this.#again);
    this.element.toggleAttribute("hidden", !id);
    const known = TABS.some(([name]) => name === tab) ? tab : "facts";
    const changed = id !== this.#id || known !== this.#tab;
    if (id !== this.#id) this.element.replaceChildren(h("p", { class: "note" }, "…"));
    if (changed) this.#state = "";
    [this.#id, this.#tab] = [id, known];
    if (!id) return;
    const began = performance.now();
    try {
      const call = await ask(`calls/${encodeURIComponent(id)}`);
      if (id !== this.#id) return;
      await this.#draw(call);
      if (id === this.#id && call.state !== "ended") this.#again = setTimeout(() => this.show(id, this.#tab), Math.max(SOON, REST * (performance.now() - began)));
    } catch (error) {
      if (id === this.#id) this.element.replaceChildren(this.#head("Call", ""), h("p", { class: "note", role: "alert" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {any} call */
  async #draw(call) {
    const { mark, words, kind } = standing(call), tab = this.#tab, state = `${call.id} ${tab} ${call.state}`;
    this.#top.replaceChildren(this.#head(`${call.method} ${call.route || call.path}`, h("span", { class: kind }, `${mark} ${words}`)), timeline(call));
    if (this.#panel.parentElement !== this.element) this.element.replaceChildren(this.#top, this.#tabs, this.#panel);
    if (this.#state === state && tab !== "facts" && !(call.state !== "ended" && tab === "answer")) return;
    this.#state = state;
    const held = this.#tabs.contains(document.activeElement);
    this.#tabs.replaceChildren(...TABS.map(([name, label]) => h("a", {
      role: "tab", id: `tab-${name}`, href: `#call/${encodeURIComponent(call.id)}/${name}`, "aria-controls": "panel",
      "aria-selected": String(name === tab), tabindex: name === tab ? "0" : "-1",
    }, label)));
    this.#panel.setAttribute("aria-labelledby", `tab-${tab}`);
    if (held) /** @type {HTMLElement | null} */ (this.#tabs.querySelector("[aria-selected=true]"))?.focus();
    const make = TABS.find(([name]) => name === tab)?.[2];
    const parts = await make?.(call).catch((error) => [h("p", { class: "note", role: "alert" }, error.message)]);
    if (call.id !== this.#id || tab !== this.#tab || !parts) return;
    const inside = this.#panel.contains(document.activeElement);
    this.#panel.replaceChildren(...parts.filter(Boolean).map((part) => (part instanceof Node ? part : document.createTextNode(String(part)))));
    if (inside) /** @type {HTMLElement} */ (this.#panel).focus({ preventScroll: true });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = TABS.findIndex(([name]) => name === this.#tab), next = TABS[(at + step + TABS.length) % TABS.length][0];
    location.replace(`#call/${encodeURIComponent(this.#id)}/${next}`);
  }

  /** @param {string} title @param {import("./dom.js").Child} more */
  #head(title, more) {
    return h("div", { class: "head" }, h("h2", {}, title), more || "", h("a", { href: "#calls", class: "close" }, "Close"));
  }
}
