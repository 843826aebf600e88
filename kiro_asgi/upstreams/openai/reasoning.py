"""Thinking that is handed back to the service unchanged: OpenRouter's entries, items of Responses.

OpenRouter's ``reasoning_details`` are texts, summaries, and data that only the model can read.  A model wants its
entries back whole and in their order.  A stream cuts the texts into pieces, and a text's signature may come last,
without any; so pieces are joined before they are handed back.  An item of Responses holds data that only the service
can read, and its summary.  Clients have either as one opaque signature, which is sent to no other service.

Source: https://openrouter.ai/docs/use-cases/reasoning-tokens
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

from attrs import define, field, frozen

from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value
from kiro_asgi.model.events import SignatureDelta
from kiro_asgi.model.signatures import DETAILS, REASONING, SEAL, marked, read_mark
from kiro_asgi.wire.json import JsonError, dumps, loads, object_of, objects_of, text_of

_TEXTS: Final[Mapping[str, str]] = MappingProxyType({"reasoning.text": "text", "reasoning.summary": "summary"})
"""Type of an entry whose text comes in pieces, and the text's member."""


@define
class _DetailEntry:
    """An entry as far as it was received."""

    fields: dict[str, Any]
    member: str
    pieces: list[str]

    @classmethod
    def begin(cls, detail: Mapping[str, Any]) -> _DetailEntry:
        member = _TEXTS.get(text_of(detail, "type"), "")
        return cls(dict(detail), member, [text_of(detail, member)] if member else [])

    def takes(self, detail: Mapping[str, Any]) -> bool:
        """Whether *detail* is its next piece: indices alone do not decide, as in streams they may all be 0."""
        same = all(detail.get(name) == self.fields.get(name) for name in ("type", "index"))
        return bool(self.member) and same and not self.fields.get("signature")

    def add(self, detail: Mapping[str, Any]) -> None:
        self.pieces.append(text_of(detail, self.member))
        self.fields |= {name: value for name, value in detail.items() if value is not None and name != self.member}

    def joined(self) -> dict[str, Any]:
        text = "".join(self.pieces)
        return {**self.fields, self.member: text} if text else self.fields


@define
class ReasoningDetails:
    """Gathers entries, and joins their pieces.

    Raises:
        AnswerTooLarge: There is no room for them.
    """

    _service: str = ""
    """Name of the upstream."""

    _entries: list[_DetailEntry] = field(init=False, factory=list)
    _budget: AnswerBudget = field(init=False, factory=AnswerBudget)

    def take(self, detail: Mapping[str, Any]) -> None:
        """Keep the next entry, or piece of one."""
        self._budget.take(ITEM + size_of_value(detail))
        if self._entries and self._entries[-1].takes(detail):
            self._entries[-1].add(detail)
        else:
            self._entries.append(_DetailEntry.begin(detail))

    def joined(self) -> list[dict[str, Any]]:
        """All entries."""
        return [entry.joined() for entry in self._entries]

    def release(self) -> Iterator[SignatureDelta]:
        """The entries since the last time as one signature, if there are any."""
        if self._entries:
            signature = _packed(self.joined(), self._service, DETAILS)
            self._entries = []
            yield SignatureDelta(signature)


def read_details(signature: str, service: str) -> list[dict[str, Any]]:
    """The entries in a *signature* of this service's; none in any other, or in one that was changed."""
    return [*map(dict, objects_of(_unpacked(signature, service, DETAILS)))]


def sealed(item: Mapping[str, Any], service: str) -> str:
    """The signature that stands for *item* of the upstream named *service*; empty where nothing in it is sealed."""
    if not text_of(item, "encrypted_content"):
        return ""
    kept = {name: item[name] for name in ("id", "summary", "encrypted_content") if name in item}
    return _packed(kept, service, REASONING)


def opened(signature: str, service: str) -> dict[str, Any] | None:
    """The item in a *signature* of this service's; ``None`` for any other, or one that was changed."""
    kept = _unpacked(signature, service, REASONING)
    if type(kept) is not dict or not text_of(kept, "encrypted_content"):
        return None
    return {"type": "reasoning", "summary": [], **kept}


@frozen
class ThinkingSeal:
    """``reasoning_opaque`` of a message: what GitHub Copilot and those that copy it hand out beside thinking."""

    data: str
    member: str = ""
    """As of `kiro_asgi.model.events.ThinkingDelta`, of the text that it belongs to."""

    def pack(self, service: str) -> str:
        """As a signature of that *service*'s."""
        return _packed({"data": self.data, "member": self.member}, service, SEAL)

    @classmethod
    def read(cls, signature: str, service: str) -> Self | None:
        """The seal in a *signature* of this service's; ``None`` for any other, or one that was changed."""
        kept = object_of(_unpacked(signature, service, SEAL))
        return cls(text_of(kept, "data"), text_of(kept, "member")) if text_of(kept, "data") else None


def _packed(value: Any, service: str, part: str) -> str:
    """*value* as a signature of that *service*'s."""
    return marked(service, part, urlsafe_b64encode(dumps(value)).decode("ascii"))


def _unpacked(signature: str, service: str, part: str) -> Any:
    """The inverse of `_packed`; ``None`` for a signature of another service or part, or one that was changed."""
    mark = read_mark(signature)
    if (mark.owner, mark.part) != (service, part):
        return None
    try:
        return loads(urlsafe_b64decode(mark.signature))
    except (JsonError, ValueError):
        return None
