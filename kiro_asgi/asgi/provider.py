"""One upstream with everything that it takes to ask it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from attrs import define, field

from kiro_asgi.asgi.rules import UNCITED
from kiro_asgi.asgi.server_tools import Toolbox
from kiro_asgi.errors import KiroAsgiError, UpstreamQuotaSpent
from kiro_asgi.limits import HEALED_MODELS
from kiro_asgi.model.notes import Note, Notes, Rule
from kiro_asgi.model.prompt import Document, Part, Prompt, Text
from kiro_asgi.net.catalogue import Catalogue
from kiro_asgi.net.credentials import Credentials
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.base import Credential, ModelCard, Upstream
from kiro_asgi.upstreams.setup import Adapt, Manner, unchanged

__all__ = ["Provider"]

_CITED_BLOCK: Final = {"type": "search_result", "citations": {"enabled": True}}.items()

AskReset = Callable[[Credential], Awaitable[float | None]]
"""When there is a new quota, in seconds since the epoch; ``None`` where nobody says."""


async def _unknown(credential: Credential) -> float | None:
    return None


@define(kw_only=True)
class Provider:
    """An upstream, its models, and the credentials to ask with."""

    upstream: Upstream
    service: str
    """Whose accounts the credentials are, e.g. the host of the endpoint; two upstreams may be one service."""

    transport: Transport
    credentials: Credentials
    catalogue: Catalogue
    toolbox: Toolbox
    manner: Manner
    rules: tuple[Rule, ...] = ()
    """What the upstream may do to a prompt."""

    _ask_reset: AskReset = _unknown
    _adapt: Adapt = field(default=unchanged)

    _learnt: OrderedDict[str, Upstream] = field(init=False, factory=OrderedDict)
    """Models that have to be asked differently, the one learnt last at the end, and the upstream that does so."""

    def asking(self, model: ModelCard) -> Upstream:
        """The upstream as it asks *model*, by all that is known of refusals."""
        return self._learnt.get(model.id, self.upstream)

    def learn(self, model: ModelCard, upstream: Upstream) -> None:
        """Ask *model* the way that *upstream* does from now on: it has just got an answer."""
        if upstream is not self.asking(model) and upstream.traits.learns:
            self._learnt[model.id] = upstream
            self._learnt.move_to_end(model.id)
            if len(self._learnt) > HEALED_MODELS:
                self._learnt.popitem(last=False)

    @property
    def name(self) -> str:
        """What the upstream is called in the settings."""
        return self.upstream.name

    def adapted(self, prompt: Prompt, name: str, model: ModelCard) -> tuple[Prompt, tuple[Note, ...]]:
        """*prompt* with the wishes that the model's name spells out, without tools that nobody runs; what is left out.

        Raises:
            RequestError: A tool has to be called that nobody runs.
        """
        offered, notes = self.toolbox.offered(self._adapt(prompt, self.catalogue.meant(name), model))
        return offered, notes if self.upstream.traits.cites else (*notes, *_uncited(offered))

    async def with_reset(self, error: UpstreamQuotaSpent, credential: Credential, now: float) -> UpstreamQuotaSpent:
        """*error* with the time of the next quota, if the upstream can be asked for it; *now* is since the epoch."""
        try:
            reset = await self._ask_reset(credential)
        except KiroAsgiError:
            return error
        if reset is None:
            return error
        moment = datetime.fromtimestamp(reset, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return type(error)(f"{error.message}; resets at {moment}", code=error.code, retry_after=max(reset - now, 0.0))


def _uncited(prompt: Prompt) -> tuple[Note, ...]:
    """What is left out where a service cites nothing."""
    notes = Notes()
    for turn in prompt.turns:
        for part in turn.content():
            if _is_to_cite(part):
                notes.applies(UNCITED, getattr(part, "place", "") or turn.place)
    return notes.found()


def _is_to_cite(part: Part) -> bool:
    """Whether the answer shall say on which places of *part* it rests."""
    if type(part) is Text:
        return part.block is not None and part.block.items() >= _CITED_BLOCK
    return type(part) is Document and part.cited
