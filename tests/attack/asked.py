"""``python -m tests.attack.asked serve …``: the command, with a host's function for keys that takes 0.2 s."""

from __future__ import annotations

import sys
from typing import Any

import anyio
from attrs import evolve

from kiro_asgi import Client, Presented
from kiro_asgi.cli import main, signals


async def _find(shown: Presented) -> Client | None:
    await anyio.sleep(0.2)
    return Client(name=shown.key) if shown.key.startswith("known-") else None


def _asked(new_app: Any) -> Any:
    def make(settings: Any, additions: Any, internals: Any) -> Any:
        return new_app(settings, evolve(additions, keys=_find), internals)

    return make


if __name__ == "__main__":
    signals.new_app = _asked(signals.new_app)
    sys.exit(main())
