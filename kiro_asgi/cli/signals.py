"""Signals of the serving process, which reads its settings anew at SIGHUP, and ends step by step at SIGTERM and SIGINT.

At SIGTERM the gateway is not ready any more, and serves on for a while, so that load balancers can notice.  Then
nothing new is accepted, and open answers have their time.  SIGINT comes from a user who waits: it skips the first step.
Each further one of them skips a step.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from logging import getLogger
from pathlib import Path
from threading import Thread
from typing import Any, Final, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup
from attrs import define, field, frozen

from kiro_asgi.asgi.door.app import App
from kiro_asgi.asgi.door.parts import Additions, Internals
from kiro_asgi.asgi.exchange.providers import new_store, state_of
from kiro_asgi.asgi.protocol import Lifespan
from kiro_asgi.asgi.siblings import Siblings
from kiro_asgi.cli.standalone import LINGER
from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import families, lasting_values
from kiro_asgi.config.reading import CONFIG_VARIABLE
from kiro_asgi.create import new_app
from kiro_asgi.errors import ConfigError
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.observers.base import Observer
from kiro_asgi.state.base import Store

ORDERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that are handled."""

Stopped = Callable[[], Awaitable[None]]
"""Returns when nothing new is to be accepted."""


class Drainable(Protocol):
    """A gateway that signals act on."""

    def drain(self) -> None:
        """Report as not ready from now on."""
        ...

    async def reload(self) -> None:
        """Read the settings anew, and return when no call uses the old ones."""
        ...


@frozen
class DrainTimes:
    """Seconds for each step of the end."""

    drain_delay: float
    """Not ready, and still serving."""

    graceful_timeout: float
    """For open answers, with nothing new."""


async def until_signalled(
    orders: AsyncIterator[signal.Signals],
    gateway: Drainable,
    ending: DrainTimes,
    serve: Callable[[Stopped], Awaitable[None]],
) -> None:
    """Run *serve*, with a function that waits for the stop, and obey *orders* meanwhile."""
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_obey, orders, gateway, ending, stop, tasks)
        await serve(stop.wait)
        tasks.cancel_scope.cancel()


async def _obey(
    orders: AsyncIterator[signal.Signals], gateway: Drainable, ending: DrainTimes, stop: anyio.Event, tasks: TaskGroup
) -> None:
    first = await _next_end(orders, gateway, tasks)
    gateway.drain()
    if first is not signal.SIGINT:
        with anyio.move_on_after(ending.drain_delay):
            await _next_end(orders, gateway, tasks)
    stop.set()
    with anyio.move_on_after(ending.graceful_timeout + 2 * LINGER):
        await _next_end(orders, gateway, tasks)
    tasks.cancel_scope.cancel()


async def _next_end(orders: AsyncIterator[signal.Signals], gateway: Drainable, tasks: TaskGroup) -> signal.Signals:
    """The next order to end; orders to read the settings anew are obeyed meanwhile."""
    while (order := await anext(orders)) is signal.SIGHUP:
        tasks.start_soon(gateway.reload)
    return order


_log = getLogger("kiro_asgi")


def log_kept(error: ConfigError) -> None:
    """Log that the settings stay as they were, and why the new ones cannot work."""
    _log.error("the settings stay as they were; the new ones cannot work: %s", "; ".join(error.reasons))


T = TypeVar("T")

_RELOAD_SECONDS: Final = 30.0
"""Seconds that reading the settings anew may take, with the files that they name."""

_POLL: Final = 0.02

_MOST_NAMED: Final = 10
"""Settings and tables that one line names of each kind."""

_CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"
"""Variable in which systemd says where it has put what ``LoadCredential=`` names."""


def log_taken_over(old: Settings, new: Settings) -> None:
    """Log what *new* settings have changed, without any value: whoever sent SIGHUP wants to know."""
    if changes := "; ".join(_changes(old, new)):
        _log.warning("the settings were read anew: %s", changes)
    else:
        _log.warning("the settings were read anew, and nothing in them has changed%s", _frozen(os.environ))


def log_nothing(old: Settings, new: Settings) -> None:
    """Log nothing: another process says it."""


def _frozen(environ: Mapping[str, str]) -> str:
    """Why nothing ever changes in a file that systemd has handed over; empty for any other file."""
    folder, file = environ.get(_CREDENTIALS, ""), environ.get(CONFIG_VARIABLE, "")
    if not folder or not file or not Path(file).is_relative_to(folder):
        return ""
    return (
        f": {file} is a copy that systemd made when the service started (LoadCredential=); restart the service, or "
        f"have {CONFIG_VARIABLE} name a file that the service itself may read"
    )


def _changes(old: Settings, new: Settings) -> Iterator[str]:
    """Tables of families that are new, gone or different, and the paths of other settings that are."""
    for family in families(type(new)):
        before, after = getattr(old, family, {}), getattr(new, family)
        both = before.keys() & after.keys()
        for words, names in (
            ("added", after.keys() - both),
            ("removed", before.keys() - both),
            ("changed", {name for name in both if before[name] != after[name]}),
        ):
            if names:
                yield f"{family} {words}: {_listed(sorted(names))}"
    was, now = lasting_values(old), lasting_values(new)
    if others := sorted(path for path in {**was, **now} if was.get(path) != now.get(path)):
        yield f"changed: {_listed(others)}"


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


async def _in_daemon(work: Callable[[], T]) -> T:
    """The result of *work*, in a thread that nobody waits for at the end: a file may be on a mount that hangs.

    Raises:
        ConfigError: It takes too long.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)

    Thread(target=run, name="kiro-asgi reload", daemon=True).start()
    with anyio.move_on_after(_RELOAD_SECONDS):
        while not done.done():  # noqa: ASYNC110 - a thread that hangs sets no event
            await anyio.sleep(_POLL)
        return done.result()
    raise ConfigError(
        f"reading them, and the files that they name, takes longer than {_RELOAD_SECONDS:g} s: is one on a mount that "
        "hangs?",
        code="config.slow",
    )


@define(eq=False)
class Reloadable:
    """An application with the latest settings that can work; calls go on with those that they began with.

    State between requests stays, unless ``state`` itself has changed.  What is learnt, such as credentials that rest
    and lists of models, begins anew, and so do quotas that are counted in memory.

    Raises:
        ConfigError: No gateway can work with the settings.
    """

    _settings: Settings
    _read: Callable[[], Settings]
    _observers: tuple[Observer, ...]
    """Of all applications, one after the other."""

    _siblings: Siblings = Siblings()  # noqa: RUF009 - a frozen value
    _tell: Callable[[Settings, Settings], None] = log_taken_over
    """Told the old settings and the new ones, once those are in use."""

    _app: App = field(init=False)
    _store: Store = field(init=False)
    _retiring: list[App] = field(init=False, factory=list)
    """Replaced applications that have calls under way."""

    _draining: bool = field(init=False, default=False)
    _reading: anyio.Lock = field(init=False, factory=anyio.Lock)

    def __attrs_post_init__(self) -> None:
        self._store = new_store(self._settings, Clocks())
        self._app = self._new_app(self._settings, self._store)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection scope."""
        if scope["type"] == "lifespan":
            await self._app.check_state()
            await Lifespan(self.aclose).run((), receive, send)
        else:
            await self._app(scope, receive, send)

    async def reload(self) -> None:
        """Read the settings anew, and return when no call uses the old ones.

        Where the new ones cannot work the old ones stay, and the log has the reason.
        """
        async with self._reading:
            try:
                settings = await _in_daemon(self._read)
                same = state_of(settings) == state_of(self._settings)
                store = self._store if same else new_store(settings, Clocks())
                app = await _in_daemon(partial(self._new_app, settings, store))
            except ConfigError as error:
                log_kept(error)
                return
            before = self._settings
            old, self._app, self._settings, self._store = self._app, app, settings, store
            self._retiring.append(old)
            if self._draining:
                app.drain()
            await _in_daemon(partial(self._tell, before, settings))
        old.drain()  # else an open WebSocket would hold it for an hour
        await old.idle()
        self._retiring.remove(old)
        await old.aclose()

    def _new_app(self, settings: Settings, store: Store) -> App:
        additions = Additions(store=store, observers=tuple(self._observers), siblings=self._siblings)
        # On the network in any case: a simulated service of this command is behind a socket, too.
        return new_app(settings, additions, Internals())

    def drain(self) -> None:
        """Report as not ready from now on."""
        self._draining = True
        self._app.drain()

    def interrupt(self) -> None:
        """End every call under way."""
        for app in self._all():
            app.interrupt()

    def is_busy(self) -> bool:
        """Whether many answers are under way."""
        return any(app.is_busy for app in self._all())

    async def aclose(self) -> None:
        """Close all applications."""
        for app in self._all():
            await app.aclose()

    def _all(self) -> Iterator[App]:
        return iter((self._app, *self._retiring))
