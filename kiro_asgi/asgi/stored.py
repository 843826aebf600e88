"""Responses that clients go back to: kept when complete, found again by their ids, each client's for it alone."""

from __future__ import annotations

from logging import getLogger
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.asgi.typing import Message, Send
from kiro_asgi.dialects.base import Heading
from kiro_asgi.dialects.openai_responses import OpenAIResponses, ResponsesEncoder
from kiro_asgi.dialects.openai_responses.kept import Item, Kept, encode, references, response_of
from kiro_asgi.dialects.openai_responses.options import options_of
from kiro_asgi.errors import BodyTooLarge, RequestError, ResponseNotFound, StoreUnavailable
from kiro_asgi.limits import PREVIOUS_RESPONSES
from kiro_asgi.state.base import Store, scoped

__all__ = ["Conversation", "Keeping", "Recorded", "Responses"]

_log = getLogger("kiro_asgi")

_KIND: Final = "response"

_MAX_ECHO: Final = 80
"""Characters of an unknown id that are repeated."""


@frozen
class Conversation:
    """A request with everything in it that it builds on."""

    value: dict[str, Any]
    """The request, as one that has the whole conversation in its input."""

    earlier: int = 0
    """How many items of the input stem from the responses before."""


@frozen
class Responses:
    """The kept responses.  Those of one client are found with its own principal only."""

    _store: Store
    _ttl: float
    """Seconds."""

    _max_bytes: int
    """Of all the responses that one request builds on."""

    async def get(self, principal: str, response_id: str) -> Kept:
        """One response.

        Raises:
            ResponseNotFound: It is not kept, or not any more, or not this client's.
        """
        data = await self._data(principal, response_id)
        if data is None:
            raise _not_found(response_id)
        return Kept.decode(data)

    async def keep(self, principal: str, response_id: str, data: bytes) -> None:
        """Keep a response, which `kiro_asgi.dialects.openai_responses.kept.encode` has made *data* of."""
        await self._store.set(scoped(principal, _KIND, response_id), data, self._ttl)

    async def forget(self, principal: str, response_id: str) -> None:
        """Delete a response.

        Raises:
            ResponseNotFound: As for `get`.
        """
        if await self._store.take(scoped(principal, _KIND, response_id)) is None:
            raise _not_found(response_id)

    async def complete(self, principal: str, value: dict[str, Any]) -> Conversation:
        """Put what the request *value* builds on before its input, and stored items in the place of references.

        What is of another type than it should be is left to whoever reads the request.

        Raises:
            RequestError: A response that it builds on is not kept (code ``previous_response_not_found``), or there are
                too many of them.
            BodyTooLarge: They are too large.
        """
        previous, items = value.get("previous_response_id"), value.get("input")
        if isinstance(items, str):
            items = [{"type": "message", "role": "user", "content": items}]
        if not isinstance(items, list) or not (isinstance(previous, str) or any(references(items))):
            return Conversation(value)
        earlier = await self._earlier(principal, previous) if isinstance(previous, str) else []
        own = await self._resolved(principal, items)
        return Conversation({**value, "input": [*earlier, *own]}, len(earlier))

    async def _earlier(self, principal: str, previous: str | None) -> list[Any]:
        """Every item of the responses up to *previous*, oldest first."""
        chain: list[Kept] = []
        size = 0
        while previous is not None:
            data = await self._data(principal, previous)
            if data is None:
                raise _chain_error(f"Previous response with id '{previous[:_MAX_ECHO]}' not found.", "not_found")
            size += len(data)
            self._check(size)
            if len(chain) == PREVIOUS_RESPONSES:
                raise _chain_error(
                    f"more than {PREVIOUS_RESPONSES} responses come before; send the conversation", "too_long"
                )
            chain.append(Kept.decode(data))
            previous = chain[-1].previous
        return [item for kept in reversed(chain) for item in kept.items]

    async def _resolved(self, principal: str, items: list[Any]) -> list[Any]:
        """*items* with those that are referred to; what is not kept stays a reference."""
        resolved, size = list(items), 0
        known: dict[str, dict[str, tuple[Item, int]]] = {}
        for place, item_id in references(items):
            owner = response_of(item_id)
            if owner not in known:
                data = await self._data(principal, owner) or b""
                known[owner] = Kept.decode(data).sized if data else {}
                size += len(data)
            resolved[place], more = known[owner].get(item_id, (items[place], 0))
            size += more  # each time anew: a hundred references to a large item are a large request
            self._check(size)
        return resolved

    def _check(self, size: int) -> None:
        """Build on no more than a request may hold that sends it all."""
        if size > self._max_bytes:
            raise BodyTooLarge(f"the conversation is larger than {self._max_bytes} bytes", code="body_too_large")

    async def _data(self, principal: str, response_id: str) -> bytes | None:
        return await self._store.get(scoped(principal, _KIND, response_id))


def _not_found(response_id: str) -> ResponseNotFound:
    return ResponseNotFound(f"Response with id '{response_id[:_MAX_ECHO]}' not found.", code="")


def _chain_error(message: str, code: str) -> RequestError:
    return RequestError(message, code=f"previous_response_{code}", param="previous_response_id")


@frozen
class Recorded(OpenAIResponses):
    """The dialect for one request: it remembers the encoder of the answer, which knows what the client was told."""

    answers: list[tuple[Heading, ResponsesEncoder]] = field(factory=list)

    def encoder(self, heading: Heading) -> ResponsesEncoder:
        """A fresh encoder, the last of which counts."""
        encoder = super().encoder(heading)
        self.answers.append((heading, encoder))
        return encoder


@define
class Keeping:
    """Keeps one answer when it has come to its end, before the client hears of that: its next request may follow."""

    _responses: Responses
    _principal: str
    _dialect: Recorded
    _earlier: int
    """How many items of the input are not the request's own."""

    _send: Send

    async def send(self, message: Message) -> None:
        """Send; before the last message, keep what there is."""
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            await self._keep()
        await self._send(message)

    async def _keep(self) -> None:
        heading, encoder = self._dialect.answers[-1]
        if not encoder.complete:
            return
        items = options_of(heading).input_items[self._earlier :]
        data = encode(heading.id, encoder.response, items, encoder.seals)
        try:
            await self._responses.keep(self._principal, heading.id, data)
        except StoreUnavailable as error:
            _log.warning("a response is not kept: %r", error)
