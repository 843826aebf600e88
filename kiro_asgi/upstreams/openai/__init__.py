"""OpenAI's APIs, as OpenAI itself and compatible services speak them."""

from __future__ import annotations

from typing import Final

from kiro_asgi.upstreams.manifest import Configured, Manifest
from kiro_asgi.upstreams.openai.settings import OpenAISettings
from kiro_asgi.upstreams.settings import Setup


def _make(configured: Configured[OpenAISettings]) -> Setup:
    from kiro_asgi.upstreams.openai.upstream import set_up

    return set_up(configured)


OPENAI: Final = Manifest(
    name="openai",
    title="OpenAI",
    settings=OpenAISettings,
    make=_make,
    probes=("gpt-4o-mini",),
    key_variables=("OPENAI_API_KEY",),
)
