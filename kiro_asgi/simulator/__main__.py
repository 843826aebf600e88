"""``python -m kiro_asgi.simulator --port 9999``: the simulated service alone, until interrupted."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

import anyio

from kiro_asgi.simulator.markers import markers_as_markdown
from kiro_asgi.simulator.server import serve


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kiro_asgi.simulator", description="A Kiro service that needs no credential."
    )
    parser.add_argument(
        "--port", type=int, default=9999, help="port on 127.0.0.1; 0 takes a free one (default: %(default)s)"
    )
    parser.add_argument("--pace", type=float, default=0.02, help="seconds between events (default: %(default)s)")
    parser.add_argument("--lenient", action="store_true", help="do not check requests")
    parser.add_argument("--markers", action="store_true", help="print the table of markers and stop")
    return parser


async def _run(port: int, pace: float, strict: bool) -> None:
    async with serve(port, pace=pace, strict=strict, keep=0) as simulator:
        print(simulator.url, flush=True)
        await anyio.sleep_forever()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until interrupted; return the exit status."""
    asked = _parser().parse_args(arguments)
    if asked.markers:
        sys.stdout.write(markers_as_markdown())
        return 0
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(_run, asked.port, asked.pace, not asked.lenient)
    return 0


if __name__ == "__main__":
    sys.exit(main())
