"""Parts of an answer: one after the other to deltas.

Parts that client APIs have no field for become Markdown: an image, code that the service ran, and what that gave.

Source: https://ai.google.dev/api/caching#Part
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.events import Delta, Notice, SignatureDelta, TextDelta, ThinkingDelta, ToolCallFragment
from kiro_asgi.model.signatures import CALL, GEMINI, TEXT, THOUGHT, marked
from kiro_asgi.upstreams.errors import clean
from kiro_asgi.wire.json import dumps
from kiro_asgi.wire.members import object_of, text_of

__all__ = ["PartReader"]

Part = Mapping[str, Any]

_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]+=*")

_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The ids that every client API takes."""

_LANGUAGE: Final = re.compile(r"[A-Z0-9]+")
_TICKS: Final = re.compile("`+")

_BESIDE: Final = frozenset({"text", "thought", "thoughtSignature", "partMetadata"})
"""Members that say nothing about the kind of a part."""


@define
class PartReader:
    """Reads the parts of one answer.

    A signature goes out before the call that it came on, and behind everything else.

    Calls come whole.  Some services send the calls of earlier events once more, and those are passed over: a call whose
    content came before under the same id or signature.  Without either, equal calls are calls of their own.
    """

    _new_id: Callable[[], str]
    """Makes an id for a call that has none, or none that all clients take."""

    produced: bool = field(init=False, default=False)
    """Whether there is anything to show."""

    _ids: set[str] = field(init=False, factory=set)
    """Those that the service gave."""

    _called: set[bytes] = field(init=False, factory=set)
    """Digests of the calls so far, with what they may be known again by."""

    def read(self, part: Part) -> Iterable[Delta]:
        """The deltas of *part*."""
        if len(part) == 1 and type(text := part.get("text")) is str and text:
            self.produced = True
            return (TextDelta(text),)
        for kind, reader in _READERS.items():
            if part.get(kind) is not None:
                return reader(self, part)
        return self._text(part)

    def _text(self, part: Part) -> Iterator[Delta]:
        yield from self._told(text_of(part, "text"), part)
        unknown = next((name for name, value in part.items() if name not in _BESIDE and value is not None), "")
        if unknown:
            yield Notice("event.unknown", clean(unknown))

    def _told(self, text: str, part: Part) -> Iterator[Delta]:
        """*text* as what *part* is, and its signature."""
        thought = part.get("thought") is True
        if text:
            self.produced = True
            yield ThinkingDelta(text) if thought else TextDelta(text)
        yield from _signature(part, THOUGHT if thought else TEXT)

    def _call(self, part: Part) -> Iterator[Delta]:
        call = object_of(part["functionCall"])
        name, arguments = text_of(call, "name"), call.get("args")
        written = arguments if type(arguments) is str else dumps({} if arguments is None else arguments).decode()
        if not name:
            yield Notice("tool_call.unnamed")
        elif call_id := self._identify(text_of(call, "id"), text_of(part, "thoughtSignature"), name, written):
            self.produced = True
            yield from _signature(part, CALL)
            yield ToolCallFragment(call_id, name, written, stop=True)

    def _identify(self, given: str, signature: str, name: str, written: str) -> str:
        """An id that no other call has; none for a call that came before."""
        if given or signature:
            digest = sha256(dumps([given or signature, name, written])).digest()
            if digest in self._called:
                return ""
            self._called.add(digest)
        if given in self._ids or not _CALL_ID.fullmatch(given):
            return self._new_id()
        self._ids.add(given)
        return given

    def _media(self, part: Part) -> Iterator[Delta]:
        """Pictures that the model only thought of are not shown."""
        data = object_of(part["inlineData"])
        media_type, content = text_of(data, "mimeType"), text_of(data, "data")
        told = ""
        if part.get("thought") is True:
            yield Notice("event.unknown", "inlineData of a thought")
        elif not _MEDIA_TYPE.fullmatch(media_type) or not _BASE64.fullmatch(content):
            yield Notice("event.malformed", "inlineData")
        else:
            name = "![image]" if media_type.startswith("image/") else "[file]"
            told = f"{name}(data:{media_type};base64,{content})"
        yield from self._told(told, part)

    def _code(self, part: Part) -> Iterator[Delta]:
        code = object_of(part["executableCode"])
        language = text_of(code, "language")
        return self._told(_fenced(text_of(code, "code"), language if _LANGUAGE.fullmatch(language) else ""), part)

    def _run(self, part: Part) -> Iterator[Delta]:
        result = object_of(part["codeExecutionResult"])
        outcome, output = text_of(result, "outcome"), text_of(result, "output")
        return self._told(_fenced(output if outcome in ("", "OUTCOME_OK") else f"{outcome}\n{output}"), part)


def _signature(part: Part, kind: str) -> Iterator[Delta]:
    if signature := text_of(part, "thoughtSignature"):
        yield SignatureDelta(marked(GEMINI, kind, signature))


def _fenced(text: str, language: str = "") -> str:
    """*text* as a block of code, which back-ticks in it do not end."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    body = text.removesuffix("\n")
    return f"\n{fence}{language.lower()}\n{body}\n{fence}\n"


_READERS: Final = MappingProxyType[str, Callable[[PartReader, Part], Iterator[Delta]]](
    {
        "functionCall": PartReader._call,
        "inlineData": PartReader._media,
        "executableCode": PartReader._code,
        "codeExecutionResult": PartReader._run,
    }
)
"""Member that shows the kind of a part, unless it is text, to what reads it."""
