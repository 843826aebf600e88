"""The rules of this upstream, in the order in which they are applied."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.rules import Loss, Rule, listed
from kiro_asgi.rendering.strict_turns import PAIRING

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final = listed(
    "adapted.signatures",
    Rule(
        "adapted.json_schema", "The schema of the answer is projected, as the service refused it as JSON Schema.", _FORM
    ),
    "adapted.field",
    "fields.withheld",
    "tools.duplicate_dropped",
    "tools.choice_unknown",
    "tools.renamed",
    Rule(
        "tools.search_dropped",
        "The service's own search is not offered beside functions: it refuses both together.",
        _CONTENT,
    ),
    Rule("tools.search_options", "Options of the search are dropped: the service has none.", _CONTENT),
    Rule("tools.search_alone", "Where the search has to be called, it is offered without functions.", _NONE),
    Rule("tools.search_demanded", "The service has no field to demand a search; its answer is checked for one.", _NONE),
    "tools.parallel",
    "schema.depth",
    Rule(
        "schema.size",
        "Schemas that references add beyond 4,000 in one request become anything of their type.",
        _CONTENT,
    ),
    Rule("schema.conflict", "Of contradicting parts of a schema the outer one counts.", _CONTENT),
    Rule("schema.reference", "A reference that leads nowhere becomes anything.", _CONTENT),
    Rule("schema.recursion", "A schema that holds itself ends after the second time.", _CONTENT),
    "schema.root",
    Rule(
        "schema.alternatives", "Alternatives at the root of a tool's schema become properties of one object.", _CONTENT
    ),
    Rule("schema.malformed", "Anything but a schema, or a keyword's malformed value, is dropped.", _CONTENT),
    "schema.keywords",
    Rule("schema.anything", "A schema of anything becomes alternatives of all types.", _FORM),
    Rule("schema.told", "Constraints without a keyword are stated in the description.", _FORM),
    Rule("schema.enum", "A list of values that are not all texts is stated in the description.", _FORM),
    Rule("schema.tuple", "Schemas for each place of an array become alternatives for all.", _CONTENT),
    Rule("schema.one_of", "“One of these” becomes “any of these”.", _FORM),
    "schema.required",
    "images.address",
    "images.mismatch",
    "images.format",
    "documents.inlined",
    Rule("documents.titled", "The title of a document stands before it, as text.", _FORM),
    "documents.address",
    "documents.format",
    "attachments.base64",
    *PAIRING,
    "thinking.dropped",
    "thinking.unsigned_dropped",
    "thinking.malformed_dropped",
    Rule("thinking.stray_dropped", "A call's signature without the call is not handed back.", _CONTENT),
    Rule(
        "thinking.signature_skipped",
        "A call without a signature gets the value that makes the service skip the check.",
        _FORM,
    ),
    "calls.input_wrapped",
    "results.attachment_lifted",
    "turns.empty",
    "turns.user_first",
    "turns.prefill",
    "output.schema_instruction",
    Rule(
        "output.schema_keywords",
        "Keywords of the answer's schema that the service lacks are stated in the description, and checked here.",
        _FORM,
    ),
    Rule("sampling.bounds", "A number that the service refuses becomes one that it takes.", _FORM),
    Rule("sampling.penalties", "Presence and frequency penalties are dropped for models that take none.", _CONTENT),
    Rule("sampling.stops", "Five stop sequences are taken; the gateway ends an answer at the others.", _NONE),
    "sampling.max_tokens",
    "thinking.unavailable",
    Rule("thinking.not_off", "A model that cannot do without thinking thinks as little as it can.", _FORM),
    "thinking.effort",
    Rule("thinking.budget_as_level", "A budget becomes a level for models that have levels.", _FORM),
    "thinking.budget",
)
