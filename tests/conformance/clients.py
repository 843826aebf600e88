"""The official Python clients, strict, at any gateway."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import anthropic
import httpx2
import openai
import pytest
from attrs import frozen

from tests.conformance.gateways import KEY, Gateway
from tests.conformance.responses_schema import SERVED, sse_events

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


_FETCHED: Final = re.compile(r"/responses/[^/]+\Z")
"""Path of one response that was stored."""


@frozen
class _Judged(httpx2.SyncByteStream):
    """An answer of the Responses API, which must keep to the schema; one that is not read to its end is not judged."""

    _stream: httpx2.SyncByteStream
    _streamed: bool

    def __iter__(self) -> Iterator[bytes]:
        pieces = []
        for piece in self._stream:
            pieces.append(piece)
            yield piece
        told = sse_events(pieces) if self._streamed else [json.loads(b"".join(pieces))]
        problems = [problem for value in told for problem in SERVED.problems(value)]
        assert not problems, "\n".join(problems[:10])

    def close(self) -> None:
        self._stream.close()


class _Judging(httpx2.HTTPTransport):
    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = super().handle_request(request)
        made, fetched = request.url.path.endswith("/responses"), bool(_FETCHED.search(request.url.path))
        if (made or (fetched and request.method == "GET")) and response.status_code == 200:
            assert isinstance(response.stream, httpx2.SyncByteStream)
            streamed = response.headers["content-type"].startswith("text/event-stream")
            response.stream = _Judged(response.stream, streamed)
        return response


@contextmanager
def connected() -> Iterator[Clients]:
    """Until the end of the block."""
    with openai.DefaultHttpxClient(transport=_Judging()) as one, anthropic.DefaultHttpxClient() as other:
        yield Clients(one, other)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Until the end of the block, no client finds settings, or a proxy, in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            if name.startswith(FOREIGN) or name.lower().endswith("_proxy"):
                patch.delenv(name)
        yield
