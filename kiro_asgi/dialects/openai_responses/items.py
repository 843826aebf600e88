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

from attrs import define, evolve, field

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
    ToolsItem,
)
from kiro_asgi.dialects.openai_responses.tools import CLIENT_TOOLS, ToolCollector, flat_name
from kiro_asgi.dialects.structure import Raw
from kiro_asgi.dialects.tools import SEARCH_TOOL, is_callable, read_arguments
from kiro_asgi.errors import RequestError
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


def _readable(content: Content, place: str) -> Iterator[ContentPart]:
    """The same without parts of unknown kinds."""
    for index, part in enumerate((TextPart(content),) if isinstance(content, str) else content):
        if not isinstance(part, Raw):
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


@define
class ItemReader:
    """Reads items in order, and remembers the calls that outputs must answer.

    Raises:
        RequestError: From `read`: an item that has no place where it stands.
    """

    toolbox: ToolCollector
    open_thinking: OpenThinking
    open_summary: OpenSummary = lambda _: None
    system: list[Text] = field(init=False, factory=list)
    """The texts before the conversation begins; what was not read of each is that of its message, and as ``content``
    that of its part."""

    system_place: str = field(init=False, default="")
    """Where the first of them stands."""

    turns: list[Turn] = field(init=False, factory=list)
    _calls: dict[str, str] = field(init=False, factory=dict)
    """Every id by which a client may refer to a call, to the call's id."""

    def read(self, given: str | Sequence[Item], without: Container[int] = ()) -> None:
        """Take the input; system texts without a conversation become the user's message.

        Args:
            given: The input.
            without: Places of items that a compaction stands for.
        """
        if isinstance(given, str):
            self._add_turn(Role.USER, "input", Text(given))
            return
        for index, item in enumerate(given):
            if index not in without:
                _ITEM_READERS[type(item)](self, item, f"input[{index}]")
        if given and isinstance(given[-1], CompactionItem):
            self._add_turn(Role.USER, f"input[{len(given) - 1}]", Text(GO_ON))
        if not self.turns and self.system:
            self._add_turn(Role.USER, self.system_place, *(evolve(text, unread=None) for text in self.system))
            self.system = []

    def _message(self, item: MessageItem, place: str) -> None:
        if item.role is None and item.content is None and isinstance(item.id, str):
            raise _unresolved(f"{place}.id")
        for name in ("role", "content"):
            if getattr(item, name) is None:
                raise missing(f"{place}.{name}", "required field missing")
        read = _ROLES.get(item.role or "")
        if read is None:
            raise invalid(f"{place}.role", f"expected one of {', '.join(_ROLES)}, got {str(item.role)[:60]!r}")
        read(self, item, item.content, place)

    def _user(self, item: MessageItem, content: Any, place: str) -> None:
        self._add_turn(Role.USER, place, *read_content(content, f"{place}.content"), unread=BESIDE(item))

    def _assistant(self, item: MessageItem, content: Any, place: str) -> None:
        parts = (part for part in read_content(content, f"{place}.content") if part != Text(""))
        known = item.phase if item.phase in PHASES else ""
        phased = (evolve(it, phase=known) if isinstance(it, Text) else it for it in parts)
        self._add_turn(Role.ASSISTANT, place, *phased, unread=BESIDE(item))

    def _developer(self, item: MessageItem, content: Any, place: str) -> None:
        texts = [*read_texts(content, f"{place}.content")]
        if self.turns:
            self._add_turn(Role.USER, place, *texts, unread=BESIDE(item))
        else:
            self.system += BESIDE.within(item, texts)
            self.system_place = self.system_place or place

    def _reasoning(self, item: ReasoningItem, place: str) -> None:
        """Thinking; what another server sealed only a service of the API can read."""
        opened = self.open_thinking(item.encrypted_content) if item.encrypted_content else None
        text = "\n\n".join(piece.text for piece in item.content or item.summary or ())
        part = opened or (ThinkingPart(text) if text else None)
        if opened is None and item.encrypted_content:
            self._add_opaque(item.given, place, (part,) if part else (), role=Role.ASSISTANT)
        else:
            self._add_turn(Role.ASSISTANT, place, *filter(None, [part]))

    def _agent_message(self, item: AgentMessageItem, place: str) -> None:
        """What another agent says is a user's: a model has no other side.  What is sealed only its service can read."""
        parts = tuple(_readable(item.content or (), f"{place}.content"))
        self._add_opaque(item.given, place, parts, role=Role.USER)

    def _function_call(self, item: FunctionCallItem, place: str) -> None:
        self._call(item, place, read_arguments(item.arguments, f"{place}.arguments"))

    def _custom_call(self, item: CustomCall, place: str) -> None:
        self._call(item, place, {TEXT_INPUT: item.input})

    def _call(self, item: FunctionCallItem | CustomCall, place: str, arguments: Mapping[str, Any]) -> None:
        name = flat_name(item.namespace, item.name) if item.namespace else item.name
        self._add_turn(Role.ASSISTANT, place, ToolCallPart(item.call_id, name, arguments, unread=BESIDE(item)))

    def _client_call(self, item: ClientCall, place: str) -> None:
        name = item.type.removesuffix("_call")
        call_id = item.call_id or item.id or place
        if item.id:
            self._calls[item.id] = call_id
        self._add_turn(Role.ASSISTANT, place, ToolCallPart(call_id, name, CLIENT_TOOLS[name].arguments(item)))

    def _output(self, item: CallOutput, place: str) -> None:
        content = read_content(item.output, f"{place}.output")
        if item.call_id is None:
            self._add_turn(Role.USER, place, Text(f"{item.name or 'A tool'} says:"), *content)
        else:
            result = ToolResult(self._answered(item.call_id, place), content, unread=BESIDE(item))
            self._add_turn(Role.USER, place, result)

    def _local_shell_output(self, item: LocalShellOutput, place: str) -> None:
        call_id = self._answered(item.call_id or item.id or "", place)
        self._add_turn(Role.USER, place, ToolResult(call_id, (Text(item.output),)))

    def _shell_output(self, item: ShellOutput, place: str) -> None:
        texts = tuple(Text(_shell_text(result)) for result in item.output)
        self._add_turn(Role.USER, place, ToolResult(self._answered(item.call_id, place), texts))

    def _patch_output(self, item: PatchOutput, place: str) -> None:
        call_id = self._answered(item.call_id, place)
        result = ToolResult(call_id, (Text(item.output or item.status),), item.status == "failed")
        self._add_turn(Role.USER, place, result)

    def _tools(self, item: ToolsItem, place: str) -> None:
        found = ToolCollector()
        for toolbox in (found, self.toolbox):
            toolbox.add(item.tools, f"{place}.tools")
        if item.call_id in self._calls:
            names = (name for name, tool in found.tools.items() if is_callable(tool))
            text = ", ".join(names) or "No tool was found."
            self._add_turn(Role.USER, place, ToolResult(self._calls[item.call_id], (Text(text),)))

    def _compaction(self, item: CompactionItem, place: str) -> None:
        """Nothing for an empty one; one that cannot be read would take the whole conversation with it."""
        if not item.encrypted_content:
            return
        summary = self.open_summary(item.encrypted_content)
        if summary is None:
            message = "this compaction is of another service or client, or was changed: send the conversation instead"
            refusal = RequestError(message, code="invalid_encrypted_content", param=f"{place}.encrypted_content")
            self._add_opaque(item.given, place, refusal=refusal)
            return
        self._add_turn(Role.ASSISTANT, place, summarising(summary))

    def _trigger(self, item: CompactionTrigger, place: str) -> None:
        """Adds no turn: it is about the answer."""

    def _reference(self, item: Reference, place: str) -> None:
        raise _unresolved(f"{place}.id")

    def _other(self, item: Raw, place: str) -> None:
        """A result without its call is left out."""
        parts = _summarised(item.value, place)
        called = {part.call_id for part in parts if isinstance(part, ToolCallPart)}.union(self._calls)
        known = (part for part in parts if not isinstance(part, ToolResult) or part.call_id in called)
        self._add_opaque(item.value, place, tuple(known), role=Role.ASSISTANT if parts else None)

    def _add_opaque(
        self,
        value: Object,
        place: str,
        instead: tuple[Part, ...] = (),
        *,
        refusal: RequestError | None = None,
        role: Role | None = None,
    ) -> None:
        """An item that only services of the API understand, of *role*, or of the side that spoke last."""
        self._know(instead)
        side = role or (self.turns[-1].role if self.turns else Role.USER)
        self._add_turn(side, place, Opaque(API, value, place, instead, refusal))

    def _answered(self, call_id: str, place: str) -> str:
        if call_id not in self._calls:
            raise invalid(f"{place}.call_id", "no earlier item is a call with this id")
        return self._calls[call_id]

    def _add_turn(self, role: Role, place: str, *parts: Part, unread: Unread | None = None) -> None:
        """A turn, unless it would be empty."""
        self._know(parts)
        if parts:
            self.turns.append(Turn(role, parts, place, unread=unread))

    def _know(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if isinstance(part, ToolCallPart):
                self._calls[part.call_id] = part.call_id


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
