"""This gateway beside its peers: one machine, one service, one client: ``python -m tests.bench.peers``.

Each is installed, started, and asked in turn, in several repetitions; then it is started anew with a limit to the
service's silence, for texts that are cut anywhere and for faults.  ``tox -e peers`` writes docs/reference/peers.toml.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.cli.standalone import bind
from tests.attack.gateway import go_first
from tests.bench.peers import load
from tests.bench.peers.client import Answer, Asked, told
from tests.bench.peers.gateways import GATEWAYS, Gateway, Installed, Started
from tests.bench.peers.measuring import MEASURES, PATIENCE, Load, figures, outcome, right, torn
from tests.bench.peers.processes import CORES, START, cpu, memory, running, serving
from tests.bench.peers.record import toml
from tests.bench.peers.scenarios import FAULTS, LIMIT, TEXTS
from tests.installing import room

ROOM: Final = "KIRO_ASGI_PEERS_ROOM"
"""The folder in which gateways are kept from run to run; unless set, where the machine has its temporary files."""

SETTLING: Final = 0.5
"""Seconds after a load within which what it has started has been done."""

WARM: Final = 20
"""Questions that are asked before anything is measured."""

DIRECT: Final = {"authorization": "Bearer x"}


@frozen
class Size:
    """How much is asked."""

    short: int
    burst: int
    paced: int
    streams: int
    repetitions: int


WHOLE: Final = Size(short=300, burst=24, paced=16, streams=500, repetitions=3)
BRIEF: Final = Size(short=20, burst=2, paced=2, streams=20, repetitions=1)


@define
class Peer:
    """A gateway that runs."""

    gateway: Gateway
    started: Started
    process: subprocess.Popen[bytes]
    seconds: float
    """From its start to its first answer."""

    idle: float = 0.0
    """MiB after that."""

    wrong: int = 0
    """Answers under load that were not whole, or not what the service said."""

    def asked(self, api: str) -> Asked:
        gateway = self.gateway
        headers = {
            **gateway.headers(self.started),
            **({"anthropic-version": "2023-06-01"} if api == "messages" else {}),
        }
        return Asked(self.started.port, api, gateway.model, headers)

    def measure(self, api: str, scenario: str, clients: int, each: int) -> Load:
        """Load it with *clients* that ask *each* times."""
        before = cpu(self.process.pid)
        answers = asyncio.run(load.at_once(self.asked(api), scenario, clients, each))
        time.sleep(SETTLING)
        self.wrong += sum(not right(api, scenario, answer) for answer in answers)
        return Load(answers, cpu(self.process.pid) - before)

    def streams(self, api: str, count: int) -> tuple[int, float]:
        """How many of *count* streams are open at once, and MiB with them."""

        async def opened() -> tuple[int, float]:
            async with load.held(self.asked(api), "open", count) as begun:
                return begun, memory(self.process.pid)

        return asyncio.run(opened())


@contextmanager
def _peer(gateway: Gateway, installed: Installed, folder: Path, service: int, limit: float | None) -> Iterator[Peer]:
    """Start one; entered at its first answer."""
    with bind("127.0.0.1", 0) as listener:
        port = int(listener.getsockname()[1])
    started = Started(port, f"http://127.0.0.1:{service}/v1", folder, limit)
    folder.mkdir(parents=True)
    command = [*installed.command, *gateway.arguments(started)]
    begin = time.monotonic()
    with running(command, folder, gateway.environ(started), CORES[0]) as process:
        peer = Peer(gateway, started, process, 0.0)
        api = gateway.apis[0]
        while not right(api, "short", _first(peer, api)):
            assert process.poll() is None, (folder / "log").read_text()[-3_000:]
            assert time.monotonic() - begin < START, (folder / "log").read_text()[-3_000:]
            time.sleep(0.02)
        peer.seconds = time.monotonic() - begin
        time.sleep(SETTLING)
        peer.idle = memory(process.pid)
        yield peer


def _first(peer: Peer, api: str) -> Answer:
    (answer,) = asyncio.run(load.in_turn(peer.asked(api), "short", 1))
    return answer


@define
class Run:
    """Everything that is measured."""

    size: Size
    installed: Mapping[str, Installed]
    service: int
    folder: Path
    found: dict[str, Any] = field(init=False, factory=dict)
    gaps: list[float] = field(init=False, factory=list)
    """ms, the longest between two events of the service itself, in each repetition."""

    loads: list[float] = field(init=False, factory=list)
    """The machine's load average at the beginning of each repetition, ours in it."""

    def run(self, gateways: Sequence[Gateway]) -> dict[str, Any]:
        """Figures and outcomes of each gateway, by name."""
        self.found = {
            each.name: {
                "title": each.title,
                "version": self.installed[each.name].version,
                "packages": self.installed[each.name].packages,
                "notes": list(each.notes),
                **{api: {measure: [] for measure in MEASURES} for api in each.apis},
            }
            for each in gateways
        }
        with ExitStack() as running:
            peers = [running.enter_context(self._start(each, "load")) for each in gateways]
            for peer in peers:
                self.found[peer.gateway.name].update(start=round(peer.seconds, 2), idle=round(peer.idle, 1))
            for repetition in range(self.size.repetitions):
                self.loads.append(os.getloadavg()[0])
                direct = asyncio.run(load.at_once(self._direct(), "paced", self.size.paced))
                self.gaps.append(max(told("chat", answer).gap for answer in direct) * 1_000)
                # Each is first in its turn: what the machine does otherwise is nobody's alone.
                for index in range(len(peers)):
                    self._figures(peers[(index + repetition) % len(peers)])
            for peer in peers:
                self._streams(peer)
                self.found[peer.gateway.name]["wrong"] = peer.wrong
        for gateway in gateways:
            with self._start(gateway, "faults", LIMIT) as peer:
                self._faults(peer)
        return self.found

    def _direct(self) -> Asked:
        """The service itself."""
        return Asked(self.service, "chat", "bench", DIRECT)

    def _start(self, gateway: Gateway, what: str, limit: float | None = None) -> Any:
        # LiteLLM imports from the folder above the one above it, which has to be ours.
        folder = self.folder / "runs" / "of" / f"{gateway.name}-{what}"
        return _peer(gateway, self.installed[gateway.name], folder, self.service, limit)

    def _figures(self, peer: Peer) -> None:
        """One repetition."""
        for api in peer.gateway.apis:
            cells = self.found[peer.gateway.name][api]
            asyncio.run(load.in_turn(peer.asked(api), "short", WARM))
            direct = asyncio.run(load.in_turn(self._direct(), "short", self.size.short))
            loads = {
                "short": peer.measure(api, "short", 1, self.size.short),
                "burst": peer.measure(api, "burst", 4, self.size.burst // 4 or 1),
                "paced": peer.measure(api, "paced", self.size.paced, 1),
            }
            for measure, value in figures(api, loads, direct).items():
                cells[measure].append(value)
            _say(peer, api, {measure: values[-1] for measure, values in cells.items() if values})

    def _streams(self, peer: Peer) -> None:
        for api in peer.gateway.apis:
            begun, size = peer.streams(api, self.size.streams)
            self.found[peer.gateway.name][api].update(opened=begun, open=[size])
            _say(peer, api, {"opened": begun, "open": size})

    def _faults(self, peer: Peer) -> None:
        for api in peer.gateway.apis:
            cells = self.found[peer.gateway.name][api]
            names = (*TEXTS, *FAULTS)
            answers = {name: asyncio.run(load.in_turn(peer.asked(api), name, 1, PATIENCE))[0] for name in names}
            cells["texts"] = {name: torn(api, name, answers[name]) or "right" for name in TEXTS}
            cells["faults"] = {name: outcome(api, answers[name]) for name in FAULTS}
            _say(peer, api, {**cells["texts"], **cells["faults"]})


def _say(peer: Peer, api: str, values: Mapping[str, Any]) -> None:
    words = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )
    print(f"{peer.gateway.title}, {api}: {words}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers")
    parser.add_argument("gateways", nargs="*", metavar="GATEWAY", help="those to measure (default: all)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write what was found to this file")
    parser.add_argument("--brief", action="store_true", help="ask little: whether everything works")
    parser.add_argument("--first", action="store_true", help="what is measured gets the cores first; takes root")
    asked = parser.parse_args(arguments)
    size = BRIEF if asked.brief else WHOLE
    gateways = [each for each in GATEWAYS if not asked.gateways or each.name in asked.gateways]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    installed = {each.name: each.install(room(ROOM)) for each in gateways}
    os.sched_setaffinity(0, {CORES[-1]})
    if asked.first:
        go_first()  # all that is started has it from us
    with TemporaryDirectory() as folder, serving(Path(folder, "service")) as service:
        run = Run(size, installed, service, Path(folder))
        found = run.run(gateways)
    about = {
        "date": datetime.now(UTC).date(),
        "python": platform.python_version(),
        "node": subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip("v\n"),
        "first": asked.first,
        "cores": len(CORES),
        "load": run.loads,
        "gap": run.gaps,
        "repetitions": size.repetitions,
        "streams": size.streams,
        "measures": {**MEASURES},
        "texts": {name: words for name, (words, _) in TEXTS.items()},
        "faults": {name: words for name, (words, _) in FAULTS.items()},
    }
    if asked.record:
        asked.record.write_text(toml({**about, "gateways": found}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
