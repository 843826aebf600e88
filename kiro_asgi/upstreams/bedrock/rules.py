"""Every rule: its name, its effect, the loss, and the module that applies it; in their order.

Claude by InvokeModel has the rules of the Messages API; where both have one of a name, it does the same.
"""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.notes import Loss, Rule
from kiro_asgi.upstreams.bedrock.claude import RULES as MESSAGES
from kiro_asgi.upstreams.strict_turns import PAIRING

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

_OWN: Final[tuple[Rule, ...]] = (
    Rule("text.blank_dropped", "A blank text is left out.", _NONE, "content"),
    Rule("text.block_told", "By Converse, a search result of the client's is sent as its text.", _CONTENT, "content"),
    Rule("thinking.dropped", "Earlier thinking is not handed back, if that is set.", _CONTENT, "content"),
    Rule(
        "thinking.unsigned_dropped",
        "Earlier thinking without a signature that is the model's own is not handed back.",
        _CONTENT,
        "content",
    ),
    *PAIRING,
    Rule(
        "results.attachment_lifted",
        "Media that a tool's result cannot hold for this family stand behind it.",
        _FORM,
        "content",
    ),
    Rule("results.nothing", "A blank result gets a text that there was no output.", _NONE, "content"),
    Rule(
        "results.status_told",
        "For a family without failed results, a text before the result marks it.",
        _FORM,
        "content",
    ),
    Rule(
        "results.apart",
        "Where a family wants results alone, the parts beside them come in a turn of their own.",
        _FORM,
        "request",
    ),
    Rule("thinking.alone_dropped", "Earlier thinking that led to nothing is not handed back.", _CONTENT, "request"),
    Rule("calls.last", "Calls stand at the end of the assistant's turn, thinking at its beginning.", _FORM, "request"),
    Rule("images.model", "An image for a model that takes none is refused.", _NONE, "content"),
    Rule("images.address", "An image by its address is refused.", _NONE, "content"),
    Rule("images.format", "An image in a format that the service does not know is refused.", _NONE, "content"),
    Rule("images.mismatch", "An image has the format that its bytes have.", _NONE, "content"),
    Rule("documents.address", "A document by its address is refused.", _NONE, "content"),
    Rule("documents.format", "A document in a format that the service does not know is refused.", _NONE, "content"),
    Rule("documents.uncited", "By Converse, no model but Claude is asked to cite documents.", _CONTENT, "content"),
    Rule(
        "documents.renamed",
        "A document's name has letters, digits, single spaces, hyphens and brackets, and no other has it.",
        _FORM,
        "content",
    ),
    Rule("images.count", "By Converse, a message with more than 20 images is refused.", _NONE, "content"),
    Rule("documents.count", "By Converse, a message with more than 5 documents is refused.", _NONE, "content"),
    Rule(
        "documents.alone",
        "Before documents without text stands a full stop: the service wants a text.",
        _NONE,
        "content",
    ),
    Rule(
        "attachments.base64",
        "Base64 is written without line breaks, in the standard alphabet and padded; anything else is refused.",
        _FORM,
        "content",
    ),
    Rule("system.told", "For a family without system texts they stand before the user's first text.", _FORM, "request"),
    Rule(
        "output.schema_instruction",
        "The schema of the answer is stated in the system text, where model or schema leave no other way.",
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
        "A name that is too long or has foreign characters is replaced; answers have the client's name.",
        _FORM,
        "request",
    ),
    Rule("tools.choice", "A call cannot be demanded of this family, and is left to the model.", _CONTENT, "request"),
    Rule("schema.combinators", "Alternatives at a schema's root become its own properties.", _CONTENT, "request"),
    Rule("schema.root", "The root of a schema is an object.", _FORM, "request"),
    Rule("cache.limit", "Of more cache points than four the last four count.", _NONE, "request"),
    Rule("turns.empty", "An empty conversation becomes one user's turn.", _NONE, "request"),
    Rule("turns.user_first", "Before an assistant's turn at the beginning a user's turn is added.", _NONE, "request"),
    Rule(
        "turns.prefill",
        "Behind an assistant's last turn that the model does not go on from, a user's turn asks it to.",
        _NONE,
        "request",
    ),
    Rule("turns.trimmed", "White space at the end of the assistant's last text is left out.", _NONE, "request"),
    Rule("thinking.unavailable", "A demand for thinking that the model does not know is dropped.", _CONTENT, "request"),
    Rule("thinking.effort", "An effort is sent in the form that the model knows, or dropped.", _FORM, "request"),
    Rule("sampling.temperature", "A temperature over 1 becomes 1.", _FORM, "request"),
    Rule(
        "sampling.model",
        "Those of temperature, top_p and top_k that a model does not take are dropped.",
        _CONTENT,
        "request",
    ),
    Rule("sampling.stop_blank", "A stop sequence without a visible character is dropped.", _CONTENT, "request"),
    Rule("sampling.ignored", "Seed and penalties are dropped: the service has no such fields.", _CONTENT, "request"),
    Rule("betas.unknown", "A beta that the service does not have is not asked for.", _CONTENT, "claude"),
    Rule(
        "adapted.signatures", "Thinking is not handed back, as the service refused a signature.", _CONTENT, "upstream"
    ),
    Rule(
        "adapted.unstreamed",
        "The answer is not streamed, as the model streams none where tools are offered.",
        _FORM,
        "upstream",
    ),
)

_NAMES: Final = frozenset(rule.name for rule in _OWN)

RULES: Final[tuple[Rule, ...]] = (*_OWN, *(rule for rule in MESSAGES if rule.name not in _NAMES))
