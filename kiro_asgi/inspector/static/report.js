// @ts-check
/** A call in Markdown, for a report: what happened and why, then the facts. */

import { bytes, finishes, many, model, seconds, standing, tokens, why } from "./format.js";

/** What others wrote, on one line. @param {unknown} value */
const quoted = (value) => `\`${String(value).replace(/[`\s]+/g, " ").trim()}\``;

/** What others wrote, as it is: no run of back-ticks in it ends the block. @param {string} text */
function fenced(text) {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text.trimEnd()}\n${fence}`;
}

/** @param {any} each a remark */
function remark(each) {
  const times = each.times > 1 ? ` (${many(each.times, "time")})` : "";
  return `${each.mark} **${each.words}**${times} ${quoted(each.code)}: ${each.cause}${each.advice ? ` What to do: ${each.advice}` : ""}`;
}

/** What came of a tool call that the client did not get whole. @param {any} each */
function partial(each) {
  const left = each.why ? ` It was left out, because ${why(each.why)}.` : "";
  return `What came of the call of ${each.name ? quoted(each.name) : "a tool without a name"}, ${bytes(each.bytes)}.${left}\n\n${fenced(each.arguments || "(no arguments)")}`;
}

/** How an attempt ended, in the gateway's words and in the service's. @param {any} each */
function told(each) {
  const place = `attempt ${each.number}${each.status ? `, with status ${each.status}` : ""}`;
  return [
    each.found ? `Attempt ${each.number}, at ${quoted(each.upstream)}: ${each.found}${each.bytes ? `, after ${bytes(each.bytes)} of the answer` : ""}.` : "",
    each.message || each.words ? `What ${quoted(each.upstream)} said in ${place}:\n\n${fenced([each.message, each.words].filter(Boolean).join("\n"))}` : "",
  ];
}

/** @param {any} each an attempt of the call */
function attempt(each) {
  const end = [each.status, each.said ?? each.outcome ?? "under way"].filter(Boolean).join(" ");
  const error = [each.error, each.code].filter(Boolean).join(" ");
  return `${each.number}. ${quoted(each.upstream)} ${quoted(each.model)}: ${end}${error ? ` ${quoted(error)}` : ""}, ${seconds(each.seconds)}`;
}

/**
 * @param {any} call
 * @param {{partial: any[], attempts: any[]} | null} failure what is kept of how it failed
 */
export function reportOf(call, failure) {
  const { mark, words } = standing(call);
  const rows = [
    ["Request", `${call.method} ${call.route || call.path}`], ["Model", model(call)], ["Upstream", call.upstream], ["Outcome", words],
    ["Error", call.error && [call.error, call.code].filter(Boolean).join(" ")], ["Stopped because", call.finish && finishes(call.finish)],
    ["Took", seconds(call.seconds)], ["First content", seconds(call.first)], ["Tokens", tokens(call.usage)],
    ["Rules", (call.rules ?? []).join(", ")], ["Notices", Object.keys(call.notices ?? {}).join(", ")], ["Id", call.id],
  ].filter(([, value]) => value).map(([name, value]) => `- ${name}: ${quoted(value)}`);
  return [
    ...(call.remarks?.length ? call.remarks.map(remark) : [`${mark} **${words}**`]),
    ...(failure?.partial ?? []).map(partial),
    ...(failure?.attempts ?? []).flatMap(told),
    rows.join("\n"),
    call.tries.length ? `Attempts:\n\n${call.tries.map(attempt).join("\n")}` : "No request was sent to a service.",
  ].filter(Boolean).join("\n\n") + "\n";
}
