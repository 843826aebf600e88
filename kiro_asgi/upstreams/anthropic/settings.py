"""Settings of the Messages API, of Anthropic or of another service."""

from __future__ import annotations

from attrs import frozen

from kiro_asgi.setting import PART, setting
from kiro_asgi.upstreams.settings import SignedSettings


@frozen(kw_only=True)
class AnthropicSettings(SignedSettings):
    """The Messages API of Anthropic, or of another service that speaks it."""

    version: str = setting("2023-06-01", PART)
    """Version of the API that requests name."""

    betas: tuple[str, ...] = setting((), PART)
    """Names of betas that every request asks for, as well as the client's."""

    bearer: bool = False
    """Present the key as ``Authorization: Bearer``, as some gateways want it, instead of as ``x-api-key``."""
