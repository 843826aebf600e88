"""Requests with one member of an SDK's type each, as small as is legal."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from tests.drift.types import Array, Object, Spec

__all__ = ["Place", "least", "places", "sample"]

Body = dict[str, Any]

_PNG: Final = base64.b64encode(bytes.fromhex("89504e470d0a1a0a0000000d49484452")).decode()
_SCHEMA: Final = {"type": "object", "properties": {"x": {"type": "string"}}}

VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "data": (_PNG, base64.b64encode(b"%PDF-1.7").decode()),
    "media_type": ("image/png", "image/jpeg"),
    "mimeType": ("image/png", "image/jpeg"),
    "mime_type": ("image/png", "image/jpeg"),
    "url": ("https://h/x.png", "https://h/y.png"),
    "image_url": ("https://h/x.png", "https://h/y.png"),
    "file_url": ("https://h/x.pdf", "https://h/y.pdf"),
    "fileUri": ("https://h/x.png", "https://h/y.png"),
    "file_data": ("data:text/plain,x", "data:text/plain,y"),
    "arguments": ('{"x": 1}', '{"x": 2}'),
    "schema": (_SCHEMA, {"type": "object"}),
    "input_schema": (_SCHEMA, {"type": "object"}),
    "parameters": (_SCHEMA, {"type": "object"}),
    "parametersJsonSchema": (_SCHEMA, {"type": "object"}),
    "responseSchema": (_SCHEMA, {"type": "object"}),
    "responseJsonSchema": (_SCHEMA, {"type": "object"}),
    "responseMimeType": ("application/json", "text/plain"),
    "budget_tokens": (2_000, 3_000),
    "effort": ("low", "high"),
    "thinkingLevel": ("LOW", "HIGH"),
    "n": (1, 2),
    "candidateCount": (1, 2),
}
"""Name of a member to values of it that mean something, where those of its type may not."""

NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "FunctionCall": ("name",),
    "Blob": ("data", "mimeType"),
    "FileData": ("fileUri",),
    "FunctionDeclaration": ("name",),
    "JSONSchema": ("schema",),
    "ResponseInputImageParam": ("image_url",),
    "ResponseInputImageContentParam": ("image_url",),
    "ResponseInputFileParam": ("file_data",),
    "ResponseInputFileContentParam": ("file_data",),
    "BetaCompactionBlockParam": ("content",),
    "BetaCompactionBlock": ("content",),
}
"""Classes of an SDK that calls nothing required, and what the API cannot do without."""


@frozen(eq=False)
class Place:
    """An object, and where in a request it stands first."""

    object: Object
    name: str
    """Such as ``messages[].content[] tool_use``."""

    steps: tuple[tuple[Object, str, bool], ...] = ()
    """The objects that hold it, each with the member that does, and whether that is an array."""

    def put(self, value: Body) -> Body:
        """The whole body with *value* in this place."""
        held: Any = value
        for holder, member, is_array in reversed(self.steps):
            held = {**least(holder), member: [held] if is_array else held}
        whole: Body = held
        return whole

    def at(self, name: str, first: Mapping[str, int]) -> str:
        """Where the member of this *name* stands, as notes write places.

        Args:
            name: The member.
            first: How many items stand in an array of a request before the sample.
        """
        indexes = [first.get(member, 0) if not depth else 0 for depth, (_, member, _) in enumerate(self.steps)]
        steps = zip(self.steps, indexes, strict=True)
        held = (f"{member}[{index}]" if is_array else member for (_, member, is_array), index in steps)
        return ".".join((*held, name))


PARTS: Final[tuple[Body, Body]] = ({"parts": [{"text": "x"}]}, {"parts": [{"text": "y"}]})
"""Contents of Google's: no member of a part is required, and a part without any says nothing."""


def least(kind: Object, which: int = 0) -> Body:
    """The smallest legal object of a class, but never an empty one, which would say nothing."""
    if kind.name == "Content" and "parts" in kind.members:
        return PARTS[which]
    required = {name for name, member in kind.members.items() if member.required} | {*NEEDED.get(kind.name, ())}
    wanted = required - kind.tags.keys() or ({*[*kind.members][:1]} if not kind.tags else set())
    return {**{name: sample(name, kind.members[name].specs[0], which) for name in wanted}, **kind.tags}


def sample(name: str, spec: Spec, which: int = 0) -> Any:
    """A value of the member of this *name*."""
    if isinstance(spec, Array):
        return [sample(name, spec.items[0], which)] if spec.items else []
    if isinstance(spec, Object):
        return least(spec, which)
    values = VALUES.get(name, ()) if not isinstance(spec.values[0], bool) else ()
    fits = [each for each in values if type(each) is type(spec.values[0])]
    if len(spec.values) > 1 and isinstance(spec.values[0], str) and spec.values[:2] != ("x", "y"):
        fits = [each for each in fits if each in spec.values]
    chosen = fits or spec.values
    return chosen[min(which, len(chosen) - 1)]


def places(root: Object) -> Iterator[Place]:
    """Every class that a request may hold, at the first place where it may stand.

    The SDKs have some things twice, for a request and for an answer that is handed back: the second one is passed over
    where it has nothing that the first one has not.
    """
    seen: dict[tuple[str, str], set[str]] = {}
    waiting = deque([Place(root, "")])
    while waiting:
        place = waiting.popleft()
        yield place
        for name, member in place.object.members.items():
            for inner, is_array in (found for spec in member.specs for found in _objects(spec)):
                tag = str(inner.tags.get("type", ""))
                key = (name, tag) if tag else ("", " ".join(sorted(inner.members)))
                known = seen.setdefault(key, set())
                if known >= inner.members.keys():
                    continue
                known.update(inner.members)
                label = f"{name}{'[]' * is_array}{f'({tag})' * bool(tag)}"
                steps = (*place.steps, (place.object, name, is_array))
                waiting.append(Place(inner, f"{place.name}.{label}".removeprefix("."), steps))


def _objects(spec: Spec) -> Iterator[tuple[Object, bool]]:
    """The objects that *spec* may be, or that it is an array of."""
    if isinstance(spec, Object):
        yield spec, False
    elif isinstance(spec, Array):
        for item in spec.items:
            if isinstance(item, Object):
                yield item, True
