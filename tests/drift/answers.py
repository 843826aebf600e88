"""What becomes of each member of an answer: an upstream reads it, a dialect writes it, or it is only passed on.

Reading and writing are told by the strings in the code of the vendor's folder: a name that none of them has is neither.
Where an answer goes through as it is, everything in it does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args

from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from attrs import frozen
from botocore.session import get_session
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

import kiro_asgi
from tests.drift.samples import places
from tests.drift.types import Array, Leaf, Member, Object, Types

__all__ = ["FAMILIES", "Family", "Use", "uses"]

_PACKAGE: Final = Path(kiro_asgi.__file__).parent

_REPORTS: Final = "failures/report.py"
"""Reads reports of failures, of every service."""

_COUNTS: Final = "stages/counts.py"
"""Reads counts of tokens, whether an answer is translated or relayed."""

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_ENDS: Final = frozenset({"stop_reason", "finish_reason", "finishReason", "stopReason"})
"""Members whose words are rows of their own: each is an end that has to be classed."""


class Use(Enum):
    """What becomes of a member."""

    READ = "read"
    """The upstream has its name."""

    SENT = "sent"
    """The dialect has its name: answers of other services have it, too."""

    BOTH = "read and sent"
    PASSED = "passed on"
    """It is in answers that go through as they are."""


@frozen(kw_only=True)
class Family:
    """The answers of one API."""

    title: str
    root: Object
    reads: tuple[str, ...]
    """Folders and files of the package that read them."""

    writes: tuple[str, ...] = ()
    """The same that write them, where clients speak the API."""


def _families() -> dict[str, Family]:
    types = Types()
    runtime = get_session().get_service_model("bedrock-runtime")
    converse = [runtime.operation_model(name).output_shape for name in ("Converse", "ConverseStream")]
    return {
        "messages": Family(
            title="Messages",
            root=_root(types, BetaMessage, *get_args(get_args(BetaRawMessageStreamEvent)[0])),
            reads=("upstreams/anthropic", _COUNTS, _REPORTS),
            writes=("dialects/anthropic",),
        ),
        "chat": Family(
            title="Chat Completions",
            root=_root(types, ChatCompletion, ChatCompletionChunk),
            reads=("upstreams/openai", _COUNTS, _REPORTS),
            writes=("dialects/openai_chat", "dialects/openai_common.py"),
        ),
        "responses": Family(
            title="Responses",
            root=_root(types, Response, *get_args(get_args(ResponseStreamEvent)[0])),
            reads=("upstreams/openai", _COUNTS, _REPORTS),
            writes=("dialects/openai_responses", "dialects/openai_common.py"),
        ),
        "gemini": Family(
            title="Gemini",
            root=_root(types, GenerateContentResponse),
            reads=("upstreams/gemini", _COUNTS, _REPORTS),
            writes=("dialects/gemini",),
        ),
        "bedrock": Family(
            title="Bedrock, Converse", root=_root(types, *converse), reads=("upstreams/bedrock", _COUNTS, _REPORTS)
        ),
    }


def _root(types: Types, *kinds: Any) -> Object:
    """An object that holds what any of *kinds* does."""
    members = {kind.__name__ if hasattr(kind, "__name__") else kind.name: kind for kind in kinds}
    held = {name: Member(False, (Array((types.object(kind),)),)) for name, kind in members.items()}
    return Object("answer", lambda: held)


FAMILIES: Final[Mapping[str, Family]] = _families()


def uses(family: Family) -> Iterator[tuple[str, str, Use]]:
    """Place, name and use of every member that the SDK knows; an end is named with its word."""
    read, sent = _words(family.reads), _words(family.writes)
    for place in places(family.root):
        for name, member in place.object.members.items() if place.name else ():
            for word in (name, *_ends(name, member)):
                key = word.partition("=")[2] or word
                use = {(True, True): Use.BOTH, (True, False): Use.READ, (False, True): Use.SENT}
                yield place.name, word, use.get((key in read, key in sent), Use.PASSED)


def _ends(name: str, member: Member) -> Iterator[str]:
    leaves = [spec for spec in member.specs if isinstance(spec, Leaf)]
    if name in _ENDS:
        yield from (f"{name}={word}" for leaf in leaves for word in leaf.values)


def _words(places_: tuple[str, ...]) -> set[str]:
    """Words of all strings in code, but for docstrings."""
    files = [file for place in places_ for file in _files(_PACKAGE / place)]
    return {
        word for file in files for text in _strings(ast.parse(file.read_text("utf-8"))) for word in _WORD.findall(text)
    }


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def _strings(tree: ast.AST) -> Iterator[str]:
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in said:
            value = node.value
            yield value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""
