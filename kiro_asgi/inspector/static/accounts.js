// @ts-check
/** Which credentials there are, which of them rest, and until when; models and settings; only this process is asked. */

import { ask } from "./api.js";
import { h, table } from "./dom.js";
import { clock } from "./format.js";

const AGAIN = 5000; // ms

const lists = /** @type {Record<string, string>} */ ({ listed: "✓ known", asking: "… being fetched", unasked: "not fetched yet" });

/** @param {number} left seconds */
const until = (left) => `until ${clock(Date.now() / 1000 + left)} (${left} s)`;

export class Accounts {
  #found = h("div");
  element = h("section", { class: "page", "aria-label": "State" }, h("h2", {}, "State"), this.#found);

  async show() {
    try {
      this.#draw(await ask("accounts"));
    } catch (error) {
      this.#found.replaceChildren(h("p", { class: "note", role: "alert" }, /** @type {Error} */ (error).message));
    }
    setTimeout(() => this.element.isConnected && this.show(), AGAIN);
  }

  /** @param {any} told */
  #draw(told) {
    const rests = new Map(told.resting.map((/** @type {any} */ each) => [each.credential, each]));
    const limits = new Map(told.at_limit.map((/** @type {any} */ each) => [each.credential, each]));
    const rows = told.upstreams.flatMap((/** @type {any} */ upstream) => upstream.credentials.map((/** @type {string} */ name) => {
      const rest = rests.get(name), limit = limits.get(name);
      const state = rest ? h("span", { class: "bad" }, `⏸ rests: ${rest.words ?? rest.reason}`) : limit ? h("span", { class: "left" }, `⏸ at its limit: ${limit.limit}`) : h("span", { class: "good" }, "✓ in use");
      const left = Object.entries(told.allowances[name] ?? {}).filter(([header]) => header.includes("remaining")).map(([header, value]) => `${header.replace(/^.*ratelimit-/, "")} ${value}`);
      return [upstream.name, name, state, rest ? until(rest.seconds) : limit ? until(limit.seconds) : "", left.join(", ")];
    }));
    const reasons = [...told.reasons, ...told.degraded];
    this.#found.replaceChildren(
      h("p", {}, told.ready ? h("span", { class: "good" }, "✓ ready") : h("span", { class: "bad" }, "✗ not ready"), reasons.length ? `: ${reasons.join(", ")}` : ""),
      table("Credentials, in the order in which they are used", ["Upstream", "Credential", "State", "Until", "Left, as its last answer said"], rows),
      h("p", { class: "note" }, "This view sends no request. What is left is what the service's last answer said. kiro-asgi doctor asks for the quota of a month; a credential whose quota is spent rests here."),
      table("Refused by a service, and asked otherwise since then", ["Upstream", "Model", "Refused", "Together with", "For", "Seconds left"], told.adapted.map((/** @type {any} */ each) => [each.upstream, each.model, each.refused, each.with.join(", "), each.for, String(each.seconds_left)])),
      table("Known models, by upstream", ["Upstream", "Its own list", "Models"], Object.entries(told.models).map(([name, models]) => [name, lists[told.lists[name]] ?? h("span", { class: "bad" }, `⚠ ${told.lists[name]}`), h("span", { class: "models" }, models.join(", "))])),
      table("Settings that differ from their defaults (without secrets, addresses and names of persons)", ["Setting", "Value"], told.settings.map((/** @type {any} */ [path, value]) => [path, JSON.stringify(value)])),
      h("p", { class: "note" }, `kiro_asgi ${told.version}`));
  }
}
