"""Every rule: its name, its effect, the loss, and the module that applies it; in their order."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.notes import Loss, Rule
from kiro_asgi.upstreams.strict_turns import PAIRING

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final[tuple[Rule, ...]] = (
    Rule("adapted.signatures", "Signatures are not handed back, as the service refused one.", _CONTENT, "request"),
    Rule(
        "adapted.json_schema",
        "The schema of the answer is projected, as the service refused it as JSON Schema.",
        _FORM,
        "request",
    ),
    Rule("tools.duplicate_dropped", "Of tools with the same name the first counts.", _CONTENT, "request"),
    Rule("tools.choice_unknown", "A choice that names a tool which is not there is refused.", _NONE, "request"),
    Rule(
        "tools.renamed",
        "A name over 64 characters or with foreign characters is replaced; answers have the client's name.",
        _FORM,
        "request",
    ),
    Rule(
        "tools.search_dropped",
        "The service's own search is not offered beside functions: it refuses both together.",
        _CONTENT,
        "request",
    ),
    Rule("tools.search_options", "Options of the search are dropped: the service has none.", _CONTENT, "request"),
    Rule("tools.search_alone", "Where the search has to be called, it is offered without functions.", _NONE, "request"),
    Rule(
        "tools.search_demanded",
        "The service has no field to demand a search; its answer is checked for one.",
        _NONE,
        "request",
    ),
    Rule(
        "tools.parallel",
        "The limit to one call in an answer is dropped: the service has no field for it.",
        _CONTENT,
        "request",
    ),
    Rule("schema.depth", "Schemas nested deeper than 32 levels become anything of their type.", _CONTENT, "schema"),
    Rule(
        "schema.size",
        "Schemas that references add beyond 4,000 in one request become anything of their type.",
        _CONTENT,
        "schema",
    ),
    Rule("schema.conflict", "Of contradicting parts of a schema the outer one counts.", _CONTENT, "schema"),
    Rule("schema.reference", "A reference that leads nowhere becomes anything.", _CONTENT, "schema"),
    Rule("schema.recursion", "A schema that holds itself ends after the second time.", _CONTENT, "schema"),
    Rule("schema.root", "The root of a tool's schema is an object.", _FORM, "schema"),
    Rule(
        "schema.alternatives",
        "Alternatives at the root of a tool's schema become properties of one object.",
        _CONTENT,
        "schema",
    ),
    Rule(
        "schema.malformed",
        "Anything but a schema, or a keyword's malformed value, is dropped.",
        _CONTENT,
        "nodes",
    ),
    Rule("schema.keywords", "Keywords that the service does not know are taken out of schemas.", _CONTENT, "nodes"),
    Rule("schema.anything", "A schema of anything becomes alternatives of all types.", _FORM, "nodes"),
    Rule("schema.told", "Constraints without a keyword are stated in the description.", _FORM, "nodes"),
    Rule("schema.enum", "A list of values that are not all texts is stated in the description.", _FORM, "nodes"),
    Rule("schema.tuple", "Schemas for each place of an array become alternatives for all.", _CONTENT, "nodes"),
    Rule("schema.one_of", "“One of these” becomes “any of these”.", _FORM, "nodes"),
    Rule("schema.required", "Required names of no property are dropped.", _CONTENT, "nodes"),
    Rule(
        "images.address",
        "An image by an address that the service cannot read is refused; see `fetch.allow`.",
        _NONE,
        "content",
    ),
    Rule("images.format", "An image in a format that the service does not know is refused.", _NONE, "content"),
    Rule("documents.inlined", "A plain-text document becomes part of the text.", _FORM, "content"),
    Rule("documents.titled", "The title of a document stands before it, as text.", _FORM, "content"),
    Rule(
        "documents.address",
        "A document by an address that it cannot read is refused; see `fetch.allow`.",
        _NONE,
        "content",
    ),
    Rule("documents.format", "A document in a format that the service does not know is refused.", _NONE, "content"),
    Rule(
        "attachments.base64",
        "Base64 is written without line breaks, in the standard alphabet and padded; anything else is refused.",
        _FORM,
        "content",
    ),
    *PAIRING,
    Rule("thinking.dropped", "Earlier thinking is not handed back, if that is set.", _CONTENT, "content"),
    Rule(
        "thinking.unsigned_dropped",
        "Earlier thinking without a signature, or with another service's, is not handed back.",
        _CONTENT,
        "content",
    ),
    Rule("thinking.malformed_dropped", "A signature that was changed is not handed back.", _CONTENT, "content"),
    Rule("thinking.stray_dropped", "A call's signature without the call is not handed back.", _CONTENT, "content"),
    Rule(
        "thinking.signature_skipped",
        "A call without a signature gets the value that makes the service skip the check.",
        _FORM,
        "content",
    ),
    Rule("calls.input_wrapped", "Arguments that are not an object become one.", _FORM, "content"),
    Rule(
        "results.attachment_lifted",
        "Parts other than text in a tool's result stand behind the results.",
        _FORM,
        "content",
    ),
    Rule("turns.empty", "An empty conversation becomes one user's turn.", _NONE, "content"),
    Rule("turns.user_first", "Before an assistant's turn at the beginning a user's turn is added.", _NONE, "content"),
    Rule("turns.prefill", "Behind an assistant's last turn a user's turn asks it to go on.", _NONE, "content"),
    Rule(
        "output.schema_instruction",
        "The schema of the answer is stated in the system text where the model takes none beside tools.",
        _FORM,
        "request",
    ),
    Rule(
        "output.schema_keywords",
        "Keywords of the answer's schema that the service lacks are stated in the description, and checked here.",
        _FORM,
        "schema",
    ),
    Rule("sampling.bounds", "A number that the service refuses becomes one that it takes.", _FORM, "request"),
    Rule(
        "sampling.penalties",
        "Presence and frequency penalties are dropped for models that take none.",
        _CONTENT,
        "request",
    ),
    Rule(
        "sampling.stops",
        "Five stop sequences are taken; the gateway ends an answer at the others.",
        _NONE,
        "request",
    ),
    Rule(
        "sampling.max_tokens",
        "The greatest length of the answer is kept within the model's bounds, and above its thinking.",
        _NONE,
        "request",
    ),
    Rule("thinking.unavailable", "A demand for thinking that the model does not take is dropped.", _CONTENT, "request"),
    Rule("thinking.not_off", "A model that cannot do without thinking thinks as little as it can.", _FORM, "request"),
    Rule(
        "thinking.effort", "An effort that the model does not have becomes the nearest that it has.", _FORM, "request"
    ),
    Rule("thinking.budget_as_level", "A budget becomes a level for models that have levels.", _FORM, "request"),
    Rule("thinking.budget", "A budget is kept within the model's bounds, and below the answer's.", _FORM, "request"),
)
