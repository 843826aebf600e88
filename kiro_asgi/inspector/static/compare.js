// @ts-check
/** The call done again, with other settings or other cuts, or beside another call; no service is asked. */

import { ask } from "./api.js";
import { h, table } from "./dom.js";
import { bytes, many, seconds } from "./format.js";

const CUTS = [["recorded", "as they came"], ["1", "into single bytes"], ["7", "into 7 bytes"], ["1000", "into 1000 bytes"], ["random:1", "at random"]];

/** @param {any} told */
function verdict(told) {
  if (told.same) return h("p", { class: "good" }, "The client would be sent what it got, byte for byte.");
  if (told.difference) return h("p", { class: "bad" }, `They differ from byte ${told.difference.offset} on, after ${many(told.difference.event, "event")}.`);
  return h("p", { class: "bad" }, `The bytes are the same. The status was ${told.got.status}, and would be ${told.replay.status}.`);
}

/** @param {any} told @param {string} one what the client got, by a name @param {string} other the replay, by a name */
function result(told, one, other) {
  const { got, replay } = told;
  const events = (/** @type {any} */ run, /** @type {string} */ name) => h("section", { class: "column", "aria-label": name }, h("h3", {}, name),
    h("pre", { tabindex: "0" }, run.events.length ? run.events.join("\n\n") : "(nothing)"));
  return [
    verdict(told),
    table("Runs", ["Run", "Status", "Sent", "Took", "Steps", "Answers not recorded"], [
      [one, got.status, bytes(got.bytes), seconds(got.seconds), "", ""],
      [other, replay.status, bytes(replay.bytes), seconds(replay.seconds), replay.steps, replay.missing],
    ], 1),
    told.difference ? h("p", { class: "note" }, `${many(told.before, "event")} before ${told.before === 1 ? "is" : "are"} the same, and ${told.after} after.`) : "",
    told.difference ? h("div", { class: "lanes two" }, events(got, one), events(replay, other)) : "",
  ];
}

/** @param {any} call */
export async function compareOf(call) {
  const { settings } = await ask(`settings?${new URLSearchParams({ call: call.id })}`);
  const shown = h("section", { "aria-live": "polite", "aria-label": "Comparison" });
  const rule = h("p", { class: "note", id: "rule" });
  const value = /** @type {HTMLInputElement} */ (h("input", { id: "value", autocomplete: "off", size: "12" }));
  const path = /** @type {HTMLInputElement} */ (h("input", { id: "setting", list: "settings", autocomplete: "off", spellcheck: "false", placeholder: "none", size: "28", input: () => {
    const known = settings.find((/** @type {any} */ each) => each.path === path.value);
    rule.textContent = known ? `${known.path} is ${JSON.stringify(known.value)} now${known.rule ? `; ${known.rule}` : ""}` : "";
    if (known && !value.value) value.value = String(known.value);
  } }));
  const cut = /** @type {HTMLSelectElement} */ (h("select", { id: "cut" }, ...CUTS.map(([each, words]) => h("option", { value: each }, words))));
  const other = /** @type {HTMLInputElement} */ (h("input", { id: "other", autocomplete: "off", spellcheck: "false", placeholder: "what this client got", size: "28" }));
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const query = new URLSearchParams({ call: call.id, rechunk: cut.value });
    if (path.value) query.set("set", `${path.value}=${value.value}`);
    if (other.value) query.set("other", other.value);
    shown.replaceChildren(h("p", { class: "note" }, "…"));
    try {
      shown.replaceChildren(...result(await ask(`compare?${query}`), other.value ? `what ${other.value} got` : "what the client got", "this call, done again"));
    } catch (error) {
      shown.replaceChildren(h("p", { class: "bad", role: "alert" }, /** @type {Error} */ (error).message));
    }
  };
  return [
    h("p", {}, "Do this call again from what was recorded. No request is sent to a service, and nothing to a client."),
    h("form", { class: "bar", submit: run },
      h("label", { for: "setting" }, "Setting"), path, h("label", { for: "value" }, "Value"), value,
      h("label", { for: "cut" }, "Split the service's bytes"), cut,
      h("label", { for: "other" }, "Compare with the call"), other,
      h("button", { type: "submit" }, "Run")),
    h("datalist", { id: "settings" }, ...settings.map((/** @type {any} */ each) => h("option", { value: each.path }))),
    rule, shown,
  ];
}
