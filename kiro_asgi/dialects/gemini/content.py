"""The conversation of a request: contents to turns, with their signatures.

Clients keep each piece of a streamed answer as a content of its own, so neighbours of one side are one turn, and its
texts are joined.  Calls need no ids, and results need none even where the call has one: a result answers the call of
its id, or the first of its name that has no result, or the first that has none.

``thoughtSignature`` is bytes, which the official clients decode and encode anew, in another alphabet: nothing but
base64 comes back.  Google's signatures are that.  Thinking of others is put into an envelope, the base64 of ``KAS1``
and the JSON of ``[[text, signature, redacted], …]``: with its text, since some clients keep nothing of an answer but
its calls and what stands on them.  What an envelope holds replaces the thoughts that the client kept of the same
answer.  An envelope hides nothing and proves nothing; a signature in it names who may receive it
(`kiro_asgi.model.signatures`), and only its owner can check whether it is real.

Sources: https://ai.google.dev/api/caching#Content, https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field

from kiro_asgi.dialects.errors import invalid, unsupported
from kiro_asgi.dialects.gemini.shapes import (
    API,
    Blob,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    Part,
    ResponsePart,
    beside,
    camel_case,
)
from kiro_asgi.dialects.media import read_file, read_image
from kiro_asgi.dialects.structure import members_of
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import Document, Image, Opaque, Role, Text, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.prompt import Part as PromptPart
from kiro_asgi.model.signatures import CALL, GEMINI, TEXT, THOUGHT, marked, read_mark
from kiro_asgi.model.unread import Unread
from kiro_asgi.wire.json import JsonError, dumps, loads

# Signatures.


_MAGIC: Final = b"KAS1"
"""Three of its bytes are the first four characters of an envelope, so that one is known at a glance."""

_FIRST: Final = b64encode(_MAGIC[:3]).decode()

_OWN: Final = re.compile(r"(?:[A-Za-z0-9+/_-]{4})++(?:[A-Za-z0-9+/_-]{2}==|[A-Za-z0-9+/_-]{3}=)?+")
_URL_SAFE: Final = str.maketrans("-_", "+/")

SENTINELS: Final = frozenset({"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"})
"""Stand for the signature of a call that has none."""


def sealed(thoughts: Iterable[ThinkingPart]) -> str:
    """An envelope of *thoughts*."""
    content = dumps([[part.text, part.signature, part.redacted] for part in thoughts])
    return b64encode(_MAGIC + content).decode()


def opened(signature: str) -> tuple[ThinkingPart, ...] | None:
    """The thoughts in an envelope; ``None`` for another text, or a damaged one."""
    if not signature.startswith(_FIRST):
        return None
    plain = signature.translate(_URL_SAFE).rstrip("=")
    try:
        content = b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        if not content.startswith(_MAGIC):
            return None
        listed = loads(content[len(_MAGIC) :])
    except (ValueError, JsonError):
        return None
    if type(listed) is not list or not all(map(_is_thought, listed)):
        return None
    return tuple(ThinkingPart(*each) for each in listed)


def _is_thought(value: Any) -> bool:
    return type(value) is list and len(value) == 3 and all(type(each) is str for each in value)


@define
class Signing:
    """Finds a place in one answer for every signature."""

    _call: str = field(init=False, default="")
    """Google's, for the next call."""

    _kept: list[ThinkingPart] = field(init=False, factory=list)
    """Thinking that others have signed, for the next call or the end."""

    def thinking(self, text: str, signature: str, redacted: str = "") -> dict[str, Any] | None:
        """Take note of a block of thinking; the part that carries its signature, where that is no other's."""
        mark = read_mark(signature)
        if mark.owner == GEMINI and mark.part in _OWN_PARTS and _OWN.fullmatch(mark.signature):
            if mark.part == CALL:
                self._call = mark.signature
                return None
            return {"text": "", **_OWN_PARTS[mark.part], "thoughtSignature": mark.signature}
        if signature or redacted:
            self._kept.append(ThinkingPart(text, signature, redacted))
        return None

    def of_call(self) -> dict[str, str]:
        """The signature for a call, as a member of its part; empty where there is none."""
        signature, self._call = self._call, ""
        return {"thoughtSignature": signature} if signature else self.rest()

    def rest(self) -> dict[str, str]:
        """The same for the last part: all that is left."""
        kept, self._kept = self._kept, []
        return {"thoughtSignature": sealed(kept)} if kept else {}


_OWN_PARTS: Final[dict[str, dict[str, Any]]] = {CALL: {}, THOUGHT: {"thought": True}, TEXT: {}}
"""Kind of part that Google signs to the members that mark such a part."""


def _own(part: str, signature: str) -> ThinkingPart:
    """A signature of Google's that came on a *part*."""
    return ThinkingPart(signature=marked(GEMINI, part, signature))


# BodyContent.


ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {"user": Role.USER, "function": Role.USER, "tool": Role.USER, "model": Role.ASSISTANT, "assistant": Role.ASSISTANT}
)

_DATA: Final = (
    "text",
    "inline_data",
    "file_data",
    "function_call",
    "function_response",
    "executable_code",
    "code_execution_result",
    "tool_call",
    "tool_response",
)
"""Members of a part of which it has one."""

_SERVED: Final = ("executable_code", "code_execution_result", "tool_call", "tool_response")
"""Those about tools that the service ran."""

_FILES: Final = ("image/", "text/", "application/")
"""How media types begin that can be passed on."""


def read_contents(contents: Iterable[Content]) -> tuple[tuple[Turn, ...], tuple[Text, ...]]:
    """The turns, and the system texts among them.

    Raises:
        RequestError: An unknown role, a part with several kinds of data, or with a file that cannot be passed on.
    """
    reader = _Reader()
    for index, content in enumerate(contents):
        reader.read(content, f"contents[{index}]")
    return tuple(reader.turns()), tuple(reader.system)


def system_texts(content: Content | str | None) -> Iterator[Text]:
    """The texts of a content, of which no other part counts."""
    if isinstance(content, str):
        yield Text(content)
    elif content is not None:
        yield from (Text(part.text, unread=beside(part)) for part in content.parts if part.text)


@define
class _Calls:
    """Gives calls their ids, and results their calls."""

    _count: int = field(init=False, default=0)
    _unanswered: dict[str, str] = field(init=False, factory=dict)
    """Id to name, of the calls of the latest answer."""

    _named: dict[str, deque[str]] = field(init=False, factory=dict)
    """Name to ids, in order, answered ones among them; all of them without a name."""

    def forget(self) -> None:
        """Another answer begins."""
        self._unanswered.clear()
        self._named.clear()

    def called(self, call: FunctionCall) -> str:
        """The id of a call: one without gets the same in every request of a conversation."""
        self._count += 1
        call_id = call.id or f"call_{self._count}"
        self._unanswered[call_id] = call.name
        for name in ("", call.name):
            self._named.setdefault(name, deque()).append(call_id)
        return call_id

    def answered(self, result: FunctionResponse) -> str:
        """The id of the call that *result* is of; its own, or its name, where there is none."""
        for call_id in (result.id or "", (result.id or "").rpartition("__")[2]):
            if self._unanswered.pop(call_id, None) is not None:
                return call_id
        if result.id:
            return result.id
        for name in (result.name, ""):
            ids = self._named.get(name, ())
            while ids:
                if self._unanswered.pop(call_id := ids.popleft(), None) is not None:
                    return call_id
        return result.name or "call"


@define
class _Reader:
    """Reads contents in their order."""

    system: list[Text] = field(init=False, factory=list)
    _turns: list[tuple[Role, str, list[PromptPart], Unread | None]] = field(init=False, factory=list)
    _calls: _Calls = field(init=False, factory=_Calls)

    def turns(self) -> Iterator[Turn]:
        """The turns that were read; empty ones are left out."""
        for role, place, parts, unread in self._turns:
            joined = tuple(_joined(parts)) if role is Role.ASSISTANT else tuple(parts)
            if joined:
                yield Turn(role, joined, place, unread=unread)

    def read(self, content: Content, place: str) -> None:
        """Take a content."""
        word = (content.role or "user").lower()
        if word in ("system", "developer"):
            self.system += system_texts(content)
            return
        if word not in ROLES:
            raise invalid(f"{place}.role", f'expected "user" or "model", got "{word[:60]}"')
        role = ROLES[word]
        if not self._turns or self._turns[-1][0] is not role or content.unread:
            self._turns.append((role, place, [], beside(content)))
            if role is Role.ASSISTANT:
                self._calls.forget()
        for index, part in enumerate(content.parts):
            self._part(part, f"{place}.parts[{index}]")

    def _part(self, part: Part, place: str) -> None:
        given = [name for name in _DATA if getattr(part, name) is not None]
        if len(given) > 1:
            raise invalid(place, f"a part has one kind of data, got {' and '.join(given)}")
        role, _, parts, _ = self._turns[-1]
        signature = "" if part.thought_signature in SENTINELS else part.thought_signature or ""
        envelope = opened(signature) if signature else None
        if envelope is not None:
            signature = ""
            if role is Role.ASSISTANT:
                _replace_thoughts(parts, envelope)
        if part.function_call is not None and signature:
            parts.append(_own(CALL, signature))
            signature = ""
        if given and not (part.thought and role is Role.USER):
            parts += self._read(given[0], part, place)
        elif not given and part.unread:
            parts.append(Opaque(API, dict(_value(part)), place))
        if signature:
            parts.append(_own(THOUGHT if part.thought else TEXT, signature))

    def _read(self, kind: str, part: Part, place: str) -> Iterator[PromptPart]:
        if kind == "text":
            text = part.text or ""
            yield ThinkingPart(text) if part.thought else Text(text, unread=beside(part))
        elif kind in _SERVED:
            shown = Text(f"```{kind}\n{dumps(getattr(part, kind)).decode()}\n```")
            yield Opaque(API, {camel_case(kind): getattr(part, kind), **dict(_value(part))}, place, (shown,))
        elif part.function_call is not None:
            call = part.function_call
            if not call.name:
                raise invalid(f"{place}.function_call.name", "is empty")
            yield ToolCallPart(self._calls.called(call), call.name, call.args or {}, unread=beside(part))
        elif part.function_response is not None:
            yield self._result(part, part.function_response, f"{place}.function_response")
        elif self._turns[-1][0] is Role.ASSISTANT:
            yield _own_file(_file(part.inline_data, part.file_data, place, part), part, place)
        else:
            yield _file(part.inline_data, part.file_data, place, part)

    def _result(self, part: Part, result: FunctionResponse, place: str) -> ToolResult:
        texts, failed = _result_texts(result.response or {})
        files = (
            _file(each.inline_data, each.file_data, f"{place}.parts[{index}]", each)
            for index, each in enumerate(result.parts or ())
            if each.inline_data is not None or each.file_data is not None
        )
        unread = _with_response(beside(part), result.response)
        return ToolResult(self._calls.answered(result), (*texts, *files), failed, unread=unread)


def _result_texts(response: Mapping[str, Any]) -> tuple[tuple[Text, ...], bool]:
    """The texts of a function's result, and whether that is an error."""
    if len(response) == 1:
        ((name, value),) = response.items()
        if name in ("output", "result", "error"):
            text = value if isinstance(value, str) else dumps(value).decode()
            return ((Text(text),) if text else ()), name == "error"
    return ((Text(dumps(dict(response)).decode()),) if response else ()), False


def _value(part: Part) -> Iterator[tuple[str, Any]]:
    """What is not read of a part, and its signature, as members of it."""
    unread = beside(part)
    yield from unread.members.items() if unread is not None else ()
    if part.thought_signature is not None:
        yield "thoughtSignature", part.thought_signature


def _with_response(unread: Unread | None, response: Mapping[str, Any] | None) -> Unread | None:
    """*unread*, with the *response* as the client has it: other services are sent a text."""
    members = dict(unread.members) if unread is not None else {}
    if response is None:
        return unread
    return Unread(API, {**members, "functionResponse": {**members.get("functionResponse", {}), "response": response}})


def _file(
    data: Blob | None, address: FileData | None, place: str, part: Part | ResponsePart
) -> Image | Document | Opaque:
    """An image or a document; opaque what is of another kind, or held by Google.

    Raises:
        RequestError: It is not readable.
    """
    unread = beside(part)
    try:
        return evolve(_attachment(data, address, place), unread=unread)
    except RequestError as refusal:
        if refusal.code != "unsupported_value":
            raise
        name, file = ("inlineData", data) if data is not None else ("fileData", address)
        value = {camel_case(it): member for it, member in _members(file) if member is not None} if file else {}
        return Opaque(API, {name: value, **(unread.members if unread is not None else {})}, place, refusal=refusal)


def _own_file(read: Image | Document | Opaque, part: Part, place: str) -> Opaque:
    """A file of an earlier answer: the service that made it takes it back as it is; others get it if it is *read*."""
    if isinstance(read, Opaque):
        return evolve(read, refusal=None)
    name, file = ("inlineData", part.inline_data) if part.inline_data is not None else ("fileData", part.file_data)
    value = {camel_case(it): member for it, member in _members(file) if member is not None} if file else {}
    unread = beside(part)
    return Opaque(API, {name: value, **(unread.members if unread is not None else {})}, place, (read,))


def _members(file: Blob | FileData) -> Iterator[tuple[str, Any]]:
    cls: type = type(file)
    return ((name, getattr(file, name) or None) for name in members_of(cls))


def _attachment(data: Blob | None, address: FileData | None, place: str) -> Image | Document:
    """An image or a document.

    Raises:
        RequestError: Of a kind that cannot be passed on, uploaded to Google, or not readable.
    """
    if data is not None:
        place = f"{place}.inline_data"
        url, title, kind = f"data:{data.mime_type};base64,{data.data}", data.display_name or "", data.mime_type.lower()
    else:
        assert address is not None, "a part without data"
        place = f"{place}.file_data"
        url, title, kind = address.file_uri, address.display_name or "", address.mime_type.lower()
        _require_address(url, f"{place}.file_uri")
    if kind and not kind.startswith(_FILES):
        raise unsupported(f"{place}.mime_type", f"{kind[:60]} cannot be passed on; send images, PDF or text")
    read: Image | Document = (
        read_image(url, place) if kind.startswith("image/") or not kind else read_file(url, title, place)
    )
    return evolve(read, place=place)


def _require_address(url: str, place: str) -> None:
    host = url[:80].lower().partition("://")[2]
    if not url[:8].lower().startswith(("http://", "https://")) or host.startswith("generativelanguage.googleapis.com/"):
        raise unsupported(place, "files cannot be uploaded here; send their bytes as inline_data")
    if host.removeprefix("www.").startswith(("youtube.com/", "youtu.be/")):
        raise unsupported(place, "videos cannot be passed on")


def _replace_thoughts(parts: list[PromptPart], envelope: Iterable[ThinkingPart]) -> None:
    """Put the thoughts of an *envelope* before the text that they led to, instead of those that the client kept."""
    start = len(parts)
    while start and not isinstance(parts[start - 1], ToolCallPart):
        start -= 1
    rest = [part for part in parts[start:] if not (isinstance(part, ThinkingPart) and not part.signature)]
    parts[start:] = [*envelope, *rest]


def _joined(parts: Iterable[PromptPart]) -> Iterator[PromptPart]:
    """Parts of an answer, with neighbouring texts as one, neighbouring thoughts likewise, and no empty text."""
    pieces: list[str] = []
    kind: Callable[[str], PromptPart] = Text
    for part in parts:
        this = _JOINABLE.get(type(part))
        sealed = isinstance(part, ThinkingPart) and (part.signature or part.redacted)
        plain = this is not None and not sealed and part.unread is None
        if pieces and (not plain or this is not kind):
            if isinstance(part, ThinkingPart) and kind is ThinkingPart and _ends_thought(part):
                part = evolve(part, text="".join(pieces))
            else:
                yield kind("".join(pieces))
            pieces = []
        if plain and isinstance(part, Text | ThinkingPart):
            assert this is not None
            kind = this
            pieces += filter(None, (part.text,))
        else:
            yield part
    if pieces:
        yield kind("".join(pieces))


_JOINABLE: Final[Mapping[type, Callable[[str], PromptPart]]] = MappingProxyType(
    {Text: Text, ThinkingPart: ThinkingPart}
)


def _ends_thought(part: ThinkingPart) -> bool:
    return not part.text and part.signature.startswith(_THOUGHT)


_THOUGHT: Final = _own(THOUGHT, "").signature
