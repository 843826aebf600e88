"""One upstream call: its answer's bytes through the stages into an output."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain

from attrs import define, field

from kiro_asgi.asgi.output import Output
from kiro_asgi.asgi.plan import plan_answer
from kiro_asgi.asgi.reading import Reading
from kiro_asgi.limits import CONTINUATIONS
from kiro_asgi.model.events import Event, MessageEnd, MessageStart, Usage
from kiro_asgi.net.transport import Enough
from kiro_asgi.stages.answer import Answer, build_pipeline
from kiro_asgi.upstreams.base import PausingTurn, UpstreamRequest

__all__ = ["Attempt"]


@define
class Attempt(Reading[Output[Event]]):
    """Decodes an answer, for whichever client API."""

    _learn: Callable[[Answer], Awaitable[None]]
    """Told of a whole answer before its end is sent: the client's next request may follow at once."""

    _opened: bool = False
    """Whether the client has been shown the start of the message before the stages existed."""

    answer: Answer | None = field(init=False, default=None)
    """The stages; ``None`` until the upstream says 200."""

    _turn: PausingTurn | None = field(init=False)
    """Where the service may pause: what reads all parts of the answer."""

    _continuations: int = field(init=False, default=0)
    _heard_before: int = field(init=False, default=0)
    """Events of the parts before."""

    @_turn.default
    def _make_turn(self) -> PausingTurn | None:
        make = self._exchange.rendered.turn
        return None if make is None else make()

    @property
    def heard(self) -> bool:
        """Whether there has been an event since the upstream was asked."""
        return self.answer is not None and self.answer.events_seen > self._heard_before

    @property
    def end(self) -> MessageEnd | None:
        """How the answer ended, where it came to an end."""
        return None if self.answer is None else self.answer.end

    @property
    def usage(self) -> Usage | None:
        """What the answer took, where it came to an end."""
        return None if self.end is None else self.end.usage

    def open(self) -> Iterable[Event]:
        """The start of the message, before there is anything in it."""
        if self.answer is not None:
            return self.answer.begin()
        self._opened = True
        return [MessageStart(Usage(input_tokens=self._exchange.input_tokens))]

    async def finish(self) -> None:
        """Bring the rest to the client.

        Raises:
            KiroAsgiError: What the upstream's refusal means, or what the end of its answer revealed.
        """
        answer = self.answer
        if answer is None or not self._accepted:
            self._refuse()
        await self._end(answer, answer.drain())
        await self._run_server_tools(answer)
        await self._put(answer.flush())
        await self._learn(answer)
        await self._output.finish()

    async def next_part(self) -> Callable[[], UpstreamRequest] | None:
        """Makes the request for the rest, where the service has paused and may be asked to go on.

        Raises:
            KiroAsgiError: What the end of the part revealed.
        """
        turn, answer = self._turn, self.answer
        if turn is None or answer is None or not self._accepted or self._continuations == CONTINUATIONS:
            return None
        if answer.enough:
            return None
        await self._end(answer, answer.end_part())
        if answer.enough or not turn.paused:
            return None
        await self._push()
        self._continuations += 1
        self._accepted, self._heard_before = False, answer.events_seen
        return turn.following

    async def _end(self, answer: Answer, rest: Iterable[Event]) -> None:
        """Bring the last bytes of a call to the client, and the *rest* that they lead to."""
        heard = answer.events_seen
        await self._put(chain(answer.feed(self._taken()), rest))
        if answer.events_seen != heard:
            self._note_event(content=answer.opened)

    def _accept(self, content_type: str) -> None:
        reader = self._turn or self._exchange.upstream
        decoder = reader.decoder(content_type)
        if self.answer is not None:
            self.answer.resume(decoder)
            return
        self.answer = build_pipeline(decoder, plan_answer(self._exchange, self._settings))
        if self._opened:
            deque(self.answer.begin(), maxlen=0)

    async def _run_server_tools(self, answer: Answer) -> None:
        """Run what the model called and the client does not run; it is shown what was called while it waits."""
        if calls := answer.pending:
            await self._push()
            results = await self._exchange.toolbox.run(calls, self._exchange.inquiry.prompt)
            await self._put(answer.resolve(results))

    async def _advance(self) -> None:
        """One pass through the stages."""
        answer = self.answer
        assert answer is not None, "bytes of an answer that has no stages"
        heard = answer.events_seen
        await self._put(answer.feed(self._taken()))
        await self._push()
        if answer.events_seen != heard:
            self._note_event(content=answer.opened)
        if answer.enough:
            raise Enough
