"""Fields of a request that refer to something a server holds: a conversation, a container, a cache.

With such a field the client says that the rest of the prompt is there.  A dialect supplies it, or a service of the
client's own API gets the field as it came; no other service can be asked.  An answer that was made without the rest
would look like any other.

Sources: ``thread`` and ``container``, ``MessageCreateParams`` of the SDKs for the Messages API, 2.14.0 and 1.14.0;
``conversation`` and ``previous_response_id``, https://platform.openai.com/docs/api-reference/responses/create;
``cachedContent``, https://ai.google.dev/api/generate-content; ``continuationToken``, google-genai 3.6.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.errors import unsupported
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import Demand

_CONVERSATION: Final = "no conversation is held for this API; send all of its messages, without this field"
_CACHE: Final = "nothing is cached here; send the contents themselves"
_CONTINUED: Final = "no answer is held here to go on with; send the conversation, with what there is of the answer"

REFERENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "thread": _CONVERSATION,
        "previous_message_id": _CONVERSATION,
        "previous_response_id": _CONVERSATION,
        "conversation": _CONVERSATION,
        "container": "no container, and no skill in one, is held here; send what is in it, without this field",
        "cached_content": _CACHE,
        "cachedContent": _CACHE,
        "continuation_token": _CONTINUED,
        "continuationToken": _CONTINUED,
    }
)
"""Field of a whole request to what is wrong, and what to do.  Each is looked for in every API: who sends it counts on
it, and no API has one of these names for anything else."""


_CODES: Final[Mapping[str, str]] = MappingProxyType({"thread": "thread_unsupported_request"})
"""Codes that clients act on; see `kiro_asgi.dialects.anthropic.errors`."""


def references_in(document: Mapping[str, Any], supplied: Collection[str] = ()) -> Iterator[str]:
    """Fields of *document* that refer to something, but for those of *supplied*, whose rest is here."""
    return (name for name in REFERENCES if name not in supplied and _refers(document.get(name)))


def refuse_references(document: Any, supplied: Collection[str] = ()) -> None:
    """Stop at the first reference in *document*, the body of a request.

    Raises:
        RequestError: ``param`` names the field.
    """
    if isinstance(document, Mapping):
        for name in references_in(document, supplied):
            raise _refusal(name)


HELD: Final = frozenset({"container", "cached_content", "cachedContent"})
"""References to what a service holds whoever asks.  Of conversations it is not so: a translated answer has an id of the
gateway's, which no service could continue."""


def referred(document: Mapping[str, Any], api: str) -> tuple[Demand, ...]:
    """Demands of *document*, the body of a request of this *api*, for what is `HELD`."""
    names = (name for name in references_in(document) if name in HELD)
    return tuple(Demand(api, {name: document[name]}, _refusal(name)) for name in names)


def _refers(value: Any) -> bool:
    """Whether *value* names something; members that clients send empty do not."""
    return any(value.values()) if type(value) is dict else bool(value)


def _refusal(name: str) -> RequestError:
    error = unsupported(name, REFERENCES[name])
    error.code = _CODES.get(name, error.code)
    return error
