"""A gateway in front of a server that speaks all three formats, so that it is three upstreams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.processes import serving
from tests.conformance.gateways import KEY, Gateway

__all__ = ["fronting"]


@contextmanager
def fronting(name: str, base: str, key: str, folder: Path) -> Iterator[Gateway]:
    """Run ``kiro-asgi serve`` until the end of the block, which has to be a clean one.

    The server at *base* is the custom upstream *name*, which is asked first, and ``anthropic`` and ``gemini``.
    """
    settings = {
        "KIRO_ASGI__CLIENT__API_KEYS": KEY,
        f"KIRO_ASGI__CUSTOM__{name.upper()}__ENDPOINT": f"{base}/v1",
        f"KIRO_ASGI__CUSTOM__{name.upper()}__API_KEY": key,
        "KIRO_ASGI__ANTHROPIC__ENDPOINT": base,
        "KIRO_ASGI__ANTHROPIC__API_KEY": key,
        "KIRO_ASGI__GEMINI__ENDPOINT": base,
        "KIRO_ASGI__GEMINI__API_KEY": key,
        "KIRO_ASGI__ROUTING__ORDER": name,
        "KIRO_ASGI__RETRY__ATTEMPTS": "1",
        "KIRO_ASGI__RETRY__REFUSED_BASE": "0",
        "KIRO_ASGI__RETRY__QUOTA_PROBE": "0",
        "KIRO_ASGI__RETRY__SUSPICION": "0",
    }
    with serving("--log-level", "error", cwd=folder, **settings) as server:
        yield Gateway(server.base)
        errors = server.stop()
        assert (server.process.returncode, errors) == (0, "")
