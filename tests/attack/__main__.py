"""Run every row of the attack, print what was noticed, and say whether it held.

A row of which nothing is wrong but that healthy clients waited is run again, twice at most: another process may have
had the cores.  What is wrong with the gateway happens every time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import define, field, frozen

from tests.attack import connections, embeddings, keys, others, paid, stored, values  # noqa: F401 - they add rows
from tests.attack.client import Client
from tests.attack.gateway import GATEWAYS, Gateway, Services, go_first, run, services
from tests.attack.healthy import Noticed
from tests.attack.rows import ROWS, Attack, Row
from tests.attack.shapes import MIB
from tests.unexpected import first_bug

STREAM: Final = 0.25
"""Seconds that a healthy stream may at most stand still."""

PATIENCE: Final = 5.0
"""Seconds after a row within which ``/health`` must answer, or the process counts as stopped."""

LEFT: Final = 64 * MIB
"""Bytes that may stay when a row is over."""

SETTLING: Final = 3.0
"""Seconds after which it is, with all that it left on the way."""

ATTEMPTS: Final = 3

HEADING: Final = f"{'row':<25}  stream  health   asked   own    peak    left  (ms, ms, ms, ms, MiB, MiB)"


@frozen
class Result:
    """What came of one row."""

    row: Row
    came: str
    noticed: Noticed
    peak: int
    """Bytes above the start, at most."""

    left: int
    """Bytes above the start, at the end."""

    complaints: tuple[str, ...]
    stopped: bool
    """Whether ``/health`` gives no answer any more."""

    @property
    def late(self) -> tuple[str, ...]:
        """What the healthy clients had to wait for."""
        stream, health = self.noticed.stream, self.noticed.health
        return (
            *([f"the stream stood still for {stream * 1000:.0f} ms"] if stream >= STREAM else ()),
            *([f"/health took {health * 1000:.0f} ms"] if health >= self.row.health else ()),
        )

    @property
    def wrong(self) -> tuple[str, ...]:
        """All that did not hold."""
        stopped = ["THE PROCESS STANDS STILL"] if self.stopped else []
        return (*stopped, *self.complaints, *(self.late if self.row.beside else ()))

    def __str__(self) -> str:
        times = (self.noticed.stream, self.noticed.health, self.noticed.asked)
        columns = f"{' '.join(f'{1000 * each:7.0f}' for each in times)} {1000 * self.noticed.own:5.0f}"
        memory = f"{self.peak / MIB:7.0f} {self.left / MIB:7.0f}"
        verdict = "; ".join(self.wrong) or "held"
        return f"{self.row.name:<25} {columns} {memory}  {verdict}\n    {self.row.sends} -> {self.came}"


async def _settled(gateway: Gateway) -> bool:
    """Wait until ``/health`` answers; whether it does."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(PATIENCE):
            return (await Client(gateway.port).get("/health")).status == 200
    return False


async def _left(gateway: Gateway) -> int:
    """Bytes above the start that stay."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLING):
            while gateway.memory() - gateway.start >= LEFT:  # noqa: ASYNC110 - a process
                await asyncio.sleep(0.1)
    return gateway.memory() - gateway.start


async def _warm_up(gateway: Gateway) -> None:
    """Let caches and pools grow to what is normal, and the healthy clients begin."""
    client = Client(gateway.port)
    async with asyncio.timeout(20):
        for api in ("chat", "messages", "responses"):
            for model in ("kiro/claude-sonnet-4.5", "hostile/m"):
                for stream in (True, False):
                    for _ in range(5):
                        await client.ask(api, "attack:words", model=model, stream=stream)
    await asyncio.sleep(0.5)
    gateway.start = gateway.memory()


async def _attack(row: Row, gateway: Gateway) -> Result:
    attack = Attack(gateway)
    logged = len(gateway.log())
    before = gateway.memory() - gateway.start
    gateway.forget_peak()
    gateway.noticed()
    try:
        async with asyncio.timeout(row.seconds):
            await row.run(attack)
    except TimeoutError:
        attack.want(False, f"not over after {row.seconds:.0f} s")
    except (OSError, ValueError, LookupError) as error:
        attack.want(False, f"{type(error).__name__}: {error}")
    peak = max(gateway.memory("VmHWM") - gateway.start, 0)
    stopped = row.beside and not await _settled(gateway)
    noticed = gateway.noticed()
    for failure in noticed.failures if row.beside and not row.refuses else ():
        attack.want(False, f"a healthy client: {failure}")
    if peak - before >= row.growth:  # what was there before is another row's
        attack.want(False, f"{peak / MIB:.0f} MiB more")
    if bug := first_bug(gateway.log()[logged:]):
        attack.want(False, f"a bug in its log: {bug}")
    came = "; ".join(f"{count} x {what}" if count > 1 else what for what, count in attack.seen.items())
    left = await _left(gateway)
    if left >= LEFT and left - before >= 8 * MIB:
        attack.want(False, f"{left / MIB:.0f} MiB stay")
    return Result(row, came or "nothing", noticed, peak, left, tuple(attack.complaints), stopped)


@define
class Runner:
    """Runs rows, each on its gateway, which is started anew where one did not survive."""

    loop: str
    behind: Services
    folder: Path
    results: list[Result] = field(factory=list)

    def run(self, rows: Sequence[Row]) -> None:
        """Run *rows*, those of one gateway after another."""
        for name in GATEWAYS:
            waiting = [row for row in rows if row.gateway == name]
            while waiting:
                waiting = self._rows(name, waiting)

    def _rows(self, name: str, rows: list[Row]) -> list[Row]:
        """Run *rows* on one gateway; those that are left when it has to be replaced."""
        folder = self.folder / f"{name}-{len(self.results)}"
        folder.mkdir()
        with run(GATEWAYS[name], self.behind, self.loop, folder) as gateway:
            asyncio.run(_warm_up(gateway))
            for number, row in enumerate(rows, 1):
                result = self._result(row, gateway)
                self.results.append(result)
                print(result, flush=True)
                if result.stopped:
                    return rows[number:]
        return []

    def _result(self, row: Row, gateway: Gateway) -> Result:
        results = [asyncio.run(_attack(row, gateway))]
        while results[-1].wrong and results[-1].wrong == results[-1].late and len(results) < ATTEMPTS:
            results.append(asyncio.run(_attack(row, gateway)))
        return results[-1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0 where everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows to run (default: all)")
    parser.add_argument("--trio", action="store_true", help="the gateway runs on trio instead of asyncio")
    parser.add_argument("--list", action="store_true", help="name the rows, and stop")
    parser.add_argument("--first", action="store_true", help="what is measured gets the cores first; takes root")
    asked = parser.parse_args(arguments)
    if asked.list:
        print("\n".join(f"{row.name:<25} {row.sends} -> {row.wants}" for row in ROWS))
        return 0
    rows = [row for row in ROWS if not asked.rows or row.name in asked.rows]
    began = time.monotonic()
    with TemporaryDirectory() as folder, services(*([go_first] if asked.first else [])) as behind:
        runner = Runner("trio" if asked.trio else "asyncio", behind, Path(folder))
        print(HEADING)
        runner.run(rows)
    return _verdict(runner.results, time.monotonic() - began)


def _verdict(results: Sequence[Result], seconds: float) -> int:
    broken = [result.row.name for result in results if result.wrong]
    beside = [result.noticed for result in results if result.row.beside]
    stream, health = (max((getattr(each, name) for each in beside), default=0) for name in ("stream", "health"))
    peak = max((result.peak for result in results), default=0)
    print(f"\n{len(results) - len(broken)} of {len(results)} rows held in {seconds:.0f} s; ", end="")
    print(f"worst: stream {stream * 1000:.0f} ms, /health {health * 1000:.0f} ms, {peak / MIB:.0f} MiB more")
    print(f"broken: {', '.join(broken)}" if broken else "everything held")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
