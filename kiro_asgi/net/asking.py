"""Small questions to a service in the name of a credential: which models, how much is left, a search."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from attrs import frozen

from kiro_asgi.errors import KiroAsgiError, UpstreamTokenInvalid
from kiro_asgi.limits import FETCHED_BYTES, REFUSAL_BYTES
from kiro_asgi.net.credentials import Credentials
from kiro_asgi.net.transport import Headers, Transport
from kiro_asgi.net.whole import fetch_whole
from kiro_asgi.upstreams.base import Credential, UpstreamRequest

__all__ = ["Asker"]

_Question = Callable[[Credential], UpstreamRequest]


@frozen
class Asker:
    """Asks for whoever needs more than an answer of a model.

    A token that is not taken is renewed, once, as for an answer.  No failure lets a credential rest: that is decided by
    what becomes of answers.
    """

    _transport: Transport
    _credentials: Credentials
    _fault: Callable[[int, Headers, bytes], KiroAsgiError]
    """What a refusal means."""

    async def ask(
        self, question: _Question, *, patience: float, limit: int = FETCHED_BYTES, credential: Credential | None = None
    ) -> bytes:
        """The body of the answer.

        Args:
            question: Makes the request.
            patience: Seconds for each of at most two requests.
            limit: Largest answer, in bytes.
            credential: To ask with; ``None`` for the one that is best now.

        Raises:
            KiroAsgiError: There is no credential, no answer, or a refusal.
        """
        used = credential or await self._credentials.get()
        try:
            return await self._answer(question, used, patience, limit)
        except UpstreamTokenInvalid:
            newer = await self._credentials.renew(used)
            if newer is None:
                raise
        return await self._answer(question, newer, patience, limit)

    async def _answer(self, question: _Question, credential: Credential, patience: float, limit: int) -> bytes:
        answer = await fetch_whole(self._transport, question(credential), patience=patience, limit=limit)
        if answer.status != HTTPStatus.OK:
            raise self._fault(answer.status, answer.headers, credential.hidden_in(answer.body[:REFUSAL_BYTES]))
        return answer.body
