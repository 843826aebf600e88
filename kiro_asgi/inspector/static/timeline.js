// @ts-check
/** When an answer came, to scale: attempts, silence, first content, bursts, gaps, what the client was sent, and the end. */

import { h, s } from "./dom.js";
import { bytes, many, seconds } from "./format.js";

const HEIGHT = 138;
const LANES = { tries: 4, received: 42, sent: 88 };
const TALL = 28;
const GAP = 0.25; // s that are worth a word

/**
 * Silences of at least a quarter of a second: before the first moment, between two, and after the last.
 * @param {[number, number][]} moments seconds and bytes
 * @param {number} from
 * @param {number} to
 */
export function gaps(moments, from, to) {
  const times = [from, ...moments.map(([at]) => at), to], found = [];
  for (let at = 1; at < times.length; at++) if (times[at] - times[at - 1] >= GAP) found.push([times[at - 1], times[at]]);
  return found;
}

/**
 * What the strip shows, in words.
 * @param {any} call
 */
export function summary(call) {
  const asked = call.tries[0]?.at ?? 0;
  const silent = gaps(call.received, asked, call.seconds).sort((one, other) => other[1] - other[0] - one[1] + one[0])[0];
  return [
    `${seconds(call.seconds)} in all`,
    many(call.tries.length, "attempt"),
    call.first !== undefined ? `first content after ${seconds(call.first)}` : "no content",
    many(call.received.length, "read"), `${many(call.sent.length, "send")}${call.beats?.length ? `, ${call.beats.length} of them only to keep the connection open` : ""}`,
    silent ? `longest pause ${seconds(silent[1] - silent[0])}, ${seconds(silent[0])} after the beginning` : "no pause of 250 ms",
  ].join(" · ");
}

/**
 * The strip, with buttons that zoom.
 * @param {any} call
 */
export function timeline(call) {
  const whole = Math.max(call.seconds, 0.001);
  let from = 0, to = whole;
  const strip = s("svg", { height: HEIGHT, role: "img", "aria-label": `Timeline: ${summary(call)}`, class: "timeline" });

  const draw = () => {
    const width = strip.clientWidth || 800;
    const x = (/** @type {number} */ at) => ((at - from) / (to - from)) * width;
    const seen = (/** @type {number} */ one, /** @type {number} */ other = one) => other >= from && one <= to;
    const parts = /** @type {Node[]} */ ([]);
    for (const each of call.tries) {
      const end = each.at + (each.seconds ?? whole - each.at);
      if (!seen(each.at, end)) continue;
      const good = each.outcome === "complete";
      parts.push(
        s("rect", { x: x(each.at), y: LANES.tries, width: Math.max(x(end) - x(each.at), 2), height: 18, class: good ? "try" : "try failed" },
          s("title", {}, `Attempt ${each.number} at ${each.upstream}: ${each.said ?? each.outcome ?? "under way"}`)),
        s("text", { x: Math.max(x(each.at), 0) + 4, y: LANES.tries + 13, class: "label" }, `${each.number}: ${each.upstream}${each.said ? ` ✗ ${each.said}` : ""}`));
    }
    for (const [one, other] of gaps(call.received, call.tries[0]?.at ?? 0, whole)) {
      if (!seen(one, other)) continue;
      parts.push(s("rect", { x: x(one), y: LANES.received, width: x(other) - x(one), height: TALL, class: "gap" }, s("title", {}, `nothing for ${seconds(other - one)}`)));
      if (x(other) - x(one) > 60) parts.push(s("text", { x: (Math.max(x(one), 0) + Math.min(x(other), width)) / 2, y: LANES.received + 18, class: "label middle" }, seconds(other - one)));
    }
    const most = Math.max(1, ...call.received.map((/** @type {[number, number]} */ [, size]) => size), ...call.sent.map((/** @type {[number, number]} */ [, size]) => size));
    for (const [lane, moments, kind] of /** @type {[number, [number, number][], string][]} */ ([[LANES.received, call.received, "read"], [LANES.sent, call.sent, "send"]])) {
      const near = moments.filter(([at]) => seen(at)).map(([at, size]) => {
        const tall = TALL * (0.25 + 0.75 * (Math.log1p(size) / Math.log1p(most)));
        return `M${x(at).toFixed(1)} ${lane + TALL}v-${tall.toFixed(1)}`;
      });
      parts.push(s("path", { d: near.join(""), class: kind }));
      parts.push(s("text", { x: 2, y: lane - 4, class: "lane" }, kind === "read" ? "bytes from the service" : "bytes to the client"));
    }
    for (const at of call.beats ?? []) {
      if (seen(at)) parts.push(s("circle", { cx: x(at), cy: LANES.sent + TALL / 2, r: 5, class: "beat" }, s("title", {}, `sent only to keep the connection open, after ${seconds(at)}`)));
    }
    for (const [at, words] of /** @type {[number | undefined, string][]} */ ([[call.first, "first content"], [call.state === "ended" ? whole : undefined, "end"]])) {
      if (at === undefined || !seen(at)) continue;
      parts.push(s("line", { x1: x(at), x2: x(at), y1: 24, y2: HEIGHT - 16, class: "mark" }, s("title", {}, `${words}: ${seconds(at)}`)));
    }
    for (let at = 0; at <= 4; at++) {
      const kind = at === 0 ? "" : at === 4 ? " end" : " middle";
      parts.push(s("text", { x: Math.min(Math.max((at * width) / 4, 3), width - 3), y: HEIGHT - 4, class: `label${kind}` }, seconds(from + ((to - from) * at) / 4)));
    }
    strip.replaceChildren(...parts);
  };

  const zoom = (/** @type {number} */ by, around = (from + to) / 2) => {
    const span = Math.min(Math.max((to - from) * by, whole / 5000, 0.001), whole);
    from = Math.min(Math.max(around - ((around - from) / (to - from)) * span, 0), whole - span);
    to = from + span;
    draw();
  };
  const move = (/** @type {number} */ by) => {
    const span = to - from;
    from = Math.min(Math.max(from + span * by, 0), whole - span);
    to = from + span;
    draw();
  };
  strip.addEventListener("dblclick", (event) => {
    const box = strip.getBoundingClientRect();
    zoom(0.5, from + ((/** @type {MouseEvent} */ (event).clientX - box.left) / box.width) * (to - from));
  });
  new ResizeObserver(draw).observe(strip);
  const button = (/** @type {string} */ words, /** @type {string} */ mark, /** @type {() => void} */ act) => h("button", { type: "button", "aria-label": words, title: words, click: act }, mark);
  return h("figure", {},
    strip,
    h("figcaption", {}, summary(call), ` · ${bytes(call.received_bytes)} from services, ${bytes(call.sent_bytes)} sent`),
    h("div", { class: "buttons" },
      button("Zoom in", "+", () => zoom(0.5)), button("Zoom out", "−", () => zoom(2)),
      button("Earlier", "◂", () => move(-0.5)), button("Later", "▸", () => move(0.5)),
      button("All of it", "⤢", () => { from = 0; to = whole; draw(); })));
}
