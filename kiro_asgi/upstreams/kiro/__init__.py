"""The Kiro service (formerly Amazon Q Developer, CodeWhisperer): a streaming API of its own, with AWS endpoints."""

from __future__ import annotations

from typing import Final

from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.manifest import Configured, Manifest
from kiro_asgi.upstreams.settings import Setup


def _make(configured: Configured[KiroSettings]) -> Setup:
    from kiro_asgi.upstreams.kiro.upstream import set_up

    return set_up(configured)


KIRO: Final = Manifest(
    name="kiro",
    title="Kiro",
    settings=KiroSettings,
    make=_make,
    doctor="kiro_asgi.cli.kiro.doctor:KiroExamination",
    login="kiro_asgi.cli.kiro.login",
    probes=("claude-haiku-4.5", "auto"),
)
