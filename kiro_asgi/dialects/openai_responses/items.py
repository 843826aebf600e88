"""Input items and their content: from what the client sent to turns and system texts.

Every item becomes a turn of its own.  System and developer messages at the beginning are system texts; later ones stay
where they are, in the user's turn, because they concern what comes after them, and because a prompt whose beginning
does not change can be cached.

An earlier answer of another server may hold items of tools that the gateway does not run.  They become a call and its
result, so that the model knows what was done; an item of another shape is read as far as it makes sense, and one of an
unknown kind is passed over.

Source: https://platform.openai.com/docs/api-reference/responses/object
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kiro_asgi.dialects.errors import invalid, missing, unsupported
from kiro_asgi.dialects.media import read_file, read_image
from kiro_asgi.dialects.openai_common import (
    AudioPart,
    ImageUrl,
    PartReader,
    RefusalPart,
    TextPart,
)
from kiro_asgi.dialects.openai_responses.compaction import GO_ON, summarising
from kiro_asgi.dialects.openai_responses.shapes import (
    API,
    BESIDE,
    AgentMessageItem,
    CallOutput,
    ClientCall,
    CompactionItem,
    CompactionTrigger,
    Content,
    CustomCall,
    FunctionCallItem,
    InputFile,
    InputImage,
    Item,
    LocalShellOutput,
    MessageItem,
    PatchOutput,
    ReasoningItem,
    Reference,
    ShellOutput,
    ShellResult,
    ToolBody,
    ToolsItem,
)
from kiro_asgi.dialects.openai_responses.tools import CLIENT_TOOLS, ToolCollector, flat_name
from kiro_asgi.dialects.structure import Raw
from kiro_asgi.dialects.tools import SEARCH_TOOL, is_callable, read_arguments
from kiro_asgi.errors import RequestError
from kiro_asgi.model.notes import UNHEARD, Notes
from kiro_asgi.model.prompt import (
    TEXT_INPUT,
    Document,
    Image,
    Opaque,
    Part,
    Role,
    Text,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
    Turn,
)
from kiro_asgi.model.unread import Unread
from kiro_asgi.wire.json import object_of, objects_of, text_of

ContentPart = Text | Image | Document | Opaque


def read_content(content: Content, place: str) -> tuple[ContentPart, ...]:
    """Texts, images and files in order.

    Raises:
        RequestError: A part that is unknown, unsupported or malformed; ``param`` names it.
    """
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_PART_READERS[type(part)](part, f"{place}[{index}]") for index, part in enumerate(content))


def _readable(content: Content, place: str, notes: Notes) -> Iterator[ContentPart]:
    """The same without parts of unknown kinds."""
    for index, part in enumerate((TextPart(content),) if isinstance(content, str) else content):
        if isinstance(part, Raw):
            notes.applies("blocks.unknown", f"{place}[{index}]", kept_for=API)
        else:
            yield _PART_READERS[type(part)](part, f"{place}[{index}]")


def read_texts(content: Content, place: str) -> Iterator[Text]:
    """The texts of content that may hold nothing else; empty ones are left out.

    Raises:
        RequestError: Like `read_content`, and at any part that is no text.
    """
    for index, part in enumerate(read_content(content, place)):
        if not isinstance(part, Text):
            raise invalid(f"{place}[{index}].type", "a message of this role can hold only text")
        if part.text:
            yield part


def _image_part(part: InputImage, place: str) -> ContentPart:
    match part.image_url:
        case str(url):
            image = read_image(url, f"{place}.image_url")
        case ImageUrl(url):
            image = read_image(url, f"{place}.image_url.url")
        case None if part.file_id is not None:
            advice = "there is no file store here; send image_url, an address or a data: URL"
            return Opaque(API, part.given, place, refusal=unsupported(f"{place}.file_id", advice))
        case None:
            raise missing(f"{place}.image_url", "required field missing")
    return evolve(image, unread=BESIDE(part)) if part.unread else image


def _file_part(part: InputFile, place: str) -> ContentPart:
    title = part.filename or ""
    if part.file_data is not None:
        file = read_file(part.file_data, title, f"{place}.file_data")
    elif part.file_url is not None:
        file = read_file(part.file_url, title, f"{place}.file_url")
    elif part.file_id is not None:
        refusal = unsupported(f"{place}.file_id", "there is no file store here; send file_data, a data: URL")
        return Opaque(API, part.given, place, refusal=refusal)
    else:
        raise missing(f"{place}.file_data", "required field missing")
    return evolve(file, unread=BESIDE(part)) if part.unread else file


_SHARED: Final = PartReader(BESIDE)

_PART_READERS: Final = MappingProxyType[type, Callable[[Any, str], ContentPart]](
    {
        TextPart: _SHARED.text,
        RefusalPart: _SHARED.refusal,
        InputImage: _image_part,
        InputFile: _file_part,
        AudioPart: _SHARED.audio,
        Raw: _SHARED.unknown,
    }
)


Object = Mapping[str, Any]


def _summarised(item: Object, place: str) -> tuple[Part, ...]:
    """The parts that stand for *item*; none for a kind that is not in `SUMMARISED`.

    Raises:
        RequestError: A screenshot that is no image.
    """
    kind = item.get("type")
    read = SUMMARISED.get(kind) if isinstance(kind, str) else None
    return () if read is None else tuple(read(item, place))


def _done(item: Object, place: str, name: str, arguments: Object, given: Iterable[str]) -> tuple[Part, ...]:
    """A call and its result."""
    call_id = text_of(item, "id") or place
    status = text_of(item, "status")
    text = "\n\n".join(filter(None, given)) or status or "completed"
    return ToolCallPart(call_id, name, arguments), ToolResult(call_id, (Text(text),), status == "failed")


def _web_search(item: Object, place: str) -> Iterable[Part]:
    action = object_of(item.get("action"))
    asked = {name: action[name] for name in ("query", "url", "pattern") if isinstance(action.get(name), str)}
    sources = (text_of(source, "url") for source in objects_of(action.get("sources")))
    return _done(item, place, SEARCH_TOOL.name, asked, ["\n".join(filter(None, sources))])


def _file_search(item: Object, place: str) -> Iterable[Part]:
    found = (f"{text_of(hit, 'filename')}\n{text_of(hit, 'text')}" for hit in objects_of(item.get("results")))
    return _done(item, place, "file_search", {"queries": item.get("queries")}, found)


def _code(item: Object, place: str) -> Iterable[Part]:
    logs = (text_of(output, "logs") for output in objects_of(item.get("outputs")))
    return _done(item, place, "code_interpreter", {"code": item.get("code")}, logs)


def _drawing(item: Object, place: str) -> Iterable[Part]:
    return _done(item, place, "image_generation", {"prompt": item.get("revised_prompt")}, ())


def _mcp(item: Object, place: str) -> Iterable[Part]:
    arguments = read_arguments(text_of(item, "arguments"), f"{place}.arguments")
    return _done(item, place, text_of(item, "name") or "mcp", arguments, [text_of(item, "output")])


def _computer(item: Object, place: str) -> Iterable[Part]:
    actions = item.get("actions") or [item.get("action")]
    return (ToolCallPart(text_of(item, "call_id") or place, "computer", {"actions": actions}),)


def _screenshot(item: Object, place: str) -> Iterable[Part]:
    output = object_of(item.get("output"))
    url = text_of(output, "image_url")
    if not url and output.get("file_id"):
        raise unsupported(f"{place}.output.file_id", "there is no file store here; send image_url, a data: URL")
    seen = read_image(url, f"{place}.output.image_url") if url else Text("(a screenshot)")
    return (ToolResult(text_of(item, "call_id"), (seen,)),)


def _program(item: Object, place: str) -> Iterable[Part]:
    return (ToolCallPart(text_of(item, "call_id") or place, "program", {"code": item.get("code")}),)


def _agents(item: Object, place: str) -> Iterable[Part]:
    arguments = read_arguments(text_of(item, "arguments"), f"{place}.arguments")
    return (ToolCallPart(text_of(item, "call_id") or place, text_of(item, "action") or "multi_agent", arguments),)


def _agents_output(item: Object, _: str) -> Iterable[Part]:
    texts = tuple(Text(text_of(part, "text")) for part in objects_of(item.get("output")))
    return (ToolResult(text_of(item, "call_id"), texts),)


def _program_output(item: Object, _: str) -> Iterable[Part]:
    return (ToolResult(text_of(item, "call_id"), (Text(text_of(item, "result")),)),)


SUMMARISED: Final = MappingProxyType[str, Callable[[Object, str], Iterable[Part]]](
    {
        "web_search_call": _web_search,
        "file_search_call": _file_search,
        "code_interpreter_call": _code,
        "image_generation_call": _drawing,
        "mcp_call": _mcp,
        "computer_call": _computer,
        "computer_call_output": _screenshot,
        "program": _program,
        "program_output": _program_output,
        "multi_agent_call": _agents,
        "multi_agent_call_output": _agents_output,
    }
)
"""Kind of item to its reader."""


OpenThinking = Callable[[str], ThinkingPart | None]
"""Opens the ``encrypted_content`` of reasoning; ``None`` for what is not ours."""

OpenSummary = Callable[[str], str | None]
"""Opens that of a compaction."""


PHASES: Final = ("commentary", "final_answer")
"""Phases of the assistant's messages."""


_NO_CALLS: Final[Mapping[str, str]] = MappingProxyType({})


@frozen
class Taken:
    """What one item adds to those before it; no later one changes that."""

    turn: Turn | None = None
    system: tuple[Text, ...] = ()
    """Texts before the conversation begins."""

    place: str = ""
    """Where they stand, or the *tools*."""

    calls: Mapping[str, str] = _NO_CALLS
    """Ids by which a client may refer to calls, to the calls' ids."""

    tools: tuple[ToolBody, ...] = ()
    """Tools that were found for the model."""

    is_compaction: bool = False


_NOTHING: Final = Taken()


@define
class ItemReader:
    """Reads items in order, and remembers the calls that outputs must answer.

    Raises:
        RequestError: From `read`: an item that has no place where it stands.
    """

    toolbox: ToolCollector
    open_thinking: OpenThinking
    open_summary: OpenSummary = lambda _: None
    notes: Notes = UNHEARD
    system: list[Text] = field(init=False, factory=list)
    """The texts before the conversation begins; what was not read of each is that of its message, and as ``content``
    that of its part."""

    system_place: str = field(init=False, default="")
    """Where the first of them stands."""

    turns: list[Turn] = field(init=False, factory=list)
    taken: list[Taken | None] = field(init=False, factory=list)
    """What each item added; ``None`` for one that a compaction stands for."""

    _calls: dict[str, str] = field(init=False, factory=dict)
    """Every id by which a client may refer to a call, to the call's id."""

    def read(
        self, given: str | Sequence[Item], without: Container[int] = (), before: Iterable[Taken | None] = ()
    ) -> None:
        """Take the input; system texts without a conversation become the user's message.

        Args:
            given: The input.
            without: Places of items that a compaction stands for.
            before: What those items added that come before it, and are not read again.
        """
        if isinstance(given, str):
            self._take(_turn(Role.USER, "input", Text(given)))
            return
        for taken in before:
            self._take(taken)
        for index, item in enumerate(given, len(self.taken)):
            self._take(None if index in without else _ITEM_READERS[type(item)](self, item, f"input[{index}]"))
        if self.taken and self.taken[-1] is not None and self.taken[-1].is_compaction:
            self.turns.append(Turn(Role.USER, (Text(GO_ON),), f"input[{len(self.taken) - 1}]"))
        if not self.turns and self.system:
            texts = (evolve(text, unread=None) for text in self.system)
            self.turns.append(Turn(Role.USER, tuple(texts), self.system_place))
            self.system = []

    def _take(self, taken: Taken | None) -> None:
        self.taken.append(taken)
        if taken is None:
            return
        if taken.turn is not None:
            self.turns.append(taken.turn)
        if taken.calls:
            self._calls.update(taken.calls)
        if taken.system:
            self.system += taken.system
            self.system_place = self.system_place or taken.place
        if taken.tools:
            self.toolbox.add(taken.tools, taken.place)

    def _message(self, item: MessageItem, place: str) -> Taken:
        if item.role is None and item.content is None and isinstance(item.id, str):
            raise _unresolved(f"{place}.id")
        for name in ("role", "content"):
            if getattr(item, name) is None:
                raise missing(f"{place}.{name}", "required field missing")
        read = _ROLES.get(item.role or "")
        if read is None:
            raise invalid(f"{place}.role", f"expected one of {', '.join(_ROLES)}, got {str(item.role)[:60]!r}")
        return read(self, item, item.content, place)

    def _user(self, item: MessageItem, content: Any, place: str) -> Taken:
        return _turn(Role.USER, place, *read_content(content, f"{place}.content"), unread=BESIDE(item))

    def _assistant(self, item: MessageItem, content: Any, place: str) -> Taken:
        parts = (part for part in read_content(content, f"{place}.content") if part != Text(""))
        known = item.phase if item.phase in PHASES else ""
        phased = (evolve(it, phase=known) if isinstance(it, Text) else it for it in parts)
        return _turn(Role.ASSISTANT, place, *phased, unread=BESIDE(item))

    def _developer(self, item: MessageItem, content: Any, place: str) -> Taken:
        texts = [*read_texts(content, f"{place}.content")]
        if self.turns:
            return _turn(Role.USER, place, *texts, unread=BESIDE(item))
        return Taken(system=tuple(BESIDE.within(item, texts)), place=place)

    def _reasoning(self, item: ReasoningItem, place: str) -> Taken:
        """Thinking; what another server sealed only a service of the API can read."""
        opened = self.open_thinking(item.encrypted_content) if item.encrypted_content else None
        text = "\n\n".join(piece.text for piece in item.content or item.summary or ())
        part = opened or (ThinkingPart(text) if text else None)
        if opened is None and item.encrypted_content:
            if part is None:
                self.notes.applies("thinking.sealed_dropped", place, kept_for=API)
            return self._opaque(item.given, place, (part,) if part else (), role=Role.ASSISTANT)
        return _turn(Role.ASSISTANT, place, *filter(None, [part]))

    def _agent_message(self, item: AgentMessageItem, place: str) -> Taken:
        """What another agent says is a user's: a model has no other side.  What is sealed only its service can read."""
        parts = tuple(_readable(item.content or (), f"{place}.content", self.notes))
        return self._opaque(item.given, place, parts, role=Role.USER)

    def _function_call(self, item: FunctionCallItem, place: str) -> Taken:
        return self._call(item, place, read_arguments(item.arguments, f"{place}.arguments"))

    def _custom_call(self, item: CustomCall, place: str) -> Taken:
        return self._call(item, place, {TEXT_INPUT: item.input})

    def _call(self, item: FunctionCallItem | CustomCall, place: str, arguments: Mapping[str, Any]) -> Taken:
        name = flat_name(item.namespace, item.name) if item.namespace else item.name
        return _turn(Role.ASSISTANT, place, ToolCallPart(item.call_id, name, arguments, unread=BESIDE(item)))

    def _client_call(self, item: ClientCall, place: str) -> Taken:
        name = item.type.removesuffix("_call")
        call_id = item.call_id or item.id or place
        taken = _turn(Role.ASSISTANT, place, ToolCallPart(call_id, name, CLIENT_TOOLS[name].arguments(item)))
        return evolve(taken, calls={item.id: call_id, **taken.calls}) if item.id else taken

    def _output(self, item: CallOutput, place: str) -> Taken:
        content = read_content(item.output, f"{place}.output")
        if item.call_id is None:
            return _turn(Role.USER, place, Text(f"{item.name or 'A tool'} says:"), *content)
        result = ToolResult(self._answered(item.call_id, place), content, unread=BESIDE(item))
        return _turn(Role.USER, place, result)

    def _local_shell_output(self, item: LocalShellOutput, place: str) -> Taken:
        call_id = self._answered(item.call_id or item.id or "", place)
        return _turn(Role.USER, place, ToolResult(call_id, (Text(item.output),)))

    def _shell_output(self, item: ShellOutput, place: str) -> Taken:
        texts = tuple(Text(_shell_text(result)) for result in item.output)
        return _turn(Role.USER, place, ToolResult(self._answered(item.call_id, place), texts))

    def _patch_output(self, item: PatchOutput, place: str) -> Taken:
        call_id = self._answered(item.call_id, place)
        result = ToolResult(call_id, (Text(item.output or item.status),), item.status == "failed")
        return _turn(Role.USER, place, result)

    def _tools(self, item: ToolsItem, place: str) -> Taken:
        found = ToolCollector()
        found.add(item.tools, at := f"{place}.tools")
        if item.call_id not in self._calls:
            return Taken(tools=item.tools, place=at)
        names = (name for name, tool in found.tools.items() if is_callable(tool))
        text = ", ".join(names) or "No tool was found."
        result = ToolResult(self._calls[item.call_id], (Text(text),))
        return Taken(Turn(Role.USER, (result,), place), tools=item.tools, place=at)

    def _compaction(self, item: CompactionItem, place: str) -> Taken:
        return evolve(self._summary(item, place), is_compaction=True)

    def _summary(self, item: CompactionItem, place: str) -> Taken:
        """Nothing for an empty one; one that cannot be read would take the whole conversation with it."""
        if not item.encrypted_content:
            return _NOTHING
        summary = self.open_summary(item.encrypted_content)
        if summary is None:
            message = "this compaction is of another service or client, or was changed: send the conversation instead"
            refusal = RequestError(message, code="invalid_encrypted_content", param=f"{place}.encrypted_content")
            return self._opaque(item.given, place, refusal=refusal)
        return _turn(Role.ASSISTANT, place, summarising(summary))

    def _trigger(self, item: CompactionTrigger, place: str) -> Taken:
        """Adds no turn: it is about the answer."""
        return _NOTHING

    def _reference(self, item: Reference, place: str) -> Taken:
        raise _unresolved(f"{place}.id")

    def _other(self, item: Raw, place: str) -> Taken:
        """A result without its call is left out."""
        parts = _summarised(item.value, place)
        self.notes.applies("items.summarised" if parts else "items.unknown", place, kept_for=API)
        called = {part.call_id for part in parts if isinstance(part, ToolCallPart)}.union(self._calls)
        known = (part for part in parts if not isinstance(part, ToolResult) or part.call_id in called)
        return self._opaque(item.value, place, tuple(known), role=Role.ASSISTANT if parts else None)

    def _opaque(
        self,
        value: Object,
        place: str,
        instead: tuple[Part, ...] = (),
        *,
        refusal: RequestError | None = None,
        role: Role | None = None,
    ) -> Taken:
        """An item that only services of the API understand, of *role*, or of the side that spoke last."""
        side = role or (self.turns[-1].role if self.turns else Role.USER)
        turn = Turn(side, (Opaque(API, value, place, instead, refusal),), place)
        return Taken(turn, calls=_calls_of(instead))

    def _answered(self, call_id: str, place: str) -> str:
        if call_id not in self._calls:
            raise invalid(f"{place}.call_id", "no earlier item is a call with this id")
        return self._calls[call_id]


def _turn(role: Role, place: str, *parts: Part, unread: Unread | None = None) -> Taken:
    """A turn, unless it would be empty."""
    return Taken(Turn(role, parts, place, unread=unread), calls=_calls_of(parts)) if parts else _NOTHING


def _calls_of(parts: Iterable[Part]) -> Mapping[str, str]:
    return {part.call_id: part.call_id for part in parts if isinstance(part, ToolCallPart)} or _NO_CALLS


_ROLES: Final = MappingProxyType(
    {
        "user": ItemReader._user,
        "assistant": ItemReader._assistant,
        "system": ItemReader._developer,
        "developer": ItemReader._developer,
    }
)

_ITEM_READERS: Final = MappingProxyType[type, Any](
    {
        MessageItem: ItemReader._message,
        ReasoningItem: ItemReader._reasoning,
        AgentMessageItem: ItemReader._agent_message,
        FunctionCallItem: ItemReader._function_call,
        CustomCall: ItemReader._custom_call,
        ClientCall: ItemReader._client_call,
        CallOutput: ItemReader._output,
        LocalShellOutput: ItemReader._local_shell_output,
        ShellOutput: ItemReader._shell_output,
        PatchOutput: ItemReader._patch_output,
        ToolsItem: ItemReader._tools,
        CompactionItem: ItemReader._compaction,
        CompactionTrigger: ItemReader._trigger,
        Reference: ItemReader._reference,
        Raw: ItemReader._other,
    }
)


def _unresolved(place: str) -> RequestError:
    return invalid(place, "no stored item has this id; send the item itself, as clients do when store is false")


def _shell_text(result: ShellResult) -> str:
    """The output and the outcome of one command as text."""
    outcome = result.outcome or {}
    code = outcome.get("exit_code")
    ending = "timed out" if outcome.get("type") == "timeout" else f"exit code {code}" if code else ""
    return "\n".join(filter(None, (result.stdout, result.stderr, ending)))
