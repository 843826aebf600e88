"""Every rule: its name, its effect, the loss, and the module that applies it; in their order."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.notes import Loss, Rule
from kiro_asgi.upstreams.strict_turns import PAIRING

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "adapted.signatures", "Thinking is not handed back, as the service refused a signature.", _CONTENT, "upstream"
    ),
    Rule(
        "adapted.output_format",
        "The schema of the answer is stated in the system text, as the service refused every schema for this model.",
        _FORM,
        "request",
    ),
    Rule(
        "adapted.output_schema",
        "The schema of the answer is stated in the system text, as the service refused it.",
        _FORM,
        "request",
    ),
    Rule("tools.duplicate_dropped", "Of tools with the same name the first counts.", _CONTENT, "request"),
    Rule("tools.choice_unknown", "A choice that names a tool which is not there is refused.", _NONE, "request"),
    Rule(
        "tools.stubbed",
        "Where no tool is offered, those that history calls are defined, not to be called.",
        _NONE,
        "request",
    ),
    Rule(
        "tools.renamed",
        "A name over 128 characters or with foreign characters is replaced; answers have the client's name.",
        _FORM,
        "request",
    ),
    Rule("schema.combinators", "Alternatives at a schema's root become its own properties.", _CONTENT, "request"),
    Rule("schema.root", "The root of a schema is an object.", _FORM, "request"),
    Rule("text.blank_dropped", "A blank text is left out.", _NONE, "content"),
    Rule("images.model", "An image for a model that takes none is refused.", _NONE, "content"),
    Rule("images.format", "An image in a format that the service does not know is refused.", _NONE, "content"),
    Rule("images.mismatch", "An image has the format that its bytes have.", _NONE, "content"),
    Rule("documents.plain", "A document that is text of any kind is sent as plain text.", _FORM, "content"),
    Rule("documents.format", "A document that is neither PDF nor text is refused.", _NONE, "content"),
    Rule(
        "attachments.base64",
        "Base64 is written without line breaks, in the standard alphabet and padded; anything else is refused.",
        _FORM,
        "content",
    ),
    Rule("thinking.dropped", "Earlier thinking is not handed back, if that is set.", _CONTENT, "content"),
    Rule(
        "thinking.unsigned_dropped",
        "Earlier thinking without a signature, or with another service's, is not handed back.",
        _CONTENT,
        "content",
    ),
    *PAIRING,
    Rule(
        "results.attachment_lifted",
        "Parts other than text in a result that is an error stand behind it.",
        _FORM,
        "request",
    ),
    Rule("thinking.alone_dropped", "Earlier thinking that led to nothing is not handed back.", _CONTENT, "request"),
    Rule("thinking.first", "Earlier thinking moves before what came of it.", _FORM, "request"),
    Rule("cache.limit", "Of more marks for the prompt cache than four the last four count.", _NONE, "content"),
    Rule("turns.empty", "An empty conversation becomes one user's turn.", _NONE, "request"),
    Rule("turns.user_first", "Before an assistant's turn at the beginning a user's turn is added.", _NONE, "request"),
    Rule(
        "turns.prefill",
        "Behind an assistant's last turn that the model does not go on from, a user's turn asks it to.",
        _NONE,
        "request",
    ),
    Rule("turns.trimmed", "White space at the end of the assistant's last text is left out.", _NONE, "request"),
    Rule(
        "output.schema_closed",
        "Objects of the answer's schema take no members but those that they name: the service wants them closed.",
        _FORM,
        "schema",
    ),
    Rule(
        "output.schema_constraints",
        "Constraints on the answer that the service does not know are stated in the description, and checked here.",
        _FORM,
        "schema",
    ),
    Rule(
        "output.schema_instruction",
        "The schema of the answer is stated in the system text, where model, service or schema leave no other way.",
        _FORM,
        "request",
    ),
    Rule("thinking.unavailable", "A demand for thinking that the model does not know is dropped.", _CONTENT, "request"),
    Rule("thinking.forced_call", "Where a tool must be called there is no thinking.", _CONTENT, "request"),
    Rule(
        "thinking.resumed",
        "There is no thinking in the middle of a turn that began without any that could be handed back.",
        _CONTENT,
        "request",
    ),
    Rule("thinking.adaptive", "A model that decides by itself how much to think is sent no budget.", _FORM, "request"),
    Rule(
        "thinking.budget",
        "A budget has 1,024 tokens or more, and fewer than the answer may have.",
        _FORM,
        "request",
    ),
    Rule(
        "thinking.max_tokens",
        "Where the answer may not be longer than the least budget, there is no thinking; its length is never raised.",
        _CONTENT,
        "request",
    ),
    Rule("thinking.effort", "An effort is sent in the form that the model knows, or dropped.", _FORM, "request"),
    Rule("sampling.max_tokens_default", "A greatest length is sent where the client names none.", _NONE, "request"),
    Rule(
        "sampling.max_tokens", "The greatest length of the answer is kept within the model's bounds.", _NONE, "request"
    ),
    Rule("sampling.temperature", "A temperature over 1 becomes 1.", _FORM, "request"),
    Rule("sampling.thinking", "With thinking, temperature, top_p and top_k are dropped.", _CONTENT, "request"),
    Rule(
        "sampling.model", "For a model that takes none, temperature, top_p and top_k are dropped.", _CONTENT, "request"
    ),
    Rule(
        "sampling.top_p",
        "Where temperature is given, top_p is dropped for models that take one of them.",
        _CONTENT,
        "request",
    ),
    Rule("sampling.stop_blank", "A stop sequence without a visible character is dropped.", _CONTENT, "request"),
    Rule("sampling.ignored", "Seed and penalties are dropped: the service has no such fields.", _CONTENT, "request"),
)
