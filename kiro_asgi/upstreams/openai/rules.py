"""The rules of this upstream, in the order in which they are applied."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.rules import Loss, Rule, differs, listed
from kiro_asgi.rendering.strict_turns import PAIRING

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final = listed(
    "adapted.field",
    Rule("adapted.reasoning", "Earlier thinking is handed back, or not, as the service asked.", _FORM),
    Rule("adapted.call_ids", "Ids of calls have nine letters and digits, where the service asked for that.", _FORM),
    Rule(
        "service.field",
        "A field that the service has no place for is left out: Codex takes no greatest length and no sampling.",
        _CONTENT,
    ),
    Rule(
        "service.instructions", "A request without instructions gets short ones, where the service demands some.", _NONE
    ),
    "fields.withheld",
    "tools.as_function",
    "tools.duplicate_dropped",
    Rule("tools.limit", "More tools than the service takes are refused, with both numbers.", _CONTENT),
    "tools.choice_unknown",
    "tools.strict",
    "tools.renamed",
    "schema.root",
    Rule("schema.items", "An array in a schema has items, which may be anything.", _NONE),
    "images.model",
    "images.mismatch",
    "images.format",
    "documents.address",
    "documents.inlined",
    "attachments.base64",
    *PAIRING,
    "text.blank_dropped",
    "thinking.alone_dropped",
    "turns.empty",
    differs(
        "thinking.dropped",
        "Chat Completions hand earlier thinking back to servers other than OpenAI's, and only what is not sealed; the "
        "Responses API hands back what the service itself has sealed.",
    ),
    Rule(
        "thinking.blank", "An earlier answer without thinking has a blank as such, where the service demands it.", _FORM
    ),
    Rule("results.error_told", "A failed tool's result begins with a line that it failed.", _FORM),
    "results.attachment_lifted",
    Rule("thinking.budget_to_effort", "A budget in tokens becomes an effort.", _FORM),
    "thinking.unavailable",
    Rule("thinking.not_disabled", "A model that cannot turn thinking off is asked to think little.", _FORM),
    Rule(
        "sampling.fixed",
        "Temperature, top_p and penalties are dropped where a model that thinks refuses them.",
        _CONTENT,
    ),
    "sampling.max_tokens",
    Rule("sampling.unknown", "The Responses API has no seed, no penalties and no top_k.", _CONTENT),
    Rule("sampling.top_k", "OpenAI has no top_k; other servers are sent it.", _CONTENT),
    Rule(
        "stop.unavailable",
        "A model that thinks, and the Responses API, take no stop sequences; the gateway ends the answer at them.",
        _NONE,
    ),
    Rule("stop.limit", "OpenAI takes four stop sequences; the gateway ends an answer at the others.", _NONE),
)
