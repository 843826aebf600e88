// @ts-check
/** Bars for days, drawn as SVG; a table beside each says the same in numbers. */

import { h, s } from "./dom.js";
import { count } from "./format.js";

const WIDTH = 640, HEIGHT = 150, LEFT = 52, BELOW = 20, ABOVE = 8;

/** The top of the scale: half of it is a number that can be said in few digits. @param {number} value @param {(value: number) => string} words */
function top(value, words) {
  if (!value) return words === count ? 2 : 1;
  const size = 10 ** Math.floor(Math.log10(value)), steps = [1, 2, 4, 6, 8, 10].map((each) => each * size);
  const found = steps.find((each) => each >= value) ?? value;
  return words === count ? Math.max(found, 2) : found;
}

/** A day as people write it. @param {string} day */
function short(day) {
  return new Date(`${day}T00:00:00Z`).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}

/**
 * Bars, one a day, each of several parts from the bottom up.
 * @param {string} title
 * @param {string[]} days
 * @param {{name: string, kind: string, values: number[]}[]} parts
 * @param {(value: number) => string} words
 */
export function bars(title, days, parts, words) {
  const sums = days.map((_, at) => parts.reduce((sum, part) => sum + part.values[at], 0));
  const most = top(Math.max(...sums, 0), words), wide = (WIDTH - LEFT) / Math.max(days.length, 1);
  const y = (/** @type {number} */ value) => ABOVE + (HEIGHT - ABOVE - BELOW) * (1 - value / most);
  const chart = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}, by day; the table below has the numbers`, class: "chart" },
    ...[0, 0.5, 1].flatMap((share) => [
      s("line", { x1: LEFT, x2: WIDTH, y1: y(most * share), y2: y(most * share), class: "grid" }),
      s("text", { x: LEFT - 6, y: y(most * share) + 4, class: "label end" }, words(most * share)),
    ]));
  for (const [at, day] of days.entries()) {
    let bottom = 0;
    for (const part of parts) {
      const value = part.values[at];
      if (value) chart.append(s("rect", { x: LEFT + at * wide + wide * 0.1, width: Math.min(wide * 0.8, 60), y: y(bottom + value), height: y(bottom) - y(bottom + value), class: part.kind }, s("title", {}, `${day}: ${words(value)} ${part.name}`)));
      bottom += value;
    }
    const every = Math.ceil(days.length / 8);
    if (at % every === 0 && at + 0.75 * every <= days.length) chart.append(s("text", { x: LEFT + at * wide + wide * 0.1, y: HEIGHT - 4, class: "label" }, short(day)));
  }
  return h("figure", {}, h("figcaption", {}, h("strong", {}, title), ...(parts.length > 1 ? parts : []).map((part) => h("span", { class: "legend" }, swatch(part.kind), part.name))), chart);
}

/** @param {string} kind */
function swatch(kind) {
  return s("svg", { viewBox: "0 0 10 10", class: "swatch", "aria-hidden": "true" }, s("rect", { width: 10, height: 10, class: kind }));
}
