// @ts-check
/** The answer as the client sees it, and what each attempt was told. */

import { ask } from "./api.js";
import { h } from "./dom.js";
import { bytes, finishes, many, seconds, why } from "./format.js";
import { tree } from "./tree.js";

/** Codes of what was mended or passed over, and their words. @param {any} end */
function remarks(end) {
  const found = [
    ...end.notices.map((/** @type {any} */ each) => `${each.words} (${each.code}${each.detail ? `: ${each.detail}` : ""})`),
    ...end.cut.map((/** @type {any} */ each) => `The call of ${each.name} was cut after ${bytes(each.size_bytes)}, and left out, because ${why(each.reason)}.`),
    ...end.malformed.map((/** @type {any} */ each) => `The arguments of the call of ${each.name} could not be read, so it was left out: ${each.reason}.`),
  ];
  return found.length ? h("ul", {}, ...found.map((each) => h("li", {}, each))) : "";
}

/** @param {any} each */
function citation(each) {
  return h("li", {}, each.title || each.url || "a source", each.url ? h("span", { class: "note" }, ` ${each.url}`) : "", each.quote ? h("q", {}, each.quote) : "");
}

/** @param {any} block */
function body(block) {
  const long = block.length > (block.text ?? "").length ? h("p", { class: "note" }, `… and ${many(block.length - block.text.length, "more character")}`) : "";
  const took = block.ended === null ? "not ended" : seconds(block.ended - block.began);
  if (block.kind === "thinking" || block.kind === "redacted_thinking") {
    const words = `${block.kind === "thinking" ? "Thinking" : "Sealed thinking"} · ${many(block.length, "character")} · ${took}${block.sealed ? " · sealed" : ""}`;
    return h("details", { class: "block thinking" }, h("summary", {}, words), h("pre", {}, block.text), long);
  }
  if (block.kind === "tool_call") {
    return h("section", { class: "block call", "aria-label": `Call of ${block.name}` },
      h("h3", {}, "Call of ", h("code", {}, block.name), h("span", { class: "note" }, ` ${block.id} · ${took}`)),
      block.valid ? tree(block.input) : h("pre", { class: "bad" }, block.input),
      block.valid ? "" : h("p", { class: "bad" }, "These arguments are not JSON."),
      block.came === null ? "" : h("details", {}, h("summary", {}, "Repaired; show it as it came from the service"), h("pre", {}, block.came)));
  }
  if (block.value) {
    return h("section", { class: "block", "aria-label": block.kind.replace("_", " ") },
      h("h3", {}, block.kind === "server_call" ? "Call of a tool that the client does not run" : "Its result"), tree(block.value));
  }
  return h("section", { class: `block ${block.kind}` }, block.kind === "refusal" ? h("h3", {}, "Refusal") : "", h("pre", {}, block.text), long,
    block.citations?.length ? h("ol", { class: "citations" }, ...block.citations.map(citation)) : "");
}

/** @param {any} each */
function attempt(each) {
  const good = each.outcome === "complete";
  return h("li", {},
    h("span", { class: good ? "good" : "bad" }, `${each.upstream}${each.status ? `, status ${each.status}` : ""}: ${each.said ?? each.outcome ?? "under way"}`), each.error ? h("code", { class: "note" }, ` ${each.error} ${each.code ?? ""}`) : "",
    each.found ? h("p", {}, `${each.found}${each.bytes ? `, after ${bytes(each.bytes)} of the answer` : ""}`) : "",
    each.message ? h("p", {}, each.message) : "",
    each.words ? h("pre", { class: "words", tabindex: "0" }, each.words) : "");
}

/** @param {any} call */
export async function answerOf(call) {
  const told = await ask(`answer?${new URLSearchParams({ call: call.id })}`);
  const failed = told.attempts.length > 1 || told.attempts.some((/** @type {any} */ each) => each.outcome !== "complete");
  return [
    told.passed ? h("p", { class: "note" }, "The service speaks the client's API, so its bytes were passed on unchanged. This is what they say.") : "",
    told.why ? h("p", { class: "note" }, told.why) : "",
    told.sent ? h("pre", { class: "live", tabindex: "0", "aria-label": "What the client was sent" }, told.sent) : "",
    ...told.blocks.map(body),
    told.end ? h("p", {}, `Stopped because: ${finishes(told.end.reason)}${told.end.sequence ? ` (${told.end.sequence})` : ""}`, h("span", { class: "note" }, told.end.said_by ? ` · decided by the stage ${told.end.said_by}` : " · inferred, since nothing says so"))
      : told.blocks.length ? h("p", { class: "bad" }, "The answer broke off here: it has no end.") : told.why || told.sent ? "" : h("p", { class: "note" }, "There is no answer: the call ended before one began."),
    told.end ? remarks(told.end) : "",
    failed ? h("h3", {}, "What came of each attempt") : "",
    failed ? h("ol", { class: "attempts" }, ...told.attempts.map(attempt)) : "",
  ];
}
