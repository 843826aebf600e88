// @ts-check
/** The page: who looks, what the address asks for, and keys. */

import { Accounts } from "./accounts.js";
import { Refused, session, signIn, signOut } from "./api.js";
import { Detail } from "./detail.js";
import { h } from "./dom.js";
import { CallList } from "./list.js";
import { Live } from "./live.js";
import { Usage } from "./usage.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const light = /** @type {HTMLElement} */ (document.getElementById("live"));
const leave = /** @type {HTMLElement} */ (document.getElementById("leave"));
const workers = /** @type {HTMLElement} */ (document.getElementById("workers"));

/** What of a call needs the whole width: there the list gives way. */
const WIDE = new Set(["stream", "request", "compare"]);

const WORDS = { connecting: "○ connecting", live: "● live", paused: "⏸ paused", away: "○ the gateway does not answer; trying again" };

/** @param {string} [words] */
function askForSecret(words) {
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "password", id: "secret", autocomplete: "current-password", required: true }));
  const problem = h("p", { role: "alert", class: "bad" }, words ?? "");
  main.replaceChildren(h("form", { class: "login", submit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await signIn(input.value);
      begin();
    } catch (error) {
      problem.textContent = /** @type {Error} */ (error).message;
      input.select();
    }
  } }, h("h2", {}, "Sign in"), h("p", {}, "kiro-asgi serve --inspect prints a link that signs you in. You can also enter the value of inspector.secret."),
  h("label", { for: "secret" }, "Secret"), input, h("button", { type: "submit" }, "Sign in"), problem));
  input.focus();
}

async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname + location.search);
  try {
    const told = token ? await signIn(token) : await session();
    if (!told.signed_in) return askForSecret();
    begin(told.by_host);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) askForSecret(error.message);
    else main.replaceChildren(h("p", { class: "note", role: "alert" }, /** @type {Error} */ (error).message));
  }
}

/** Which process this is, and where the others show their calls. @param {{worker: number, workers: string[]}} room */
function showWorkers({ worker, workers: all }) {
  if (!all.length || workers.childNodes.length) return;
  const others = all.flatMap((url, at) => (at + 1 === worker ? [] : [" ", h("a", { href: url }, `worker ${at + 1}`)]));
  workers.append(h("span", {}, `Worker ${worker} of ${all.length}.`), h("span", {}, " Calls of the others:"), ...others);
  workers.hidden = false;
}

let begun = false;

/** @param {boolean} [byHost] whether the host decides who may look */
function begin(byHost = false) {
  if (begun) return;
  begun = true;
  leave.hidden = byHost;
  const live = new Live(), list = new CallList(live), detail = new Detail(), usage = new Usage(), accounts = new Accounts();
  const calls = h("div", { class: "panes" }, list.element, detail.element);
  const pages = /** @type {Record<string, {element: Element, show?: () => void}>} */ ({ calls: { element: calls }, call: { element: calls }, usage, accounts });

  const route = () => {
    const [where, query] = location.hash.slice(1).split("?"), [name, id, tab] = where.split("/"), known = name in pages ? name : "calls";
    const page = pages[known];
    if (main.firstChild !== page.element) main.replaceChildren(page.element);
    if (known === "calls" && query !== undefined) list.filter = new URLSearchParams(query).get("q") ?? "";
    const chosen = known === "call" ? decodeURIComponent(id ?? "") : "";
    calls.classList.toggle("two", Boolean(chosen));
    calls.classList.toggle("wide", WIDE.has(tab ?? ""));
    if (known === "calls" || known === "call") {
      list.select(chosen);
      detail.show(chosen, tab);
      list.refresh();
    } else page.show?.();
    for (const link of document.querySelectorAll("nav a")) {
      const current = link.getAttribute("href") === `#${known === "call" ? "calls" : known}`;
      if (current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };

  /** Show another call the same way. @param {string} id */
  const go = (id) => {
    const [name, , tab] = location.hash.slice(1).split("/");
    if (id && name === "call") location.replace(`#call/${encodeURIComponent(id)}/${tab ?? "facts"}`);
  };

  list.onfilter = (text) => history.replaceState(null, "", text ? `#calls?${new URLSearchParams({ q: text })}` : "#calls");
  live.addEventListener("change", () => {
    if (light.textContent !== WORDS[live.state]) light.textContent = WORDS[live.state];
    showWorkers(live.room);
  });
  const keys = /** @type {Record<string, () => void>} */ ({
    j: () => go(list.move(1)),
    k: () => go(list.move(-1)),
    Enter: () => { const id = list.selected; if (id) location.hash = `call/${encodeURIComponent(id)}`; },
    p: () => live.toggle(),
    "/": () => list.focusFilter(),
    Escape: () => { if (location.hash.startsWith("#call/")) location.hash = "calls"; },
  });
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const busy = target.matches("input, select, textarea, button, a, summary, [role=listbox]") && (event.key === "Enter" || !target.matches("button, a, summary, [role=listbox]"));
    if (busy || event.ctrlKey || event.altKey || event.metaKey || !(event.key in keys) || !calls.isConnected) return;
    event.preventDefault();
    keys[event.key]();
  });
  addEventListener("hashchange", route);
  route();
  live.start();
}

leave.addEventListener("click", async () => {
  await signOut();
  location.reload();
});
enter();
