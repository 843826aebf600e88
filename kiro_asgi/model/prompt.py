"""The neutral request of a client, whichever API it used: the middle between dialects and upstreams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Final

from attrs import define, field, frozen

from kiro_asgi.errors import RequestError
from kiro_asgi.model.conversion import is_model, is_text, member, require_name, several, texts
from kiro_asgi.model.handling import Handling
from kiro_asgi.model.unread import Unread

__all__ = [
    "REMEMBERED",
    "TEXT_INPUT",
    "Attachment",
    "Demand",
    "Document",
    "Image",
    "Opaque",
    "Part",
    "Prompt",
    "Role",
    "Sampling",
    "Text",
    "TextForm",
    "Thinking",
    "ThinkingMode",
    "ThinkingPart",
    "Tool",
    "ToolCallPart",
    "ToolChoice",
    "ToolChoiceMode",
    "ToolResult",
    "Turn",
    "system_of",
]


REMEMBERED: Final = "ephemeral"
"""A mark for the service's cache without a duration."""

TEXT_INPUT: Final = "input"
"""The argument that holds the text of a call, where a tool takes a text; see `TextForm`."""

_NUMBERS: Final = ("max_tokens", "temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty")
"""Fields of `Sampling`."""


class Role(Enum):
    """The speaker of a turn."""

    USER = "user"
    ASSISTANT = "assistant"


def _role(value: Role | str) -> Role:
    return member(Role, value)


def _parts(parts: Iterable[Part] | str) -> tuple[Part, ...]:
    return (Text(parts),) if isinstance(parts, str) else several(parts, _PARTS, "Turn.parts")


def _content(
    parts: Iterable[Text | Image | Document | Opaque] | str,
) -> tuple[Text | Image | Document | Opaque, ...]:
    return (Text(parts),) if isinstance(parts, str) else several(parts, _CONTENT, "ToolResult.parts")


def _stop(stop: Iterable[str] | str) -> tuple[str, ...]:
    return texts(stop, "Sampling.stop")


def _system(system: Iterable[str] | str) -> tuple[str, ...]:
    return texts(system, "Prompt.system")


def _turns(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    return several(turns, _TURN, "Prompt.turns")


def _tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    return several(tools, _TOOL, "Prompt.tools")


def _choice_mode(value: ToolChoiceMode | str) -> ToolChoiceMode:
    return member(ToolChoiceMode, value)


def _thinking_mode(value: ThinkingMode | str) -> ThinkingMode:
    return member(ThinkingMode, value)


@frozen
class Text:
    """Plain text."""

    text: str = field(validator=is_text)

    cache: str = field(default="", eq=False)
    """For how long the service shall remember the prompt up to here: ``5m``, ``1h``, or `REMEMBERED`; empty for not."""

    is_refusal: bool = False
    """Whether an earlier answer declined with it, as far as the client reports it."""

    phase: str = ""
    """Of an earlier answer's text, as of `kiro_asgi.model.events.TextBreak`; empty where the client sent none."""

    block: Mapping[str, Any] | None = field(default=None, eq=False)
    """The block of the Messages API that the text stands for, where that holds more; only for services of that API."""

    unread: Unread | None = field(default=None, eq=False, kw_only=True)
    """Members that the reader of its API did not understand; ``None`` for none."""


@frozen
class Image:
    """An image, by value or by address; exactly one of *data* and *url* is set."""

    media_type: str = ""
    """E.g. ``image/png``; empty when only a *url* is known."""

    data: str = ""
    """Base64, standard alphabet."""

    url: str = ""
    place: str = field(default="", eq=False)
    """Where in the client's request it stands, e.g. ``messages[3].content[1]``."""

    cache: str = field(default="", eq=False)
    """As for `Text`."""

    unread: Unread | None = field(default=None, eq=False, kw_only=True)
    """As for `Text`."""


@frozen
class Document:
    """A document, by value or by address."""

    media_type: str
    """E.g. ``application/pdf`` or ``text/plain``."""

    data: str = ""
    """Base64; empty for plain text."""

    text: str = ""
    """The content of a plain-text document."""

    url: str = ""
    title: str = ""
    cited: bool = False
    """Whether the answer is to cite it."""

    place: str = field(default="", eq=False)
    """As for `Image`."""

    cache: str = field(default="", eq=False)
    """As for `Text`."""

    unread: Unread | None = field(default=None, eq=False, kw_only=True)
    """As for `Text`."""


Attachment = Image | Document
"""What is not text."""


@frozen
class ThinkingPart:
    """Thinking of an earlier answer, as the client echoes it."""

    text: str = ""
    signature: str = ""
    """The seal over it, see `kiro_asgi.model.signatures`; without *text*, over the part after it."""

    redacted: str = ""
    """Sealed thinking; then *text* and *signature* are empty."""

    member: str = field(default="", eq=False)
    """Name under which the client sent it, where its API has several: it may be the one that the service knows."""

    cache: ClassVar[str] = ""
    """The service takes no mark here."""

    unread: Unread | None = field(default=None, eq=False, kw_only=True)
    """As for `Text`."""


@frozen
class ToolCallPart:
    """A tool call of an earlier answer."""

    call_id: str = field(validator=is_text)
    name: str = field(validator=is_text)
    input: Mapping[str, Any]

    cache: str = field(default="", eq=False)
    """As for `Text`."""

    instead: str = field(default="", kw_only=True)
    """Name of the function that stands for its tool at services of other APIs than *unread* is of; empty for *name*."""

    unread: Unread | None = field(default=None, eq=False, kw_only=True)
    """As for `Text`."""


@frozen
class ToolResult:
    """The result of a tool call."""

    call_id: str = field(validator=is_text)
    parts: tuple[Text | Image | Document | Opaque, ...] = field(default=(), converter=_content)
    """Made of whatever gives such parts; a text stands for a part with it."""

    is_error: bool = False

    cache: str = field(default="", eq=False)
    """As for `Text`."""

    block: Mapping[str, Any] | None = field(default=None, eq=False)
    """As for `Text`, of a search that the service ran itself."""

    unread: Unread | None = field(default=None, eq=False, kw_only=True)
    """As for `Text`."""


@frozen(eq=False)
class Opaque:
    """A part that only services of its own API understand."""

    api: str
    """As of `kiro_asgi.model.unread.Unread`."""

    value: Mapping[str, Any] = field(repr=False)
    """The part as it came."""

    place: str = ""
    """As for `Image`."""

    instead: tuple[Part, ...] = ()
    """The parts that stand for it at every other service."""

    refusal: RequestError | None = None
    """Why no other service can be asked with it; ``None`` where it is left out there, or `instead` stands for it."""

    cache: ClassVar[str] = ""
    """Its mark is in its value."""

    unread: ClassVar[None] = None
    """All of it is."""


Part = Text | Image | Document | ThinkingPart | ToolCallPart | ToolResult | Opaque
"""A piece of a turn."""

_CONTENT: Final = frozenset((Text, Image, Document, Opaque))
_PARTS: Final = frozenset((*_CONTENT, ThinkingPart, ToolCallPart, ToolResult))
"""The kinds themselves: what code does for a kind it does not do for a class that is derived from it."""


@define(eq=False)
class Kept:
    """Room for what the writer of a service's request made of a value that later prompts will have, too."""

    lasts: bool = False
    """Whether they will; else nothing is put here."""

    made: Any = None
    """Whoever takes it looks whether it is theirs, and was made of the same parts under the same conditions."""

    odd: tuple[object, frozenset[str]] | None = None
    """Of a tool: an alphabet, and the names in its schema that are not of that; ``None`` until they are looked for."""


@frozen
class Turn:
    """A message of one side; neighbouring turns may have the same role."""

    role: Role = field(converter=_role)
    """Or its value, ``user`` or ``assistant``."""

    parts: tuple[Part, ...] = field(converter=_parts)
    """Made of whatever gives parts; a text stands for a part with it."""

    place: str = field(default="", eq=False)
    """As for `Image`, e.g. ``messages[3]``."""

    unread: Unread | None = field(default=None, eq=False, kw_only=True)
    """As for `Text`."""

    kept: Kept = field(init=False, factory=Kept, eq=False, repr=False)
    """A turn that is changed begins anew."""

    def content(self) -> Iterator[Part]:
        """The parts, and in the place of each tool's result what it holds, of an opaque part what stands for it."""
        for part in self.parts:
            if type(part) is ToolResult:
                yield from part.parts
            elif type(part) is Opaque:
                yield from part.instead
            else:
                yield part


@frozen
class TextForm:
    """A tool that takes free text, in the form of a service that has such tools.

    For every other service it is a function with one string, `TEXT_INPUT`.
    """

    description: str = ""
    format: Mapping[str, Any] | None = None
    """Constraint on the text, such as a grammar, as the client sent it; ``None`` for any text."""


@frozen
class Tool:
    """A tool that the model may call."""

    name: str = field(validator=is_text)
    description: str = ""
    schema: Mapping[str, Any] = field(factory=dict)
    """JSON Schema of the arguments object, as the client sent it."""

    hosted: str = ""
    """Kind of a tool that the client expects to be run for it, e.g. ``web_search``; empty for the client's own."""

    options: Mapping[str, Any] = field(factory=dict)
    """Options of a hosted tool that the client set: ``max_uses``, ``allowed_domains``, ``blocked_domains``."""

    text_form: TextForm | None = None
    """Its other form, if it takes a text."""

    strict: bool = False
    """Whether the client demands that arguments obey the schema to the letter."""

    place: str = field(default="", eq=False)
    """As for `Image`, e.g. ``tools[2]``."""

    cache: str = field(default="", eq=False)
    """As for `Text`."""

    unread: Unread | None = field(default=None, eq=False, kw_only=True)
    """As for `Text`."""

    opaque: Opaque | None = field(default=None, eq=False, kw_only=True)
    """The tool as its API has it, where that is more than a function, or another thing; ``None`` for a function."""

    instead: tuple[Tool, ...] = field(default=(), kw_only=True)
    """The functions that stand for it at every other service, where it is many tools in one; empty for itself."""

    kept: Kept = field(init=False, factory=Kept, eq=False, repr=False)
    """As of `Turn`."""


class ToolChoiceMode(Enum):
    """Whether the model must call a tool."""

    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"
    NONE = "none"


@frozen
class ToolChoice:
    """The client's tool choice."""

    mode: ToolChoiceMode = field(default=ToolChoiceMode.AUTO, converter=_choice_mode)
    name: str = ""
    """The tool to call, for ``NAMED``."""

    parallel: bool = True
    """Whether one answer may hold several calls."""

    raw: Any = None
    """As the client sent it."""

    allowed: frozenset[str] | None = None
    """The only tools that may be called, where the client names them; ``None`` where it does not."""

    @property
    def permitted(self) -> frozenset[str] | None:
        """The only tools that an answer may call; ``None`` for any."""
        match self.mode:
            case ToolChoiceMode.NONE:
                return frozenset()
            case ToolChoiceMode.NAMED:
                return frozenset({self.name})
        return self.allowed

    def permits(self, name: str) -> bool:
        """Whether an answer may call the tool of this *name*."""
        permitted = self.permitted
        return permitted is None or name in permitted

    @property
    def demanded(self) -> bool:
        """Whether an answer has to hold a call."""
        return self.mode in (ToolChoiceMode.REQUIRED, ToolChoiceMode.NAMED)


class ThinkingMode(Enum):
    """Whether the client wants thinking."""

    DEFAULT = "default"
    """The client sent nothing about it."""

    ENABLED = "enabled"
    ADAPTIVE = "adaptive"
    DISABLED = "disabled"


@frozen
class Thinking:
    """The client's options for thinking."""

    mode: ThinkingMode = field(default=ThinkingMode.DEFAULT, converter=_thinking_mode)
    budget_tokens: int | None = None
    effort: str = ""
    """``minimal``, ``low``, ``medium``, ``high``, ``xhigh``, ``max``; empty when not sent."""

    omitted: bool = False
    """Whether the client wants no text of it, only its seals (``display: "omitted"``)."""

    said: str = field(default="", eq=False)
    """Field with which the client said so, where that is a switch that some servers know; empty for any other."""

    @property
    def wanted(self) -> bool:
        """Whether the client asked for thinking explicitly."""
        return self.mode in (ThinkingMode.ENABLED, ThinkingMode.ADAPTIVE)


@frozen
class Sampling:
    """How to draw tokens; ``None`` is "not sent"."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = field(default=(), converter=_stop)
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None

    @property
    def numbers(self) -> Mapping[str, float]:
        """All values that were sent except texts, by the names of the fields."""
        values = {name: getattr(self, name) for name in _NUMBERS}
        return {name: value for name, value in values.items() if value is not None}

    def given(self, names: Iterable[str]) -> list[str]:
        """The fields among *names* that the client sent."""
        return [name for name in names if getattr(self, name) is not None]


@frozen(eq=False)
class Demand:
    """Members of a whole request that only services of its own API can be asked for.

    An answer without what they ask for would be another one than the one asked for.
    """

    api: str
    """As of `kiro_asgi.model.unread.Unread`."""

    members: Mapping[str, Any] = field(repr=False)
    """As that API's services are sent them, objects within them as of `kiro_asgi.model.unread.Unread`."""

    refusal: RequestError
    """Why no other service can be asked."""


def _is_session(made: object, attribute: object, value: str) -> None:
    require_name(value, "the name of the session")


_TURN: Final = frozenset((Turn,))
_TOOL: Final = frozenset((Tool,))


@frozen
class Prompt:
    """One request, neutral.

    Like all values of this module, it takes what is meant in its place, such as a list, and raises a `TypeError` or
    `ValueError` for what cannot be.
    """

    model: str = field(validator=is_model)
    """The name the client used; answers echo it."""

    turns: tuple[Turn, ...] = field(default=(), converter=_turns)
    system: tuple[str, ...] = field(default=(), converter=_system)
    """System and developer texts from before the conversation, in order."""

    tools: tuple[Tool, ...] = field(default=(), converter=_tools)
    tool_choice: ToolChoice = field(factory=ToolChoice)
    thinking: Thinking = field(factory=Thinking)
    sampling: Sampling = field(factory=Sampling)
    metadata: Mapping[str, Any] = field(factory=dict)
    handling: Handling = field(factory=Handling, eq=False, kw_only=True)
    """The tier, labels and user, for services that have words for them."""

    session: str = field(default="", validator=_is_session)
    """The client's name of the session that this belongs to, the same in each request; empty where it has none.
    It is sent to no upstream as it is."""

    system_place: str = field(default="system", eq=False)
    """As for `Image`: where the first of the system texts stands."""

    shortens: bool = False
    """Whether the oldest turns may be left out where the whole does not fit the model."""

    verbosity: str = ""
    """How long answers shall be: ``low``, ``medium`` or ``high``; empty when not sent."""

    max_tool_calls: int | None = None
    """How many calls of tools that the client does not run one answer may hold, all tools together."""

    schema: Mapping[str, Any] | None = None
    """JSON Schema that the answer text must obey (structured output); an empty mapping means "any JSON object"."""

    cache: str = field(default="", eq=False)
    """As for `Text`, of the whole prompt."""

    system_marks: Mapping[int, str] = field(factory=dict, eq=False)
    """The same for system texts, by their index."""

    betas: tuple[str, ...] = field(default=(), eq=False)
    """Beta features of the Messages API that its client asks for; sent only to services of that API."""

    attribution: Text | None = field(default=None, eq=False, kw_only=True)
    """A line about the client that stands before the system texts, as Claude Code writes it.  It is for services of the
    client's API, which take it out; no model reads it."""

    unread: Unread | None = field(default=None, eq=False, kw_only=True)
    """As for `Text`."""

    demands: tuple[Demand, ...] = field(default=(), eq=False, kw_only=True)
    """What only services of the client's API can be asked for."""

    system_unread: Mapping[int, Unread] = field(factory=dict, eq=False, kw_only=True)
    """The same for system texts, by their index."""

    def max_uses(self, tool: Tool) -> int | None:
        """How often one answer may call *tool*, which the client does not run; ``None`` for any number."""
        limits = tool.options.get("max_uses"), self.max_tool_calls
        return min((limit for limit in limits if limit is not None), default=None)


def system_of(texts: Iterable[Text]) -> tuple[tuple[str, ...], Mapping[int, Unread]]:
    """`Prompt.system` and `Prompt.system_unread` of *texts*."""
    given = tuple(texts)
    return tuple(text.text for text in given), {at: it.unread for at, it in enumerate(given) if it.unread is not None}
