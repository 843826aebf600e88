"""Amazon Bedrock: Converse for every family of models, and for Claude the Messages API in frames."""

from __future__ import annotations

from typing import Final

from kiro_asgi.upstreams.bedrock.settings import BedrockSettings
from kiro_asgi.upstreams.manifest import Configured, Manifest
from kiro_asgi.upstreams.settings import Setup


def _make(configured: Configured[BedrockSettings]) -> Setup:
    from kiro_asgi.upstreams.bedrock.upstream import set_up

    return set_up(configured)


BEDROCK: Final = Manifest(
    name="bedrock",
    title="Amazon Bedrock",
    settings=BedrockSettings,
    make=_make,
    probes=("amazon.nova-micro-v1:0", "us.amazon.nova-micro-v1:0", "us.anthropic.claude-haiku-4-5-20251001-v1:0"),
)
