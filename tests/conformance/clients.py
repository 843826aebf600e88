"""The official Python clients, strict, at any gateway."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai
import pytest
from attrs import frozen

from tests.conformance.gateways import KEY, Gateway

__all__ = ["SETTINGS", "Clients", "connected", "undisturbed"]

SETTINGS: dict[str, Any] = {"timeout": 20, "_strict_response_validation": True}
"""Every body, and every event of a stream, is validated; what does not fit the client's types is an error."""

FOREIGN = ("OPENAI_", "ANTHROPIC_")
"""Settings of the clients that a developer's own shell may hold."""


@frozen
class Clients:
    """Makes clients that share connections, as making those is what takes time."""

    _openai: Any
    _anthropic: Any

    def openai(self, gateway: Gateway, *, key: str = KEY, max_retries: int = 0) -> openai.OpenAI:
        """Not to be closed."""
        return openai.OpenAI(
            base_url=gateway.openai_base,
            api_key=key,
            max_retries=max_retries,
            http_client=self._openai,
            **SETTINGS,
        )

    def anthropic(
        self, gateway: Gateway, *, key: str = KEY, max_retries: int = 0, version: str | None = None
    ) -> anthropic.Anthropic:
        """Not to be closed."""
        return anthropic.Anthropic(
            base_url=gateway.base,
            api_key=key,
            max_retries=max_retries,
            default_headers=None if version is None else {"anthropic-version": version},
            http_client=self._anthropic,
            **SETTINGS,
        )


@contextmanager
def connected() -> Iterator[Clients]:
    """Until the end of the block."""
    with openai.DefaultHttpxClient() as one, anthropic.DefaultHttpxClient() as other:
        yield Clients(one, other)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Until the end of the block, no client finds settings, or a proxy, in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            if name.startswith(FOREIGN) or name.lower().endswith("_proxy"):
                patch.delenv(name)
        yield
