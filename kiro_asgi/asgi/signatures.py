"""Signatures of tool calls between the answer that holds a call and the request that hands it back."""

from __future__ import annotations

from collections.abc import Mapping
from logging import getLogger
from typing import Final

from attrs import frozen

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.model.signatures import CALL, read_mark
from kiro_asgi.stages.call_signatures import signed, unsigned_calls
from kiro_asgi.state.base import Store, scoped

__all__ = ["Signatures"]

_log = getLogger("kiro_asgi")

_KIND: Final = "call-signature"


@frozen
class Signatures:
    """Remembers for *ttl* seconds, each client's for that client only."""

    _store: Store
    _ttl: float

    async def restored(self, prompt: Prompt, principal: str) -> Prompt:
        """*prompt* with the signatures that the client left out, as far as they are known."""
        known: dict[str, str] = {}
        try:
            for call_id in unsigned_calls(prompt):
                if (data := await self._store.get(scoped(principal, _KIND, call_id))) is not None:
                    known[call_id] = data.decode(errors="replace")
        except StoreUnavailable as error:
            _log.warning("signatures of tool calls are not remembered: %r", error)
        whole = {call_id: signature for call_id, signature in known.items() if read_mark(signature).part == CALL}
        if len(whole) < len(known):
            _log.error("signatures of tool calls are damaged, and count as missing: %d", len(known) - len(whole))
        return signed(prompt, whole)

    async def remember(self, found: Mapping[str, str], principal: str) -> None:
        """Keep signatures by the ids of their calls."""
        try:
            for call_id, signature in found.items():
                await self._store.set(scoped(principal, _KIND, call_id), signature.encode(), self._ttl)
        except StoreUnavailable as error:
            _log.warning("signatures of tool calls are not remembered: %r", error)
