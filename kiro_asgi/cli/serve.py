"""Run the gateway on its own, in front of the service or of a simulated one.

One line a fact goes to standard output when connections are accepted; logging goes to standard error.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import anyio
from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.door.auth import NO_CLIENT
from kiro_asgi.asgi.door.readiness import settings_to_serve, warn_of
from kiro_asgi.asgi.exchange.providers import is_closed, opened, set_apart, simulated
from kiro_asgi.asgi.siblings import Siblings
from kiro_asgi.cli import logs
from kiro_asgi.cli.lasting import state_folder, with_lasting_state
from kiro_asgi.cli.signals import (
    ORDERS,
    DrainTimes,
    Reloadable,
    log_kept,
    log_nothing,
    log_taken_over,
    until_signalled,
)
from kiro_asgi.cli.standalone import (
    LINGER,
    LOOPS,
    MAX_PORT,
    Server,
    bind,
    collect_after_load,
    freeze_objects,
    import_extra,
    limit_send_time,
    limit_unsent,
    resolve,
    return_large_blocks,
)
from kiro_asgi.cli.terminal import Tone, discard_output, printer_on
from kiro_asgi.cli.workers import Orders, Workers
from kiro_asgi.config import ClientSettings, Settings, read_environment
from kiro_asgi.config.leaves import ENV_PREFIX
from kiro_asgi.config.reading import CONFIG_VARIABLE
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.manifest import served
from kiro_asgi.errors import ConfigError
from kiro_asgi.extension import ExtensionManifest, enabled_in
from kiro_asgi.observers.base import Observer, ObserverManifest
from kiro_asgi.stages.base import StageManifest
from kiro_asgi.state.base import StoreManifest
from kiro_asgi.tapes import load_tapes
from kiro_asgi.upstreams.manifest import set_up

if TYPE_CHECKING:
    from kiro_asgi.replay.service import TapeService

_DAY: Final = 86_400
MAX_WORKERS: Final = 256

_log = logging.getLogger("kiro_asgi")

MULTIPROCESS_DIR: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Variable with the folder for metrics of several processes; as in `kiro_asgi.observers.prometheus`, an extra."""

SWITCH: Final = 0.0005
"""Seconds after which a thread with a long computation yields the interpreter to the event loop, which needs it after
each system call; Python's default of 5 ms adds up to 150 ms for one request."""

LOG_FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error", "critical")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", default=8000, type=_port, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--simulate", action="store_true", help="answer from a simulated service; needs no account")
    parser.add_argument(
        "--tapes", type=Path, metavar="DIR", help="with --simulate: answer requests that are on the tapes there"
    )
    parser.add_argument(
        "--tape-speed", default=1.0, type=float, metavar="X", help="with --tapes: 1 as recorded (default), 0 at once"
    )
    parser.add_argument(
        "--root-path", default="", metavar="PATH", help="prefix below which a proxy serves us, e.g. /llm"
    )
    parser.add_argument("--loop", choices=LOOPS, default="asyncio", help="event loop (default: %(default)s)")
    parser.add_argument(
        "--graceful-timeout", default=30.0, type=_seconds, metavar="SECONDS", help="for open streams at the end"
    )
    parser.add_argument(
        "--drain-delay",
        default=5.0,
        type=_seconds,
        metavar="SECONDS",
        help="serve on after SIGTERM, while /ready reports not ready (default: %(default)s)",
    )
    parser.add_argument("--workers", default=1, type=_workers, metavar="N", help="processes (default: %(default)s)")
    parser.add_argument("--log-level", choices=LEVELS, default="warning", help="(default: %(default)s)")
    parser.add_argument(
        "--log-format", choices=LOG_FORMATS, default="text", help="of every line (default: %(default)s)"
    )
    parser.add_argument(
        "--metrics-listen", type=_address, metavar="[HOST:]PORT", help="where to serve /metrics for Prometheus"
    )
    parser.add_argument("--opentelemetry", action="store_true", help="make traces and metrics for its SDK")
    parser.add_argument(
        "--inspect",
        nargs="?",
        const="full",
        choices=("none", "masked", "full"),
        metavar="CONTENT",
        help="serve a page that shows calls as they happen, and print a link to it; CONTENT is how much of prompts"
        " and answers is kept for it: full (default), masked or none",
    )
    parser.add_argument(
        "--access-log",
        action=argparse.BooleanOptionalAction,
        help="one line a request on standard error (default: where that is a terminal)",
    )
    add_config(parser)


def _address(text: str) -> tuple[str, int]:
    """A host, this machine if it is left out, and a port."""
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", _port(port)


def _port(text: str) -> int:
    """A TCP port; without this check the system would take the number modulo 65,536."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_PORT)) or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"must be from 0 to {MAX_PORT}, not {text[:40]!r}")
    return int(text)


def _workers(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_WORKERS:
        raise argparse.ArgumentTypeError(f"must be from 1 to {MAX_WORKERS}, not {text[:40]!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _DAY:
        raise argparse.ArgumentTypeError(f"must be from 0 to {_DAY} seconds, not {text[:40]!r}")
    return seconds


def add_config(parser: argparse.ArgumentParser) -> None:
    """Declare ``--config``, which is put into the environment before a command runs."""
    parser.add_argument("--config", metavar="FILE", help=f"TOML file with settings (also: {CONFIG_VARIABLE})")


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Serve until SIGINT or SIGTERM."""
    watched = sys.stderr.isatty() if arguments.access_log is None else arguments.access_log
    logs.configure(arguments.log_level, arguments.log_format, watched)
    environ = dict(environ)  # what is read anew may need a change of its own
    resolve(arguments.host)  # before anything is said about who may connect there
    reading = read_environment(Settings, environ)
    simulate = arguments.simulate or reading.values.get("simulate", False)
    if simulate:
        warn_of(reading)
    read: Callable[[], Settings] = partial(Settings.from_env if simulate else _settings, environ)
    read = partial(_read_served, read)
    several = arguments.workers > 1
    tapes = _tapes(arguments.tapes, arguments.tape_speed, simulate)
    with ExitStack() as stack:
        if several and arguments.metrics_listen and not environ.get(MULTIPROCESS_DIR):
            os.environ[MULTIPROCESS_DIR] = stack.enter_context(TemporaryDirectory(prefix="kiro-asgi-metrics-"))
        if simulate:
            read = partial(_read_apart, read)
            if several:
                folder = stack.enter_context(TemporaryDirectory(prefix="kiro-asgi-state-"))
                read = partial(_read_lasting, read, Path(folder))
        else:
            read = partial(_read_lasting, read, state_folder(environ))
        if arguments.inspect:
            read = partial(_read_inspected, read, arguments.inspect, secrets.token_urlsafe(24), arguments.host)
            if "tapes.when" not in reading.values:
                read = partial(_read_noticed, read)
        settings = read()
        if simulate:
            _require_key(settings, arguments.host)
        server = Server(
            loop=arguments.loop,
            root_path="/" + arguments.root_path.strip("/") if arguments.root_path.strip("/") else "",
            graceful_timeout=arguments.graceful_timeout,
            # One that fills more than half of the room would find none even when it comes alone.
            frame_bytes=min(settings.responses.frame_bytes, settings.limits.body_bytes_in_flight // 2),
            frames_bytes=settings.limits.body_bytes_in_flight,
        )
        server.ready()
        # Each of several processes knows its own calls alone, and shows them at an address of its own.
        inspected = arguments.workers if several and settings.inspector.enabled else 0
        process = (partial(_SimulatedProcess, tapes=tapes) if simulate else _Process)(
            server,
            DrainTimes(arguments.drain_delay, arguments.graceful_timeout),
            _Watch(arguments.metrics_listen, arguments.opentelemetry, bool(arguments.inspect)),
            arguments.host,
            partial(_read_again, read, environ),
            settings,
            bind(arguments.host, arguments.port),
            [stack.enter_context(bind(arguments.host, 0)) for _ in range(inspected)],
        )
        sys.setswitchinterval(SWITCH)
        return_large_blocks()
        if several:
            work, reload, buried = process.work, process.reload, process.watch.forget
            return Workers(arguments.workers, process.listener, work, reload, buried).run(process.announce)
        anyio.run(process.serve_alone, backend=arguments.loop)
        return 0


def _tapes(folder: Path | None, speed: float, simulate: bool) -> TapeService | None:
    """Make the service that answers from the tapes in *folder*, if there is to be one.

    Raises:
        ConfigError: The options or the tapes cannot be used.
    """
    if folder is None:
        return None
    if not simulate:
        raise ConfigError("--tapes: works with a simulated service only; add --simulate", code="config.tapes")
    from kiro_asgi.replay.service import TapeService  # imports the simulator, which few need

    return TapeService.of(load_tapes(folder), max(0.0, speed))


_API_KEYS: Final = f"{ENV_PREFIX}CLIENT__API_KEYS"


def _settings(environ: Mapping[str, str]) -> Settings:
    try:
        settings = settings_to_serve(environ)
    except ConfigError as error:
        error.add_note("To try the gateway without an account or settings: kiro-asgi serve --simulate")
        raise
    if settings.simulate:  # at the start it leads to the other kind of process, so it is new in what is read anew
        raise ConfigError("simulate: takes effect at the start only; stop the gateway and start it", code="simulate")
    return settings


def _read_again(read: Callable[[], Settings], environ: dict[str, str]) -> Settings:
    """The settings for a gateway that runs; where no key is left in them, with one that nobody has.

    To refuse them would leave the key that was taken out good.
    """
    try:
        return read()
    except ConfigError as error:
        if error.reasons != (NO_CLIENT,):
            raise
    environ[_API_KEYS] = secrets.token_urlsafe(32)
    try:
        settings = read()
    finally:
        del environ[_API_KEYS]
    _log.error("no key is left in the settings, so every client is refused from now on; %s", NO_CLIENT)
    return settings


def _read_apart(read: Callable[[], Settings]) -> Settings:
    return set_apart(read())


def _read_lasting(read: Callable[[], Settings], folder: Path) -> Settings:
    return with_lasting_state(read(), folder)


def _read_served(read: Callable[[], Settings]) -> Settings:
    """The settings with a description of the APIs, unless it is off: nobody else has its path here."""
    settings = read()
    return evolve(settings, openapi="on") if settings.openapi == "auto" else settings


def _read_noticed(read: Callable[[], Settings]) -> Settings:
    """The settings with tapes of all that the inspector has something to say about."""
    settings = read()
    return evolve(settings, tapes=evolve(settings.tapes, when="noticed"))


def _read_inspected(read: Callable[[], Settings], content: str, secret: str, host: str) -> Settings:
    """The settings with an inspector of that *content*; *secret* is its secret unless they have one."""
    settings = read()
    given = settings.inspector
    hosts = given.hosts or (() if _is_loopback(host) or not host.strip("0.:") else (_in_url(host.lower()),))
    secret = given.secret or secret
    return evolve(
        settings,
        inspector=evolve(given, enabled=True, content=content, secret=secret, trust_host=False, hosts=hosts),
    )


def _require_key(settings: Settings, host: str) -> None:
    """Refuse to let in everyone who can reach *host*, though there is no quota to be spent: the machine's work is.

    Raises:
        ConfigError: Other machines can connect, and clients need no key.
    """
    if is_closed(settings) and not _is_loopback(host):
        raise ConfigError(
            f"--host {host}: other machines can connect there, so clients need a key, even of a simulated service: set "
            "KIRO_ASGI__CLIENT__API_KEYS, or KIRO_ASGI__CLIENT__ALLOW_ANONYMOUS=true to let everyone in; with --host "
            "127.0.0.1 no key is needed",
            code="no_client_auth",
        )


def _simulated(settings: Settings, url: str) -> Settings:
    """*settings* with the simulator at *url* as every service."""
    return evolve(opened(simulated(settings, url)), simulate=True)


@frozen
class _Watch:
    """Ways for an operator to observe the process, in addition to its log."""

    metrics: tuple[str, int] | None
    """Host and port where Prometheus is served, if it is."""

    opentelemetry: bool
    """Whether traces and metrics go to OpenTelemetry."""

    inspect: bool = False
    """Whether a link to the inspector is wanted."""

    shows: bool = True
    """Whether this process serves the metrics; one of several does."""

    def observers(self) -> Iterator[Observer]:
        """Make the observers of calls.

        Raises:
            ConfigError: A package that one needs is not installed.
        """
        if self.metrics is not None:
            yield import_extra(_PROMETHEUS, "metrics").PrometheusObserver()
        if self.opentelemetry:
            yield import_extra(_OPENTELEMETRY, "otel").OpenTelemetryObserver()

    def start(self) -> Iterator[tuple[str, str]]:
        """Serve the metrics, and yield what to announce.

        Raises:
            ConfigError: The address cannot be bound.
        """
        if self.metrics is not None and self.shows:
            host, port = self.metrics
            try:
                port = import_extra(_PROMETHEUS, "metrics").serve_metrics(host, port)
            except OSError as error:
                raise ConfigError(
                    f"cannot serve metrics on {host} port {port}: {error.strerror}", code="config.address"
                ) from error
            yield "Metrics", f"{_url(host, port)}/metrics"

    def forget(self, pid: int) -> None:
        """Take the calls that a dead process had under way out of the metrics of all."""
        if self.metrics is not None:
            import_extra(_PROMETHEUS, "metrics").forget_process(pid)


_EXTENSIONS: Final[Mapping[type[ExtensionManifest[Any]], str]] = MappingProxyType(
    {StageManifest: "Stages", StoreManifest: "Store", ObserverManifest: "Observers"}
)
"""Kind of what installed packages add to its name in the announcement."""

_PROMETHEUS: Final = "kiro_asgi.observers.prometheus"
_OPENTELEMETRY: Final = "kiro_asgi.observers.otel"


@define(eq=False)
class _Process:
    """A process that serves, with a socket that it may share with others."""

    server: Server
    ending: DrainTimes
    watch: _Watch
    host: str
    read: Callable[[], Settings]
    settings: Settings
    listener: socket.socket
    inspectors: list[socket.socket]
    """Where each of several processes shows its own calls, by its number."""

    number: int = field(init=False, default=0)
    """Of this process."""

    base: str = field(init=False)
    """URL of the gateway."""

    def __attrs_post_init__(self) -> None:
        self.base = _url(self.host, self.listener.getsockname()[1]) + self.server.root_path
        for each in (self.listener, *self.inspectors):
            limit_send_time(each, self.settings.limits.write_timeout + LINGER)
            limit_unsent(each)

    @property
    def siblings(self) -> Siblings:
        """The processes that share the port, and where the inspector of each is."""
        ports = [each.getsockname()[1] for each in self.inspectors]
        return Siblings(
            tuple(f"{_url(self.host, port)}{self.server.root_path}/inspector/" for port in ports), self.number
        )

    async def serve_alone(self) -> None:
        """Serve, and obey this process's signals."""
        with anyio.open_signal_receiver(*ORDERS) as orders:
            await self.serve(orders, self.watch, self.announce)

    def work(self, orders: Orders, number: int) -> None:
        """Serve as one of several processes, and obey the first one; number 0 serves the metrics of all."""
        watch = self.watch if number == 0 else evolve(self.watch, shows=False)
        self.number = number

        def started(*more: tuple[str, str]) -> None:
            for name, words in more:  # the first process has announced itself already, before any worker
                _log.info("%s: %s", name, words)
            orders.serving()

        anyio.run(self.serve, orders, watch, started, backend=self.server.loop)

    def _tell(self, old: Settings, new: Settings) -> None:
        """Log what was taken over: the first process does, for all."""
        (log_taken_over if self.number == 0 else log_nothing)(old, new)

    def reload(self) -> bool:
        """Read the settings anew, for processes that are started later; whether they can work."""
        try:
            self.settings = self.read()
        except ConfigError as error:
            log_kept(error)
            return False
        return True

    async def serve(self, orders: AsyncIterator[signal.Signals], watch: _Watch, started: Callable[..., None]) -> None:
        """Serve until an order to end; *started* is called when that begins, with more to announce."""
        gateway = Reloadable(self.settings, self.read, tuple(watch.observers()), self.siblings, self._tell)
        await self._serve(gateway, orders, watch, started)

    def announce(self, *more: tuple[str, str]) -> None:
        """Print what a client needs to know."""
        output = printer_on(sys.stdout, os.environ)
        try:
            for name, words in (*self._addresses(), *self._facts(), *self._inspector(), *more, *self._examples()):
                output.line((f"{name + ':':<20}", Tone.NAME), words, hang=20)
        except BrokenPipeError:
            discard_output()  # the reader has closed the pipe; serving goes on

    def _addresses(self) -> Iterator[tuple[str, str]]:
        """The base URL of each vendor's clients, and where the APIs are that packages have added."""
        yield from {f"{api.title.partition(' ')[0]} base_url": self.base + api.base for api in BUILTIN}.items()
        for api, _ in served(self.settings):
            yield api.title, self.base + (api.base or api.root)

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield from self._extensions()
        yield "Services", ", ".join(each.name for each in set_up(self.settings))

    def _extensions(self) -> Iterator[tuple[str, str]]:
        """Who may ask, and what installed packages have added."""
        yield "Client keys", _describe_keys(self.settings.client, len(self.settings.keys))
        for kind, name in _EXTENSIONS.items():
            if titles := ", ".join(manifest.title for manifest, _ in enabled_in(self.settings, kind)):
                yield name, titles

    def _inspector(self) -> Iterator[tuple[str, str]]:
        """The page's address; with ``--inspect`` a link with the secret in its fragment, which browsers do not send."""
        if (inspector := self.settings.inspector).enabled:
            token = f"#token={quote(inspector.secret)}" if self.watch.inspect else ""
            for number, url in enumerate(self.siblings.inspectors, start=1):
                yield f"Inspector {number}", f"{url}{token}"
            if not self.inspectors:
                yield "Inspector", f"{self.base}/inspector/{token}"
        else:
            yield "Look inside", "kiro-asgi serve --inspect shows each call in a browser, step by step"

    def _examples(self) -> Iterator[tuple[str, str]]:
        """What to do first."""
        if self.settings.start_page:
            yield "In a browser", f"{self.base}/"
        needs_key = bool(self.settings.client.api_keys or self.settings.keys)
        example = next(api for api in BUILTIN if api.example)
        yield "Try it", example.curl(self.base, self._model(), "YOUR-KEY" if needs_key else "")

    def _model(self) -> str:
        """A model that costs little, of the first service; what to put there, where none is known."""
        first = set_up(self.settings)[0]
        known = first.manifest.probes if first.path == first.manifest.name else ()
        return next(iter(known), "MODEL")

    async def _serve(
        self, gateway: Reloadable, orders: AsyncIterator[signal.Signals], watch: _Watch, started: Callable[..., None]
    ) -> None:
        freeze_objects()
        shown = tuple(watch.start())

        async def serve(stopped: Callable[[], Awaitable[None]]) -> None:
            started(*shown)
            async with anyio.create_task_group() as group:
                group.start_soon(collect_after_load, gateway.is_busy)
                await self.server.serve(
                    gateway, self.listener, stopped, *self.inspectors[self.number : self.number + 1]
                )
                group.cancel_scope.cancel()

        await until_signalled(orders, gateway, self.ending, serve)


@define(eq=False)
class _SimulatedProcess(_Process):
    """A process that serves in front of a simulated service of its own."""

    tapes: TapeService | None = field(kw_only=True)
    """Answers requests instead of the simulator, those for lists and tokens excepted."""

    _url: str = field(init=False, default="")
    """Of that service, where it runs in this process."""

    async def serve(self, orders: AsyncIterator[signal.Signals], watch: _Watch, started: Callable[..., None]) -> None:
        """Serve; the simulated service ends with the gateway."""
        from kiro_asgi import simulator  # 5 MiB that other commands do not need

        async with simulator.serve(port=0) as service:
            self._url = service.url
            service.answer_with(self.tapes)

            def read() -> Settings:
                settings = self.read()
                _require_key(settings, self.host)
                return _simulated(settings, service.url)

            settings = _simulated(self.settings, service.url)
            gateway = Reloadable(settings, read, tuple(watch.observers()), self.siblings, self._tell)
            await self._serve(gateway, orders, watch, started)

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield from self._extensions()
        yield "Service", f"simulated at {self._url}" if self._url else "simulated, one for each process"
        if self.tapes is None:
            yield "Marker words", "sim:tool, sim:thinking, sim:slow … in a question; kiro-asgi docs markers lists them"
        else:
            yield "Answers", f"those of {self.tapes.count} tapes, to the requests that are on them"


def _describe_keys(client: ClientSettings, named: int) -> str:
    ways = []
    if count := len(client.api_keys) + named:
        ways.append(f"{count} configured, one of them is needed")
    if client.trust_host:
        ways.append("the principal of the host's middleware is accepted")
    return "; ".join(ways) or "none needed, any text will do"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _url(host: str, port: int) -> str:
    return f"http://{_in_url(host)}:{port}"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
