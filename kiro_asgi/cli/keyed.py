"""Settings in which a made-up key stands for every credential."""

from __future__ import annotations

from typing import TypeVar

from attrs import evolve

from kiro_asgi.config import DirectSettings, Settings

__all__ = ["keyed"]

_Direct = TypeVar("_Direct", bound=DirectSettings)


def keyed(settings: Settings, key: str) -> Settings:
    """*settings* with *key* as the only credential of every service, so that each well-known one is set up."""
    kiro = evolve(
        settings.kiro,
        api_key=key,
        access_token="",
        profile_arn="",
        credentials_file="",
        credentials_command="",
        fallback_credentials_files=(),
    )
    return evolve(
        settings,
        kiro=kiro,
        anthropic=_keyed(settings.anthropic, key),
        gemini=_keyed(settings.gemini, key),
        openai=_keyed(settings.openai, key),
        custom={name: _keyed(service, key) for name, service in settings.custom.items()},
    )


def _keyed(service: _Direct, key: str) -> _Direct:
    return evolve(service, api_key=key, fallback_api_keys=())
