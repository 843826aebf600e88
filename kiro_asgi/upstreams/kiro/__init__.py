"""The Kiro service (formerly Amazon Q Developer, CodeWhisperer): a streaming API of its own, with AWS endpoints."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.manifest import Configured, Manifest
from kiro_asgi.upstreams.settings import Setup


def _make(configured: Configured[KiroSettings]) -> Setup:
    from kiro_asgi.upstreams.kiro.upstream import set_up

    return set_up(configured)


def _doctor() -> Callable[..., Any]:
    from kiro_asgi.upstreams.kiro.cli.doctor import KiroExamination

    return KiroExamination


def _login() -> ModuleType:
    from kiro_asgi.upstreams.kiro.cli import login

    return login


KIRO: Final = Manifest(
    name="kiro",
    title="Kiro",
    settings=KiroSettings,
    make=_make,
    doctor=_doctor,
    login=_login,
    probes=("claude-haiku-4.5", "auto"),
)
