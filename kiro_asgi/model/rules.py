"""Rules: how a request is adapted to a service or an API, each declared once.

A rule that several parties have is in the catalogue.  A party lists those that it has by name, with the rules that are
its own, and says where what a rule does is another thing there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from attrs import evolve, frozen

from kiro_asgi.errors import ConfigError


class Loss(Enum):
    """The part of the client's request that is lost by a rule."""

    NONE = "none"
    """Nothing is lost, or the request is refused with a message."""

    FORM = "form"
    """All content is sent, in another form or at another place."""

    CONTENT = "content"
    """Some content is not sent."""


@frozen
class Rule:
    """One constraint, or one quirk, of a service or of an API, and how a request is adapted to it."""

    name: str
    what: str
    """One sentence."""

    loss: Loss


_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

_RULES: Final = (
    Rule("fields.withheld", "A field that the operator withholds (`withheld`) is left out.", _CONTENT),
    Rule("adapted.field", "A field that the service refused is left out, or has its other name.", _CONTENT),
    Rule("text.blank_dropped", "A blank text is left out.", _NONE),
    Rule("images.model", "An image for a model that takes none is refused.", _NONE),
    Rule("images.format", "An image in a format that the service does not know is refused.", _NONE),
    Rule("images.mismatch", "An image has the format that its bytes have.", _NONE),
    Rule(
        "images.address", "An image by an address that the service does not read is refused; see `fetch.allow`.", _NONE
    ),
    Rule("documents.format", "A document in a format that the service does not know is refused.", _NONE),
    Rule(
        "documents.address",
        "A document by an address that the service does not read is refused; see `fetch.allow`.",
        _NONE,
    ),
    Rule(
        "documents.renamed",
        "A document's name is written in the service's alphabet, and no other document has it.",
        _FORM,
    ),
    Rule("documents.inlined", "A plain-text document becomes part of the text.", _FORM),
    Rule(
        "attachments.base64",
        "Base64 is written without line breaks, in the standard alphabet and padded; anything else is refused.",
        _FORM,
    ),
    Rule("thinking.dropped", "Earlier thinking is not handed back, if that is set.", _CONTENT),
    Rule(
        "thinking.unsigned_dropped",
        "Earlier thinking without a signature of the service's own is not handed back.",
        _CONTENT,
    ),
    Rule("thinking.alone_dropped", "Earlier thinking that led to nothing is not handed back.", _CONTENT),
    Rule("thinking.unavailable", "A demand for thinking that the model does not take is dropped.", _CONTENT),
    Rule("thinking.budget", "A budget is kept within the model's bounds, and below the length of the answer.", _FORM),
    Rule(
        "thinking.effort",
        "An effort that the model does not have becomes the nearest that it has, in the form that it takes.",
        _FORM,
    ),
    Rule(
        "thinking.malformed_dropped",
        "Earlier thinking is not handed back where its text is missing or its seal was damaged.",
        _CONTENT,
    ),
    Rule("turns.part_moved", "A part that only the other side can have becomes a turn of that side.", _FORM),
    Rule("turns.merged", "Neighbouring turns of one side become one.", _FORM),
    Rule("turns.empty", "An empty conversation becomes one user's turn.", _NONE),
    Rule("turns.user_first", "Before an assistant's turn at the beginning a user's turn is added.", _NONE),
    Rule(
        "turns.prefill",
        "Behind an assistant's last turn that the model does not go on from, a user's turn asks it to.",
        _NONE,
    ),
    Rule("turns.trimmed", "White space at the end of the assistant's last text is left out.", _NONE),
    Rule("calls.duplicate_dropped", "A call that repeats another of its turn, id and all, is dropped.", _NONE),
    Rule(
        "calls.id_changed", "An id that is too long or has foreign characters is replaced, in call and result.", _FORM
    ),
    Rule("calls.id_repeated", "An id that an earlier call has is replaced, in call and result.", _FORM),
    Rule("calls.unanswered", "A call without a result gets an error that says so.", _NONE),
    Rule(
        "schema.renamed",
        "A name in a tool's schema that is too long or has foreign characters is replaced, also in earlier calls; "
        "the client's calls have its own.",
        _FORM,
    ),
    Rule("calls.input_wrapped", "Arguments that are not an object become one.", _FORM),
    Rule("results.orphan_to_text", "A result that answers no call becomes text.", _FORM),
    Rule("results.duplicate_dropped", "A result that repeats one for the same call is dropped.", _NONE),
    Rule("results.duplicate_to_text", "A second, different result for the same call becomes text.", _FORM),
    Rule("results.ordered", "Results stand in the order of their calls.", _NONE),
    Rule("results.relocated", "A result that comes late moves behind its call.", _FORM),
    Rule("results.attachment_lifted", "What a tool's result cannot hold at this service stands behind it.", _FORM),
    Rule(
        "system.attribution",
        "The line about billing that Claude Code puts first is left out; Anthropic's own service gets it.",
        _NONE,
    ),
    Rule("tools.as_function", "A tool that its API defines, and the client runs, is offered as a function.", _FORM),
    Rule("tools.duplicate_dropped", "Of tools with the same name the first counts.", _CONTENT),
    Rule(
        "tools.strict",
        "That calls must obey a tool's schema to the letter is left out, where the service cannot promise it.",
        _CONTENT,
    ),
    Rule("tools.parallel", "The limit to one call in an answer is dropped: the service has no field for it.", _CONTENT),
    Rule("tools.choice_unknown", "A choice that names a tool which is not there is refused.", _NONE),
    Rule("tools.stubbed", "Where no tool is offered, those that history calls are defined, not to be called.", _NONE),
    Rule(
        "tools.renamed",
        "A name that the service does not take, or takes for another one, is replaced; answers have the client's name.",
        _FORM,
    ),
    Rule("schema.combinators", "Alternatives at a schema's root become its own properties.", _CONTENT),
    Rule("schema.root", "The root of a tool's schema becomes an object.", _FORM),
    Rule("schema.depth", "Schemas nested deeper than 32 levels become anything.", _CONTENT),
    Rule("schema.keywords", "Keywords that the service refuses are taken out of schemas.", _CONTENT),
    Rule("schema.required", "Required names of no property are dropped.", _CONTENT),
    Rule(
        "output.schema_instruction",
        "The schema of the answer is stated in the system text, where the service takes it in no other way.",
        _FORM,
    ),
    Rule("sampling.max_tokens", "The greatest length of the answer is kept within the model's bounds.", _NONE),
    Rule("sampling.temperature", "A temperature over 1 becomes 1.", _FORM),
    Rule("sampling.model", "Those of temperature, top_p and top_k that the model does not take are dropped.", _CONTENT),
    Rule(
        "sampling.stop_blank",
        "The gateway ends the answer at a stop sequence without a visible character: the service takes none.",
        _NONE,
    ),
    Rule("sampling.ignored", "Seed and penalties are dropped: the service has no such fields.", _CONTENT),
    Rule("cache.limit", "Of more marks for the prompt cache than four the last four count.", _NONE),
    Rule("adapted.signatures", "Thinking is not handed back, as the service refused a signature.", _CONTENT),
)

CATALOGUE: Final[Mapping[str, Rule]] = MappingProxyType({rule.name: rule for rule in _RULES})
"""Rules that more than one party has, by name."""


def differs(name: str, what: str) -> Rule:
    """The rule of this *name* for a party where it does something else, which *what* says; nothing else is lost."""
    return evolve(CATALOGUE[name], what=what)


def listed(*entries: str | Rule) -> tuple[Rule, ...]:
    """The rules of a party, in its order.

    Args:
        entries: Names of the catalogue, and rules of the party's own.

    Raises:
        ValueError: A name is not in the catalogue, or stands there twice.
    """
    rules: dict[str, Rule] = {}
    for entry in entries:
        rule = CATALOGUE.get(entry) if isinstance(entry, str) else entry
        if rule is None:
            raise ValueError(f"no rule of the catalogue is named {entry!r}; declare it with what it does and its loss")
        if rules.setdefault(rule.name, rule) is not rule:
            raise ValueError(f"the rule {rule.name} is listed twice")
    return tuple(rules.values())


def declared_rules(entries: Iterable[str | Rule], whose: str) -> tuple[Rule, ...]:
    """As `listed`, for the manifest of *whose* part, in words.

    Raises:
        ConfigError: As there, or they are no collection, or an entry is neither.
    """
    if isinstance(entries, str) or not isinstance(entries, Iterable):
        raise ConfigError(f"{whose}: rules must be a tuple, not {entries!r:.60}", code="config.manifest")
    given = tuple(entries)
    for at, entry in enumerate(given):
        if not isinstance(entry, str | Rule):
            raise ConfigError(f"{whose}: rules[{at}] must be a Rule, not {entry!r:.60}", code="config.manifest")
    try:
        return listed(*given)
    except ValueError as error:
        raise ConfigError(f"{whose}: rules: {error}", code="config.manifest") from error
