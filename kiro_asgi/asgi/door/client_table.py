"""Clients as the host's own table has them: the host is asked by a key or a user, once for all that wait, and what it
says holds for seconds.

Whatever goes wrong there lets nobody in.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from inspect import isawaitable
from logging import getLogger
from random import randrange
from threading import Lock
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread
from attrs import define, field, frozen

from kiro_asgi.errors import KeysUnavailable
from kiro_asgi.interface import is_async
from kiro_asgi.limits import KEY_LOOKUPS, KEY_LOOKUPS_WAITING, KNOWN_KEYS, UNKNOWN_KEYS
from kiro_asgi.loops import PerLoop
from kiro_asgi.quota.clients import Client
from kiro_asgi.quota.settings import hash_of

_log = getLogger("kiro_asgi")

_RETRY_AFTER: Final = 1.0
"""Seconds: databases are mostly back soon."""


@frozen(kw_only=True)
class Presented:
    """What a request shows of its client: a key, or else the user whom the host has signed in."""

    key: str = field(default="", repr=False)
    """As the client sent it: a secret."""

    user: str = ""
    """The host's name for its user; empty where there is a key."""

    @property
    def hash(self) -> str:
        """Of the key, as ``kiro-asgi keys new`` prints it: ``sha256:`` and 64 hexadecimal digits."""
        return hash_of(self.key.encode())


Find: TypeAlias = Callable[[Presented], Client | Awaitable[Client | None] | None]
"""Gives the client that shows this, or an awaitable of it; ``None`` where there is none.  One that is not async runs in
a thread."""


@define(eq=False)
class _Waiter:
    """A question that waits for its turn."""

    turn: anyio.Event = field(init=False, factory=anyio.Event)
    dropped: bool = field(init=False, default=False)
    """Whether it is not going to be asked."""


@define(eq=False)
class _Lane:
    """Room for questions of one kind, in one event loop.

    Those who wait stand in a line for each address that they come from.  The lines take turns, and whose turn it is in
    a line is left to chance: who makes keys up shuts out neither others nor those behind the same proxy.
    """

    threads: anyio.CapacityLimiter = field(factory=lambda: anyio.CapacityLimiter(KEY_LOOKUPS))
    """A thread that hangs in the host's function keeps its place."""

    _free: int = field(init=False, default=KEY_LOOKUPS)
    _lines: OrderedDict[str, list[_Waiter]] = field(init=False, factory=OrderedDict)
    _waiting: int = field(init=False, default=0)

    @asynccontextmanager
    async def place(self, peer: str) -> AsyncIterator[None]:
        """Wait for a place, and hold it.

        Raises:
            KeysUnavailable: Too many wait.
        """
        if self._free:
            self._free -= 1
        else:
            await self._wait(peer)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, peer: str) -> None:
        if self._waiting >= KEY_LOOKUPS_WAITING:
            longest = max(self._lines, key=lambda each: len(self._lines[each]))
            self._next(longest, dropped=True)
        waiter = _Waiter()
        self._lines.setdefault(peer, []).append(waiter)
        self._waiting += 1
        try:
            await waiter.turn.wait()
        except BaseException:
            if not waiter.turn.is_set():
                self._lines[peer].remove(waiter)
                self._left(peer)
            elif not waiter.dropped:
                self._pass_on()
            raise
        if waiter.dropped:
            raise busy()

    def _pass_on(self) -> None:
        """Give the place to who is next."""
        if self._lines:
            peer = next(iter(self._lines))
            self._lines.move_to_end(peer)
            self._next(peer, dropped=False)
        else:
            self._free += 1

    def _next(self, peer: str, *, dropped: bool) -> None:
        """Let one of a line go."""
        line = self._lines[peer]
        waiter = line.pop(randrange(len(line)))
        waiter.dropped = dropped
        waiter.turn.set()
        self._left(peer)

    def _left(self, peer: str) -> None:
        self._waiting -= 1
        if not self._lines[peer]:
            del self._lines[peer]


def busy() -> KeysUnavailable:
    """The error of a question that is not going to be asked."""
    return KeysUnavailable(
        "too many clients are being looked up at present; try again later", code="keys.busy", retry_after=_RETRY_AFTER
    )


@define(eq=False)
class _Question:
    """A question that is under way, and those who wait for its answer."""

    answered: anyio.Event = field(init=False, factory=anyio.Event)
    found: tuple[Client | None] | None = field(init=False, default=None)
    error: KeysUnavailable | None = field(init=False, default=None)
    """With neither, who asked has left."""


@define(eq=False)
class _Here:
    """What goes on in one event loop."""

    questions: dict[str, _Question] = field(factory=dict)
    strangers: _Lane = field(factory=_Lane)
    acquaintances: _Lane = field(factory=_Lane)
    """Those who were known when they were last asked about: they need not wait behind keys that somebody makes up."""


@define(eq=False)
class _Memory:
    """What the host has said, by a name, and when it was asked; the oldest makes room."""

    _most: int
    _kept: OrderedDict[str, tuple[float, Client | None]] = field(init=False, factory=OrderedDict)

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def get(self, name: str) -> tuple[float, Client | None] | None:
        """Time and client."""
        return self._kept.get(name)

    def keep(self, name: str, at: float, client: Client | None) -> None:
        """Remember what was said when it was asked *at*."""
        self._kept[name] = at, client
        self._kept.move_to_end(name)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def forget(self, name: str) -> None:
        """Remember nothing of it."""
        self._kept.pop(name, None)


@define(eq=False)
class ClientTable:
    """Asks the host.  Event loops in several threads may share it."""

    _find: Find
    _completed: Callable[[Client], Client]
    """Gives a client the limits of the settings where it has none of its own."""

    _ttl: float
    _timeout: float
    _clock: Callable[[], float]
    _here: PerLoop[_Here] = field(init=False, factory=lambda: PerLoop(_Here), repr=False)
    _known: _Memory = field(init=False, factory=partial(_Memory, KNOWN_KEYS), repr=False)
    _unknown: _Memory = field(init=False, factory=partial(_Memory, UNKNOWN_KEYS), repr=False)
    _guard: Lock = field(init=False, factory=Lock, repr=False)
    is_failing: bool = field(init=False, default=False)
    """Whether the host failed when it was asked last."""

    async def client(self, shown: Presented, peer: str = "") -> Client | None:
        """The client that shows this, from the address *peer*; ``None`` where the host knows none.

        Raises:
            KeysUnavailable: The host could not say.
        """
        name, questions = shown.hash if shown.key else f"user:{shown.user}", self._here.here().questions
        while True:
            if (found := self._remembered(name)) is not None:
                return found[0]
            if (question := questions.get(name)) is None:
                return await self._answered(name, shown, peer)
            await question.answered.wait()
            if question.error is not None:
                raise _copied(question.error)
            if question.found is not None:
                return question.found[0]

    def _remembered(self, name: str) -> tuple[Client | None] | None:
        """The client, as far as what the host said still holds; ``None`` where it is to be asked."""
        now = self._clock()
        with self._guard:
            for memory in (self._known, self._unknown):
                if (said := memory.get(name)) is not None and now - said[0] < self._ttl:
                    return (said[1],)
        return None

    async def _answered(self, name: str, shown: Presented, peer: str) -> Client | None:
        """Ask for all who wait."""
        here = self._here.here()
        question = here.questions[name] = _Question()
        try:
            lane = here.acquaintances if name in self._known else here.strangers
            client = await self._asked(lane, name, shown, peer)
            question.found = (client,)
        except KeysUnavailable as error:
            question.error = _copied(error)
            raise
        finally:
            del here.questions[name]
            question.answered.set()
        return client

    async def _asked(self, lane: _Lane, name: str, shown: Presented, peer: str) -> Client | None:
        is_asked = False
        with anyio.move_on_after(self._timeout):
            async with lane.place(peer):
                at, is_asked = self._clock(), True
                try:
                    client = await self._said(lane, shown)
                except Exception as error:
                    raise self._failed(error, "keys.fault") from error
                with self._guard:
                    remembered, other = (self._unknown, self._known) if client is None else (self._known, self._unknown)
                    remembered.keep(name, at, client)
                    other.forget(name)
                self._note(None)
                return client
        if not is_asked:
            raise busy()
        late = TimeoutError(f"nothing was said within {self._timeout:g} s (client.keys_timeout)")
        raise self._failed(late, "keys.timeout")

    async def _said(self, lane: _Lane, shown: Presented) -> Client | None:
        """What the host says.

        Raises:
            Exception: The host's own.
            TypeError: That is no client.
        """
        if is_async(self._find):
            said: Any = self._find(shown)
        else:
            work = partial(_called, self._find, shown)
            [said] = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=lane.threads)
        if isawaitable(said):
            said = await said
        if said is not None and not isinstance(said, Client):
            raise TypeError(f"create_app(keys=…) gave {type(said).__name__}; give a kiro_asgi.Client, or None")
        return None if said is None else self._completed(said)

    def _failed(self, error: Exception, code: str) -> KeysUnavailable:
        self._note(error)
        return KeysUnavailable(
            "the application that this gateway is part of cannot say whose this is; try again later",
            code=code,
            retry_after=_RETRY_AFTER,
        )

    def _note(self, error: Exception | None) -> None:
        """Log when the host fails, with the first of its errors, and when it does not any more."""
        if self.is_failing is (error is None):
            self.is_failing = error is not None
            if error is None:
                _log.warning("the host says again whose keys are shown")
            else:
                _log.error(
                    "the host cannot say whose keys are shown, and clients get 503 until it can: create_app(keys=…) "
                    "raised %s",
                    type(error).__name__,
                    exc_info=error,
                )


def _copied(error: KeysUnavailable) -> KeysUnavailable:
    """The same for another who waited: an error that is raised in several tasks would gather the frames of all."""
    return KeysUnavailable(error.message, code=error.code, retry_after=error.retry_after)


def _called(find: Find, shown: Presented) -> list[object]:
    """What *find* gives, in a list: trio lets no thread give what is to be awaited."""
    with fresh_connections():
        return [find(shown)]


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Close Django's connections to databases that are too old, before and after, as it does around each request."""
    database, conf = sys.modules.get("django.db"), sys.modules.get("django.conf")
    if database is None or conf is None or not conf.settings.configured:
        yield
        return
    database.close_old_connections()
    try:
        yield
    finally:
        database.close_old_connections()
