"""Messages and their parts: from what the client sent to turns, system texts and their content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kiro_asgi.dialects.errors import invalid, unsupported
from kiro_asgi.dialects.media import read_file, read_image
from kiro_asgi.dialects.openai_chat.blocks import SHAPES, read_document, read_picture, read_sealed, read_use
from kiro_asgi.dialects.openai_chat.shapes import (
    API,
    BESIDE,
    BLOCKS,
    CONVERTER,
    PARTS,
    AssistantMessage,
    ChatCall,
    ContentPart,
    DocumentBlock,
    FilePart,
    FunctionMessage,
    ImagePart,
    Invocation,
    Message,
    PictureBlock,
    ResultBlock,
    SealedThinking,
    SystemMessage,
    ThinkingContent,
    ToolMessage,
    UseBlock,
    UserMessage,
)
from kiro_asgi.dialects.openai_common import (
    AudioPart,
    PartReader,
    RefusalPart,
    TextPart,
    refuse_unknown,
)
from kiro_asgi.dialects.structure import Raw, structure_value
from kiro_asgi.dialects.tools import read_arguments
from kiro_asgi.errors import RequestError
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
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
from kiro_asgi.model.signatures import CALL, DETAILS, GEMINI, marked, read_mark
from kiro_asgi.model.unread import Unread
from kiro_asgi.wire.json import dumps, object_of, objects_of, text_of


def call_signature(signature: str) -> str:
    """The *signature* as calls carry it; empty where it is not a call's.

    The API has no place for it: it stands on the call, where Google's own gateway to this API has it.

    Source: https://ai.google.dev/gemini-api/docs/thought-signatures
    """
    mark = read_mark(signature)
    return mark.signature if (mark.owner, mark.part) == (GEMINI, CALL) else ""


def extra_content(signature: str) -> dict[str, Any]:
    """``extra_content`` of a call that has a `call_signature`."""
    return {"google": {"thought_signature": signature}}


def read_extra_content(value: Any) -> str:
    """The signature with its mark, as it was given; empty where there is none."""
    google = value.get("google") if isinstance(value, Mapping) else None
    signature = google.get("thought_signature") if isinstance(google, Mapping) else None
    return marked(GEMINI, CALL, signature) if isinstance(signature, str) and signature else ""


def reasoning_details(signatures: Iterable[str], start: int = 0) -> list[dict[str, Any]]:
    """The entries of ``reasoning_details`` for those of the *signatures* that have a place there.

    The details of a service behind this API on its thinking (`DETAILS`) stand where OpenRouter has them, as one entry
    that no client needs to read.  Other signatures are left out.

    Source: https://openrouter.ai/docs/use-cases/reasoning-tokens

    Args:
        signatures: Of thinking.
        start: The first entry's index: clients join what has the same.
    """
    kept = (signature for signature in signatures if read_mark(signature).part == DETAILS)
    return [
        {"type": "reasoning.encrypted", "data": signature, "id": None, "format": "unknown", "index": index}
        for index, signature in enumerate(kept, start)
    ]


def read_reasoning_details(value: Any) -> Iterator[str]:
    """The signatures in ``reasoning_details``; of another gateway's entries the owner is unknown."""
    for entry in objects_of(value):
        if read_mark(signature := text_of(entry, "data")).part == DETAILS:
            yield signature


Given = str | tuple[ContentPart, ...] | None
"""The content of a message as the client sent it."""

Content = Part

Reader = Callable[..., Content]
"""Takes a part and its place, and that of a result notes, too."""


def system_texts(message: SystemMessage, place: str) -> Iterator[Text]:
    """The texts of a message that may hold nothing else; empty ones are left out."""
    given = (TextPart(message.content),) if isinstance(message.content, str) else message.content
    for index, part in enumerate(given):
        if not isinstance(part, TextPart):
            _misplaced(part, f"{place}.content[{index}]")
        elif part.text:
            yield Text(part.text, unread=BESIDE(part))


def user_content(content: Given, place: str, notes: Notes) -> tuple[Text | Image | Document | Opaque, ...]:
    """Read the content of a user's or a tool's message; *place* is where it stands in the request.

    Raises:
        RequestError: A part that is unknown, unsupported or malformed; ``param`` names it.
    """
    parts = _content(content, place, notes, _USER)
    return tuple(part for part in parts if isinstance(part, Text | Image | Document | Opaque))


def turn_content(content: Given, place: str, notes: Notes) -> tuple[Content, ...]:
    """Read the content of a user's message, which may hold results in the form of the Messages API.

    Raises:
        RequestError: Like `user_content`.
    """
    return tuple(_content(content, place, notes, _TURN))


def assistant_content(content: Given, place: str, notes: Notes) -> tuple[Content, ...]:
    """Read the content of an earlier answer; empty texts are left out.

    Raises:
        RequestError: Like `user_content`.
    """
    return tuple(part for part in _content(content, place, notes, _ASSISTANT) if part != Text(""))


def _content(content: Given, place: str, notes: Notes, readers: MappingProxyType[type, Reader]) -> Iterator[Content]:
    if content is None:
        return
    if isinstance(content, str):
        yield Text(content)
        return
    for index, part in enumerate(content):
        at, reader = f"{place}[{index}]", readers.get(type(part), _misplaced)
        if type(part) in _FOREIGN:
            notes.applies(SHAPES, at)
        yield reader(part, at, notes) if reader is _result else reader(part, at)


def _thinking(part: ThinkingContent, place: str) -> Content:
    return ThinkingPart(part.thinking, part.signature or "")


def _image(part: ImagePart, place: str) -> Content:
    if isinstance(part.image_url, str):
        image = read_image(part.image_url, f"{place}.image_url")
    else:
        image = read_image(part.image_url.url, f"{place}.image_url.url")
    return evolve(image, unread=BESIDE(part)) if part.unread else image


def _file(part: FilePart, place: str) -> Content:
    if part.file.file_data is None:
        refusal = unsupported(f"{place}.file", "there is no file store here; send file_data, a data: URL")
        return Opaque(API, part.given, place, refusal=refusal)
    file = read_file(part.file.file_data, part.file.filename or "", f"{place}.file.file_data")
    return evolve(file, unread=BESIDE(part)) if part.unread else file


def _result(part: ResultBlock, place: str, notes: Notes) -> Content:
    """A result; JSON without any part in it counts as its own text."""
    content, at = part.content, f"{place}.content"
    if isinstance(content, list) and any(map(_is_part, content)):
        content = structure_value(content, tuple[ContentPart, ...], converter=CONVERTER, at=at)
        BESIDE.note(notes, content, part.content, at)
    elif not isinstance(content, str | None):
        content = dumps(content).decode()
    return ToolResult(part.tool_use_id, user_content(content, at, notes), bool(part.is_error))


def _is_part(value: Any) -> bool:
    """Whether *value*, of a result, is read as a part."""
    return isinstance(value, dict) and PARTS.class_of(text_of(value, "type")) is not Raw


def _misplaced(part: object, place: str) -> Content:
    if isinstance(part, Raw):
        raise refuse_unknown(part, place)
    raise invalid(f"{place}.type", "a message of this role cannot hold this kind of content")


_FOREIGN: Final = frozenset(BLOCKS.values())

_SHARED: Final = PartReader(BESIDE)

_USER: Final = MappingProxyType[type, Reader](
    {
        TextPart: _SHARED.text,
        ImagePart: _image,
        FilePart: _file,
        AudioPart: _SHARED.audio,
        PictureBlock: read_picture,
        DocumentBlock: read_document,
        Raw: _SHARED.unknown,
    }
)

_TURN: Final = MappingProxyType[type, Reader]({**_USER, ResultBlock: _result})

_ASSISTANT: Final = MappingProxyType[type, Reader](
    {
        **_USER,
        RefusalPart: _SHARED.refusal,
        ThinkingContent: _thinking,
        SealedThinking: read_sealed,
        UseBlock: read_use,
    }
)


_NO_CALL: Final = "no earlier assistant message made a call with this id"


@frozen
class Taken:
    """What one message adds to those before it; no later one changes that."""

    turn: Turn | None = None
    system: tuple[Text, ...] = ()
    """Texts before the conversation begins."""

    place: str = ""
    """Where they stand."""

    calls: frozenset[str] = frozenset()
    """Ids that results may answer."""

    function: tuple[str, str] | None = None
    """Name of a function called in the deprecated form, and the id that we gave its call."""

    foreign: bool = False
    """Whether it has blocks of the Messages API."""


@define
class MessageReader:
    """Reads messages in order, and remembers the calls that results must answer.

    Raises:
        RequestError: From `read`: a message that has no place where it stands.
    """

    _notes: Notes
    system: list[Text] = field(init=False, factory=list)
    """The texts before the conversation begins; what was not read of each is that of its message, and as ``content``
    that of its part."""

    system_place: str = field(init=False, default="")
    """Where the first of them stands."""

    turns: list[Turn] = field(init=False, factory=list)
    taken: list[Taken] = field(init=False, factory=list)
    """What each message added."""

    _calls: set[str] = field(init=False, factory=set)
    _functions: dict[str, str] = field(init=False, factory=dict)
    """Name of a function called in the deprecated form, to the id that we gave its last call."""

    def read(self, messages: Iterable[Message], before: Iterable[Taken] = ()) -> None:
        """Take the messages, and what those *before* them added, which are not read again.

        System text in mid-conversation becomes the user's where it stands: the beginning of the conversation, which
        upstreams cache, stays as it was.  Without a conversation it is the user's message.
        """
        for taken in before:
            self._take(taken)
        for index, message in enumerate(messages, len(self.taken)):
            taken = _READERS[type(message)](self, message, f"messages[{index}]")
            self._take(evolve(taken, foreign=True) if _is_foreign(message) else taken)
        if not self.turns and self.system:
            self.turns += (_as_user(text, self.system_place) for text in self.system)
            self.system = []

    def _take(self, taken: Taken) -> None:
        self.taken.append(taken)
        self._calls |= taken.calls
        if taken.turn is not None:
            self.turns.append(taken.turn)
        if taken.system:
            self.system += taken.system
            self.system_place = self.system_place or taken.place
        if taken.function is not None:
            name, call_id = taken.function
            self._functions[name] = call_id

    def _system(self, message: SystemMessage, place: str) -> Taken:
        found = tuple(system_texts(message, place))
        if self.turns and found:
            return Taken(Turn(Role.USER, found, place, unread=BESIDE(message)))
        return Taken(system=tuple(BESIDE.within(message, found)), place=place)

    def _user(self, message: UserMessage, place: str) -> Taken:
        parts = turn_content(message.content, f"{place}.content", self._notes)
        for index, part in enumerate(parts):
            if isinstance(part, ToolResult) and part.call_id not in self._calls:
                raise invalid(f"{place}.content[{index}].tool_use_id", _NO_CALL)
        return Taken(Turn(Role.USER, parts, place, unread=BESIDE(message)))

    def _assistant(self, message: AssistantMessage, place: str) -> Taken:
        called = message.function_call
        parts = (
            *_earlier_thinking(message, place, self._notes),
            *assistant_content(message.content, f"{place}.content", self._notes),
            *([Text(message.refusal, is_refusal=True)] if message.refusal else []),
            *_tool_calls(message.tool_calls or (), place, self._notes),
            *([] if called is None else [self._function_call(called, place)]),
            *_media(message, place),
        )
        details = None if any(read_reasoning_details(message.reasoning_details)) else message.reasoning_details
        unread = BESIDE(message, reasoning_details=details)
        if not parts and unread is not None:  # a turn of nothing is none
            parts, unread = (Opaque(API, unread.members, place),), None
        return Taken(
            Turn(Role.ASSISTANT, parts, place, unread=unread),
            calls=frozenset(part.call_id for part in parts if isinstance(part, ToolCallPart)),
            function=None if called is None else (called.name, self._own_id),
        )

    @property
    def _own_id(self) -> str:
        """Id of a call that has none, in the message that is read."""
        return f"call_{len(self.turns)}"

    def _function_call(self, call: Invocation, place: str) -> ToolCallPart:
        arguments = read_arguments(call.arguments, f"{place}.function_call.arguments")
        return ToolCallPart(self._own_id, call.name, arguments)

    def _tool(self, message: ToolMessage, place: str) -> Taken:
        if message.tool_call_id not in self._calls:
            raise invalid(f"{place}.tool_call_id", _NO_CALL)
        return _result_of(message.tool_call_id, message, place, self._notes)

    def _function(self, message: FunctionMessage, place: str) -> Taken:
        call_id = self._functions.get(message.name)
        if call_id is None:
            raise invalid(f"{place}.name", "no earlier assistant message called this function")
        return _result_of(call_id, message, place, self._notes)

    def _unknown(self, message: Raw, place: str) -> Taken:
        raise invalid(f"{place}.role", f"unknown role: {str(message.value.get('role'))[:60]}")


def _is_foreign(message: Message) -> bool:
    content = getattr(message, "content", None)
    return type(content) is tuple and any(type(part) in _FOREIGN for part in content)


def _media(message: AssistantMessage, place: str) -> Iterator[Opaque]:
    """Sound and images of an earlier answer, members of its message; for other services what was said, and images that
    can be read."""
    if message.audio:
        said = text_of(object_of(message.audio), "transcript")
        instead = (Text(said),) if said else ()
        refusal = unsupported(f"{place}.audio", "no audio is held here; send what was said as content")
        known = said or message.content
        yield Opaque(API, {"audio": message.audio}, f"{place}.audio", instead, None if known else refusal)
    if message.images:
        images = tuple(_images(message.images, f"{place}.images"))
        yield Opaque(API, {"images": message.images}, f"{place}.images", images)


def _images(images: Any, place: str) -> Iterator[Image]:
    for index, each in enumerate(objects_of(images)):
        try:
            yield read_image(text_of(object_of(each.get("image_url")), "url"), f"{place}[{index}]")
        except RequestError:
            continue  # the note on the whole names it


def _tool_calls(calls: Iterable[ChatCall], place: str, notes: Notes) -> Iterator[Part]:
    for index, call in enumerate(calls):
        at = f"{place}.tool_calls[{index}].extra_content"
        BESIDE.note_others(notes, call.extra_content, ("google",), at)
        BESIDE.note_others(notes, object_of(call.extra_content).get("google"), ("thought_signature",), f"{at}.google")
        if signature := read_extra_content(call.extra_content):
            yield ThinkingPart(signature=signature)
        yield _tool_call(call, f"{place}.tool_calls[{index}]")


def _result_of(call_id: str, message: ToolMessage | FunctionMessage, place: str, notes: Notes) -> Taken:
    parts = user_content(message.content, f"{place}.content", notes)
    return Taken(Turn(Role.USER, (ToolResult(call_id, parts, unread=BESIDE(message)),), place))


def _as_user(text: Text, place: str) -> Turn:
    """A text of the system as the user's, where there is nothing else."""
    members = dict(text.unread.members) if text.unread is not None else {}
    part = members.pop("content", None)
    plain = evolve(text, unread=None if part is None else Unread(API, part))
    return Turn(Role.USER, (plain,), place, unread=Unread(API, members) if members else None)


_READERS: Final = MappingProxyType[type, Any](
    {
        SystemMessage: MessageReader._system,
        UserMessage: MessageReader._user,
        AssistantMessage: MessageReader._assistant,
        ToolMessage: MessageReader._tool,
        FunctionMessage: MessageReader._function,
        Raw: MessageReader._unknown,
    }
)


def _earlier_thinking(message: AssistantMessage, place: str, notes: Notes) -> Iterator[Part]:
    """Thinking that the client echoes, under either of the names in use, and its signatures."""
    given = {"reasoning_content": message.reasoning_content, "reasoning": message.reasoning}
    texts = {name: text for name, text in given.items() if text}
    name, text = next(((name, text) for name, text in texts.items() if isinstance(text, str)), ("", ""))
    for other, said in texts.items():
        if other != name and said != text:
            notes.applies("values.unknown", f"{place}.{other}")
    for signature in read_reasoning_details(message.reasoning_details):
        yield ThinkingPart(text, signature, member=name)
        text = ""
    if text:
        yield ThinkingPart(text, member=name)


def _tool_call(call: ChatCall, place: str) -> ToolCallPart:
    more = None if read_extra_content(call.extra_content) else call.extra_content
    if call.function is not None:
        arguments = read_arguments(call.function.arguments, f"{place}.function.arguments")
        return ToolCallPart(call.id, call.function.name, arguments, unread=BESIDE(call, extra_content=more))
    if call.custom is not None:
        return ToolCallPart(call.id, call.custom.name, {"input": call.custom.input})
    raise invalid(place, "has no function; each tool call needs one")
