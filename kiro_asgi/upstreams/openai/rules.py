"""Every rule: its name, its effect, the loss, and the module that applies it; in their order."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.notes import Loss, Rule
from kiro_asgi.upstreams.strict_turns import PAIRING

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final[tuple[Rule, ...]] = (
    Rule("adapted.field", "A field that the service refused is left out, or has its other name.", _CONTENT, "adapting"),
    Rule("adapted.reasoning", "Earlier thinking is handed back, or not, as the service asked.", _FORM, "adapting"),
    Rule(
        "adapted.call_ids",
        "Ids of calls have nine letters and digits, where the service asked for that.",
        _FORM,
        "adapting",
    ),
    Rule("tools.duplicate_dropped", "Of tools with the same name the first counts.", _CONTENT, "request"),
    Rule("tools.choice_unknown", "A choice that names a tool which is not offered is refused.", _NONE, "request"),
    Rule(
        "tools.renamed",
        "A name over 64 characters or with foreign ones is replaced; answers have the client's name.",
        _FORM,
        "request",
    ),
    Rule("schema.root", "The root of a schema is an object with properties.", _FORM, "request"),
    Rule("schema.items", "An array in a schema has items, which may be anything.", _NONE, "request"),
    Rule("images.model", "An image for a model that takes none is refused.", _NONE, "content"),
    Rule("images.format", "An image in a format that OpenAI does not know is refused.", _NONE, "content"),
    Rule(
        "documents.address",
        "A document by address is refused; see `fetch.allow`.",
        _NONE,
        "content",
    ),
    Rule("documents.inlined", "A plain-text document becomes part of the text.", _FORM, "content"),
    Rule(
        "attachments.base64",
        "Base64 is written without line breaks, in the standard alphabet and padded; anything else is refused.",
        _FORM,
        "content",
    ),
    *PAIRING,
    Rule("turns.empty", "A conversation without a message gets an empty one.", _NONE, "content"),
    Rule(
        "thinking.dropped",
        "Chat Completions hand earlier thinking back to servers other than OpenAI's, and only what is not sealed; the "
        "Responses API hands back what the service itself has sealed.",
        _CONTENT,
        "content",
    ),
    Rule("results.error_told", "A failed tool's result begins with a line that it failed.", _FORM, "content"),
    Rule(
        "results.attachment_lifted",
        "An image or a document in a tool's result moves to a message of the user's behind it.",
        _FORM,
        "content",
    ),
    Rule("thinking.budget_to_effort", "A budget in tokens becomes an effort.", _FORM, "request"),
    Rule("thinking.unavailable", "A demand for thinking is dropped where a model has none.", _CONTENT, "request"),
    Rule("thinking.not_disabled", "A model that cannot turn thinking off is asked to think little.", _FORM, "request"),
    Rule(
        "sampling.fixed",
        "Temperature, top_p and penalties are dropped where a model that thinks refuses them.",
        _CONTENT,
        "request",
    ),
    Rule(
        "sampling.max_tokens",
        "The greatest length of the answer is kept within the model's, where that is known.",
        _NONE,
        "request",
    ),
    Rule(
        "sampling.unknown",
        "The Responses API has no seed, no penalties and no top_k.",
        _CONTENT,
        "responses_request",
    ),
    Rule("sampling.top_k", "OpenAI has no top_k; other servers are sent it.", _CONTENT, "request"),
    Rule(
        "stop.unavailable",
        "A model that thinks, and the Responses API, take no stop sequences; the gateway ends the answer at them.",
        _NONE,
        "request",
    ),
    Rule("stop.limit", "OpenAI takes four stop sequences; the gateway ends an answer at the others.", _NONE, "request"),
)
