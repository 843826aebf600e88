"""How a service differs from OpenAI's own Responses API: one value each, which the upstream reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.upstreams.base import ModelPage
from kiro_asgi.upstreams.headers import Headers


@frozen(kw_only=True)
class ServiceFacts:
    """One service.  The defaults are OpenAI's own."""

    endpoint: str
    """Its public base URL."""

    fields: frozenset[str] | None = None
    """The fields that a request may have, where it refuses all others; ``None`` where it has no such list."""

    instructions: str = ""
    """Instructions for a request that has none, where the service demands some; empty where it does not."""

    headers: Headers = ()
    """Further headers of every request."""

    account_header: bytes = b""
    """The header that names the account of a sign-in; empty where there is none."""

    models_query: str = ""
    """What the address of its list of models ends with."""

    parse_models: Callable[[bytes], ModelPage] | None = field(default=None, repr=False)
    """Reads its list of models; ``None`` where that has a usual form."""


_UNASKED: Final = frozenset({"stream_options"})
"""Fields that no client asks for, so that no note names them where they are left out."""


def fit(body: dict[str, Any], facts: ServiceFacts, notes: Notes) -> None:
    """Change *body*, a request for the Responses API, to what the service takes."""
    for name in () if facts.fields is None else tuple(body.keys() - facts.fields):
        del body[name]
        if name not in _UNASKED:
            notes.applies("service.field", name)
    if facts.instructions and not body.get("instructions"):
        notes.applies("service.instructions", "instructions")
        body["instructions"] = facts.instructions
