// @ts-check
/** Three columns: bytes of the service, what each stage made of them, what the client was sent; linked. */

import { ask } from "./api.js";
import { h, table } from "./dom.js";
import { bytes, many, seconds } from "./format.js";
import { ATTEMPT, KEPT, KIND, Links, OFFSET, SIZE, STAGE, TIME, WORDS } from "./links.js";
import { Rows } from "./rows.js";
import { tree } from "./tree.js";

const COLUMNS = /** @type {[string, string][]} */ ([["r", "From the service"], ["i", "After each stage"], ["s", "To the client"]]);
const WIDTH = 16; // bytes in a line

/** Bytes as offsets, hexadecimal digits and letters. @param {string} hex @param {number} from */
export function dump(hex, from) {
  const lines = [];
  for (let at = 0; at < hex.length; at += WIDTH * 2) {
    const pairs = hex.slice(at, at + WIDTH * 2).match(/../g) ?? [];
    const letters = pairs.map((pair) => parseInt(pair, 16)).map((code) => (code > 31 && code < 127 ? String.fromCharCode(code) : "."));
    lines.push(`${(from + at / 2).toString(16).padStart(6, "0")}  ${pairs.join(" ").padEnd(WIDTH * 3)} ${letters.join("")}`);
  }
  return lines.join("\n");
}

/** @param {any[]} frames */
function frameTable(frames) {
  const sum = (/** @type {string[]} */ [sent, computed]) => (sent === computed ? `${sent} ✓` : h("span", { class: "bad" }, `${sent} ✗ computed ${computed}`));
  return table("Frames", ["Offset", "Bytes", "Headers", "Checksum of the prelude", "Checksum of the frame"],
    frames.map((each) => [each.offset, each.size, each.headers, sum(each.prelude), sum(each.message)]));
}

/** @param {any} call */
export async function streamOf(call) {
  const told = await ask(`steps?${new URLSearchParams({ call: call.id })}`);
  const links = new Links(told), many = told.steps.some((/** @type {any[]} */ row) => row[ATTEMPT] > 1);
  const shown = h("section", { class: "step", "aria-live": "polite", "aria-label": "The chosen step" }, h("p", { class: "note" }, "Choose a row to see it whole. Arrows move in a column and to the next; Enter chooses."));
  /** @type {Record<string, {rows: Rows, steps: number[], places: Map<number, number>}>} */
  const columns = {};
  let chosen = -1;

  const cells = (/** @type {number} */ step) => {
    const row = told.steps[step], when = h("span", { class: "when" }, `${many && row[KIND] === "r" ? `${row[ATTEMPT]}· ` : ""}${row[TIME].toFixed(3)}`);
    const frames = row[KIND] === "r" ? links.framesIn(step) : [], words = frames.length ? frames.map((frame) => told.steps[frame][WORDS].split(" ")[1] ?? "").join(", ") : row[WORDS];
    const stage = row[KIND] === "i" ? [h("span", { class: "stage" }, told.stages[row[STAGE]])] : [h("span", { class: "size" }, bytes(row[SIZE]))];
    const kept = row[KEPT] ? h("span", { class: "kept", title: `${row[KEPT]} held this back, until more came or for good` }, `⤓ ${row[KEPT]}`) : "";
    return [when, ...stage, kept, h("span", { class: "words" }, words.replaceAll("\n", "⏎"))];
  };
  const point = (/** @type {number} */ step) => {
    const found = links.of(step);
    for (const { rows, steps } of Object.values(columns)) rows.mark = (place) => (steps[place] === step ? "same" : found.has(steps[place]) ? "linked" : "");
    return found;
  };
  const choose = async (/** @type {number} */ step) => {
    chosen = step;
    const found = [...point(step)].sort((one, other) => one - other);
    for (const { rows, places } of Object.values(columns)) {
      const first = found.find((each) => places.has(each));
      if (first !== undefined && !places.has(step)) rows.show(/** @type {number} */ (places.get(first)));
    }
    const row = told.steps[step];
    const full = await ask(`step?${new URLSearchParams({ call: call.id, index: String(step) })}`).catch((error) => ({ error: error.message }));
    if (chosen !== step) return;
    const stage = told.stages[row[STAGE]];
    shown.replaceChildren(
      h("h3", {}, row[KIND] === "r" ? `Read of ${bytes(row[SIZE])}, from byte ${row[OFFSET]}` : row[KIND] === "s" ? `Send of ${bytes(row[SIZE])}, from byte ${row[OFFSET]}` : `${full.type ?? ""} from ${stage}`,
        h("span", { class: "note" }, ` after ${seconds(row[TIME])}${row[ATTEMPT] ? `, attempt ${row[ATTEMPT]}` : ""}${row[KEPT] ? ` · ${row[KEPT]} held it back, until more came or for good` : ""}`)),
      full.error ? h("p", { class: "bad" }, full.error) : "",
      full.frames?.length ? frameTable(full.frames) : "",
      full.value !== undefined ? tree(full.value) : "",
      full.text !== undefined && (row[KIND] === "s" || !full.frames?.length) ? h("pre", { tabindex: "0" }, full.text) : "",
      full.hex !== undefined && row[KIND] === "r" ? h("details", { open: Boolean(full.frames?.length) }, h("summary", {}, "Bytes"), h("pre", { tabindex: "0", class: "hex" }, dump(full.hex, row[OFFSET]), full.hex.length / 2 < full.size ? `\n… ${full.size - full.hex.length / 2} more` : "")) : "");
  };

  const fill = (/** @type {string} */ kind, /** @type {string} */ stage) => {
    const column = columns[kind];
    column.steps = told.steps.flatMap((/** @type {any[]} */ row, /** @type {number} */ at) => (row[KIND] === kind && (!stage || told.stages[row[STAGE]] === stage) ? [at] : []));
    column.places = new Map(column.steps.map((step, place) => [step, place]));
    column.rows.items = column.steps;
  };
  for (const [kind, name] of COLUMNS) {
    const rows = new Rows(name, cells);
    columns[kind] = { rows, steps: [], places: new Map() };
    rows.onpoint = (place) => { if (chosen < 0 || rows.element === document.activeElement) point(columns[kind].steps[place]); };
    rows.onchoose = (place) => choose(columns[kind].steps[place]);
    rows.onleave = (step) => {
      const at = COLUMNS.findIndex(([each]) => each === kind) + step;
      if (!COLUMNS[at]) return;
      const next = columns[COLUMNS[at][0]], here = columns[kind].steps[rows.active];
      const found = here === undefined ? [] : [...links.of(here)].filter((each) => next.places.has(each)).sort((one, other) => one - other);
      next.rows.element.focus();
      if (found.length) {
        const place = /** @type {number} */ (next.places.get(found[0]));
        next.rows.activate(place);
        next.rows.show(place);
      }
    };
    fill(kind, "");
  }
  const stages = /** @type {string[]} */ (told.stages.filter(Boolean));
  const select = h("select", { id: "stage", change: (/** @type {Event} */ event) => fill("i", /** @type {HTMLSelectElement} */ (event.target).value) },
    h("option", { value: "" }, "all stages"), ...stages.map((each) => h("option", { value: each }, each)));
  const lanes = h("div", { class: "lanes", pointerleave: () => { if (chosen >= 0) point(chosen); } },
    ...COLUMNS.map(([kind, name]) => h("section", { class: "column", "aria-label": name },
      h("h3", {}, name, h("span", { class: "note" }, ` ${columns[kind].steps.length}`), kind === "i" && stages.length ? [" "] : "", kind === "i" && stages.length ? h("label", { for: "stage", class: "unseen" }, "Stage") : "", kind === "i" && stages.length ? select : ""),
      columns[kind].rows.element)));
  return [
    told.why ? h("p", { class: "note" }, told.why) : "",
    told.differs ? h("p", { class: "bad" }, `Replayed, the call gives another answer from byte ${told.differs.offset} on, after ${many(told.differs.event, "event")}. Below is what it gives now.`) : "",
    told.missing ? h("p", { class: "bad" }, `${many(told.missing, "answer")} that the replay needs ${told.missing === 1 ? "was" : "were"} not recorded.`) : "",
    told.dropped ? h("p", { class: "note" }, `${many(told.dropped, "more step")} ${told.dropped === 1 ? "is" : "are"} not shown.`) : "",
    lanes, shown,
  ];
}
