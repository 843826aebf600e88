"""The rules of this upstream, in the order in which they are applied."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.rules import Loss, Rule, listed
from kiro_asgi.rendering.strict_turns import PAIRING

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final = listed(
    "adapted.signatures",
    Rule(
        "adapted.output_format",
        "The schema of the answer is stated in the system text, as the service refused every schema for this model.",
        _FORM,
    ),
    Rule(
        "adapted.output_schema",
        "The schema of the answer is stated in the system text, as the service refused it.",
        _FORM,
    ),
    "adapted.field",
    "fields.withheld",
    "system.attribution",
    "tools.as_function",
    "tools.duplicate_dropped",
    "tools.choice_unknown",
    "tools.strict",
    "tools.stubbed",
    "tools.renamed",
    "schema.renamed",
    "schema.combinators",
    "schema.root",
    "text.blank_dropped",
    "images.model",
    "images.format",
    "images.mismatch",
    Rule("documents.plain", "A document that is text of any kind is sent as plain text.", _FORM),
    "documents.format",
    "attachments.base64",
    "thinking.dropped",
    "thinking.unsigned_dropped",
    *PAIRING,
    "results.attachment_lifted",
    "thinking.alone_dropped",
    Rule("thinking.first", "Earlier thinking moves before what came of it.", _FORM),
    "cache.limit",
    "turns.empty",
    "turns.user_first",
    "turns.prefill",
    "turns.trimmed",
    Rule(
        "output.schema_closed",
        "Objects of the answer's schema take no members but those that they name: the service wants them closed.",
        _FORM,
    ),
    Rule(
        "output.schema_constraints",
        "Constraints on the answer that the service does not know are stated in the description, and checked here.",
        _FORM,
    ),
    "output.schema_instruction",
    "thinking.unavailable",
    Rule("thinking.forced_call", "Where a tool must be called there is no thinking.", _CONTENT),
    Rule(
        "thinking.resumed",
        "There is no thinking in the middle of a turn that began without any that could be handed back.",
        _CONTENT,
    ),
    Rule("thinking.adaptive", "A model that decides by itself how much to think is sent no budget.", _FORM),
    "thinking.budget",
    Rule(
        "thinking.max_tokens",
        "Where the answer may not be longer than the least budget, there is no thinking; its length is never raised.",
        _CONTENT,
    ),
    "thinking.effort",
    Rule("sampling.max_tokens_default", "A greatest length is sent where the client names none.", _NONE),
    "sampling.max_tokens",
    "sampling.temperature",
    Rule("sampling.thinking", "With thinking, temperature, top_p and top_k are dropped.", _CONTENT),
    "sampling.model",
    Rule("sampling.top_p", "Where temperature is given, top_p is dropped for models that take one of them.", _CONTENT),
    "sampling.stop_blank",
    "sampling.ignored",
)
