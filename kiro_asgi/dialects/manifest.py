"""What a client API says of itself to everybody else: one value for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.base import Dialect

__all__ = ["ANSWER", "COUNT", "DialectManifest", "DialectOptions", "Endpoint"]

ANSWER: Final = "answer"
"""Operation: read a request, ask an upstream, answer."""

COUNT: Final = "count"
"""Operation: read a request, tell how many tokens its prompt has; for a `kiro_asgi.dialects.base.CountingDialect`."""


@frozen
class Endpoint:
    """A path of an API and the method that it takes there."""

    method: str
    path: str
    """Below the mount point.  ``{id}`` is one or more characters but ``/``, ``{id:path}`` any.  The operation
    is handed the segment that begins with it, or with what is written before the brace."""

    operation: str = ANSWER


@frozen(kw_only=True)
class DialectOptions:
    """What the operator says about the answers of an API; one that has no such thing passes it over."""

    emit_code_references: bool = False
    """Whether streams name licensed sources in events that official SDKs do not know."""

    usage_chunk: str = "separate"
    """Where streams tell token counts: in a chunk of their own, or in the one that says why the answer ended
    (``finish``)."""


@frozen(kw_only=True)
class DialectManifest:
    """One client API.

    It is read at every start, so what reads requests and writes answers is imported by `make`.
    """

    name: str
    """In settings, options of the command, and what an upstream says that it speaks."""

    title: str
    """As its documentation calls it."""

    endpoints: tuple[Endpoint, ...]
    """Every path of it.  Errors below the first one's path are told as this API tells them."""

    make: Callable[[DialectOptions], Dialect]
    """Everything that takes no waiting; a setting that cannot work is a `ConfigError`."""

    key_headers: tuple[bytes, ...] = (b"authorization",)
    """Request headers, in lower case, in which its clients show a key; ``authorization`` holds it behind ``Bearer``."""

    marks: tuple[bytes, ...] = ()
    """Request headers, in lower case, that only its clients send: at paths of no API, such as ``/v1/models``, they get
    errors of this one."""

    replaces: tuple[str, ...] = ()
    """Paths of older APIs, whose clients are told of the first endpoint."""

    likeness: Callable[[Mapping[str, Any]], int] = lambda request: 0
    """How much a request body looks like one of this API: 2 for surely, 1 for probably, -1 for not at all."""

    operations: Callable[[], Callable[..., Any]] | None = None
    """Import what makes the object whose methods the endpoints' operations are; ``None`` where they are `ANSWER` and
    `COUNT`."""

    @property
    def root(self) -> str:
        """The path at which answers are asked for."""
        return self.endpoints[0].path
