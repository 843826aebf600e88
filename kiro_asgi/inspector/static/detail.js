// @ts-check
/** All that is known of one call. */

import { ask } from "./api.js";
import { h, table } from "./dom.js";
import { clock, cost, count, model, seconds, standing, tokens } from "./format.js";
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
    ["Stopped because", call.finish],
    ["Tokens", usage && `${tokens(usage)}${usage.thinking ? `, ${count(usage.thinking)} of them thinking` : ""}${usage.cache_read ? `, ${count(usage.cache_read)} read from a cache` : ""}`],
    ["Pace", call.tokens_per_second && `${usage?.output_estimated ? "≈" : ""}${call.tokens_per_second} tokens/s`],
    ["Credits", usage?.credits],
    ["Cost", call.cost !== undefined && cost(call.cost)],
    ["Client made us wait", call.blocked >= 0.01 && seconds(call.blocked)],
    ["Adapted by rules", (call.rules ?? []).join(", ")],
    ["Corrected in the answer", Object.entries(call.notices ?? {}).map(([code, times]) => `${code} × ${times}`).join(", ")],
    ["Id", call.id],
  ]);
  return h("dl", {}, ...rows.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** @param {any} call */
function attempts(call) {
  if (!call.tries.length) return h("p", { class: "note" }, "No service was asked.");
  return table("Attempts", ["No.", "Upstream", "Model", "Credential", "Outcome", "Error", "Began", "Took", "First", "Tokens"], call.tries.map((/** @type {any} */ each) => [
    each.number, each.upstream, each.model, each.credential,
    each.outcome ? `${each.status ? `${each.status} ` : ""}${each.outcome}` : "under way",
    each.error ? `${each.error} ${each.code ?? ""}` : "",
    seconds(each.at), seconds(each.seconds), seconds(each.first), tokens(each.usage),
  ]), 6);
}

export class Detail {
  element = h("section", { class: "detail", "aria-label": "One call", tabindex: "-1", hidden: true });
  #id = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #again;

  /** Show a call; with an empty id, none. @param {string} id */
  async show(id) {
    clearTimeout(this.#again);
    this.element.toggleAttribute("hidden", !id);
    const changed = id !== this.#id;
    this.#id = id;
    if (!id) return;
    if (changed) this.element.replaceChildren(h("p", { class: "note" }, "…"));
    try {
      const call = await ask(`calls/${encodeURIComponent(id)}`);
      if (id !== this.#id) return;
      this.#draw(call);
      if (call.state !== "ended") this.#again = setTimeout(() => this.show(id), 500);
    } catch (error) {
      if (id === this.#id) this.element.replaceChildren(this.#head("Call", ""), h("p", { class: "note", role: "alert" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {any} call */
  #draw(call) {
    const { mark, words, kind } = standing(call), inside = this.element.contains(document.activeElement);
    this.element.replaceChildren(
      this.#head(`${call.method} ${call.route || call.path}`, h("span", { class: kind }, `${mark} ${words}`)),
      timeline(call), h("h3", {}, "Facts"), facts(call), h("h3", {}, "Attempts"), attempts(call));
    if (inside) this.element.focus({ preventScroll: true });
  }

  /** @param {string} title @param {import("./dom.js").Child} more */
  #head(title, more) {
    return h("div", { class: "head" }, h("h2", {}, title), more || "", h("a", { href: "#calls", class: "close" }, "Close"));
  }
}
