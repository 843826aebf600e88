"""Signatures: Google's own as they are, and thinking that others have signed in an envelope.

``thoughtSignature`` is bytes, which the official clients decode and encode anew, in another alphabet: nothing but
base64 comes back.  Google's signatures are that.  Thinking of others is put into an envelope, the base64 of ``KAS1``
and the JSON of ``[[text, signature, redacted], …]``: with its text, since some clients keep nothing of an answer but
its calls and what stands on them.  An envelope hides nothing and proves nothing; to whom a signature in it may be
handed, the signature tells (`kiro_asgi.model.signatures`), and only its owner can tell whether it is real.

Source: https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.prompt import ThinkingPart
from kiro_asgi.model.signatures import CALL, GEMINI, TEXT, THOUGHT, marked, read_mark
from kiro_asgi.wire.json import JsonError, dumps, loads

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
    """The thoughts in an envelope; ``None`` for what is none, or is damaged."""
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
    """What others have signed, for the next call or the end."""

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
        """What stands on a call."""
        signature, self._call = self._call, ""
        return {"thoughtSignature": signature} if signature else self.rest()

    def rest(self) -> dict[str, str]:
        """What stands on the last part."""
        kept, self._kept = self._kept, []
        return {"thoughtSignature": sealed(kept)} if kept else {}


_OWN_PARTS: Final[dict[str, dict[str, Any]]] = {CALL: {}, THOUGHT: {"thought": True}, TEXT: {}}
"""Kind of part that Google signs to what such a part says of itself."""


def own(part: str, signature: str) -> ThinkingPart:
    """A signature of Google's that came on a *part*."""
    return ThinkingPart(signature=marked(GEMINI, part, signature))
