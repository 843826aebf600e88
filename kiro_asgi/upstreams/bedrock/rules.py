"""The rules of this upstream, in the order in which they are applied.

Claude by InvokeModel has the rules of the Messages API; where both have one of a name, it does the same.
"""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.rules import Loss, Rule, listed
from kiro_asgi.rendering.strict_turns import PAIRING
from kiro_asgi.upstreams.bedrock.claude import RULES as MESSAGES

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

_OWN: Final = listed(
    "text.blank_dropped",
    Rule("text.block_told", "By Converse, a search result of the client's is sent as its text.", _CONTENT),
    "thinking.dropped",
    "thinking.unsigned_dropped",
    *PAIRING,
    "results.attachment_lifted",
    Rule("results.nothing", "A blank result gets a text that there was no output.", _NONE),
    Rule("results.status_told", "For a family without failed results, a text before the result marks it.", _FORM),
    Rule(
        "results.apart", "Where a family wants results alone, the parts beside them come in a turn of their own.", _FORM
    ),
    "thinking.alone_dropped",
    Rule("calls.last", "Calls stand at the end of the assistant's turn, thinking at its beginning.", _FORM),
    "images.model",
    "images.address",
    "images.format",
    "images.mismatch",
    "documents.address",
    "documents.format",
    Rule("documents.uncited", "By Converse, no model but Claude is asked to cite documents.", _CONTENT),
    "documents.renamed",
    Rule("images.count", "By Converse, a message with more than 20 images is refused.", _NONE),
    Rule("documents.count", "By Converse, a message with more than 5 documents is refused.", _NONE),
    Rule("documents.alone", "Before documents without text stands a full stop: the service wants a text.", _NONE),
    "attachments.base64",
    Rule("system.told", "For a family without system texts they stand before the user's first text.", _FORM),
    "output.schema_instruction",
    "tools.duplicate_dropped",
    "tools.choice_unknown",
    "tools.strict",
    "tools.stubbed",
    "tools.renamed",
    "tools.parallel",
    Rule("tools.choice", "A call cannot be demanded of this family, and is left to the model.", _CONTENT),
    "schema.renamed",
    "schema.combinators",
    "schema.root",
    "cache.limit",
    "turns.empty",
    "turns.user_first",
    "turns.prefill",
    "turns.trimmed",
    "thinking.unavailable",
    "thinking.effort",
    "sampling.temperature",
    "sampling.model",
    "sampling.stop_blank",
    "sampling.ignored",
    Rule("betas.unknown", "A beta that the service does not have is not asked for.", _CONTENT),
    "adapted.signatures",
    "adapted.field",
    Rule("adapted.unstreamed", "The answer is not streamed, as the model streams none where tools are offered.", _FORM),
)

_NAMES: Final = frozenset(rule.name for rule in _OWN)

RULES: Final[tuple[Rule, ...]] = (*_OWN, *(rule for rule in MESSAGES if rule.name not in _NAMES))
