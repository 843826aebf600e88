"""Codex: OpenAI's Responses service for those who signed in with ChatGPT.

It is a smaller API than OpenAI's own: it streams only, stores nothing, wants instructions, and refuses every field that
is not on its list.  Its lists of models and limits are its own.  We send our own name; the account is named in a
header, as the service demands.

Sources: https://github.com/openai/codex, ``codex-rs/codex-api`` (requests, models, limits), ``codex-rs/backend-client``
(usage); for what is refused https://github.com/langwatch/langwatch/pull/7507 and
https://github.com/openai/codex/issues/26173
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.failures.report import document_of
from kiro_asgi.failures.texts import clean
from kiro_asgi.upstreams.base import Credential, ModelCard, ModelPage, UpstreamRequest
from kiro_asgi.upstreams.models import LEVELS, limit_of, listed, read_listing
from kiro_asgi.upstreams.openai import models
from kiro_asgi.upstreams.openai.service_facts import ServiceFacts
from kiro_asgi.upstreams.openai.settings import CODEX_ENDPOINT
from kiro_asgi.wire.json import count_of, object_of, objects_of, text_of

CLIENT_VERSION: Final = "0.169.0"
"""The version of the Codex command whose models are asked for: the service lists none that needs a newer one."""

_DEFAULTS: Final = ModelCard("")
_WINDOW: Final = 272_000
"""Tokens, where the list does not name them: those of the models that it has, by the command's own table."""


def parse_models(body: bytes) -> ModelPage:
    """The models of an answer; where a key stood in the file, in the usual form of OpenAI's list.

    Raises:
        UpstreamProtocolError: It is no list of models.
    """
    listing = read_listing(body, dict)
    entries = listing.get("models")
    if entries is None:
        return models.parse_models(body, custom=False)
    if type(entries) is not list:
        raise UpstreamProtocolError("the body is not a list of models", code="upstream.models")
    return ModelPage(listed(entries, _read))


def _read(entry: Any) -> ModelCard | None:
    entry = object_of(entry)
    name = text_of(entry, "slug")
    if not name:
        return None
    levels = entry.get("supported_reasoning_levels")
    known = {text_of(level, "effort") for level in objects_of(levels)}
    modalities = entry.get("input_modalities")
    return ModelCard(
        name,
        text_of(entry, "display_name"),
        limit_of(entry, "context_window", _WINDOW),
        _DEFAULTS.max_output_tokens,
        "image" in modalities if type(modalities) is list else _DEFAULTS.images,
        tuple(level for level in LEVELS if level in known),
    )


CODEX: Final = ServiceFacts(
    endpoint=CODEX_ENDPOINT,
    fields=frozenset(
        {
            "client_metadata",
            "include",
            "input",
            "instructions",
            "model",
            "parallel_tool_calls",
            "prompt_cache_key",
            "reasoning",
            "store",
            "stream",
            "text",
            "tool_choice",
            "tools",
        }
    ),
    instructions="Answer the user.",
    headers=((b"originator", b"kiro-asgi"),),
    account_header=b"chatgpt-account-id",
    models_query=f"client_version={CLIENT_VERSION}",
    parse_models=parse_models,
)
"""The fields are those that the command itself sends, by its ``build_responses_request``."""


@frozen
class CodexQuota:
    """Asks for what is left of the account's limits; a `kiro_asgi.upstreams.settings.Quota`."""

    get: Callable[[str, Credential], UpstreamRequest]
    """Asks for the document at a path of the service."""

    @property
    def questions(self) -> tuple[Callable[[Credential], UpstreamRequest], ...]:
        """One way to ask; an account that is used by a key has no such limits."""
        return (lambda credential: self.get("/usage", credential),)

    def reset(self, body: bytes) -> float | None:
        """When the last of the spent limits is reset, in seconds since the epoch; ``None`` where none is spent."""
        spent = (count_of(window, "reset_at") for window in _windows(body) if (_used(window) or 0) >= 100)
        return max(filter(None, spent), default=None)

    def describe(self, body: bytes) -> str:
        """What is used of each limit, in words."""
        plan = clean(text_of(document_of(body), "plan_type")) or "unnamed plan"
        return "; ".join((f"plan {plan}", *map(_words, _windows(body))))


def _windows(body: bytes) -> Iterator[Mapping[str, Any]]:
    limits = object_of(document_of(body).get("rate_limit"))
    yield from filter(None, (object_of(limits.get(name)) for name in ("primary_window", "secondary_window")))


def _used(window: Mapping[str, Any]) -> float | None:
    """Percent; ``None`` where it is not known."""
    used = window.get("used_percent")
    return used if type(used) is int or type(used) is float else None


def _words(window: Mapping[str, Any]) -> str:
    hours, used = (count_of(window, "limit_window_seconds") or 0) / 3600, _used(window)
    return (
        f"{'an unknown part' if used is None else f'{used:g} %'} of {f'{hours:g} hours' if hours else 'a limit'} used"
    )
