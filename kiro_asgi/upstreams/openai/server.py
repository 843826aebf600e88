"""A server of OpenAI's kind, whichever of its two APIs it is asked by: addresses, headers, models and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from attrs import define, setters

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.prompt import Attachment, Image
from kiro_asgi.upstreams.base import Credential, ModelCard, ModelPage, UpstreamRequest
from kiro_asgi.upstreams.direct import DirectUpstream
from kiro_asgi.upstreams.openai import models
from kiro_asgi.upstreams.openai.errors import fault

ENDPOINT: Final = "https://api.openai.com/v1"

_HOST: Final = "api.openai.com"
"""OpenAI's, and the end of the names of its regional hosts."""


_FORWARDED: Final = frozenset({b"openai-beta"})
"""Headers of a client that belong to the API.  Those that name an organization or a project are the client's own
account's, not the one that we ask for; the operator's stand in ``headers``."""


def forwarded(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Those of a client's *headers* that go on."""
    return [(name.lower(), value) for name, value in headers if name.lower() in _FORWARDED]


def _new_id() -> str:
    return f"call_{uuid4().hex[:24]}"


@define(kw_only=True, on_setattr=setters.frozen)
class OpenAIServer(DirectUpstream):
    """The base of how one is talked to; holds no state and no secret."""

    name: str = "openai"

    without: tuple[str, ...] = ()
    """Fields that the server refused, or missed, in the order in which `adapt_after_error` found them."""

    new_id: Callable[[], str] = _new_id
    """Makes the id of a call that came without one."""

    @property
    def builtin(self) -> tuple[ModelCard, ...]:
        """OpenAI's models; of any other server nothing is known before it is asked."""
        return () if self.is_custom(self.endpoint) else models.BUILTIN

    def fetches(self, part: Attachment) -> bool:
        """Whether the service itself fetches *part*: images, but no documents."""
        return isinstance(part, Image)

    def fault(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
        """The error that an answer with a *status* other than 200 means; see `kiro_asgi.upstreams.openai.errors`."""
        return fault(status, headers, body)

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the list of models, which is one page; `parse_models` reads the answer."""
        return self.get(self._address(credential, "/models"), credential)

    def parse_models(self, body: bytes) -> ModelPage:
        """Read the list of models.

        Raises:
            UpstreamProtocolError: It is not a list of models.
        """
        return models.parse_models(body, custom=self.is_custom(self.endpoint))

    def asked(
        self, path: str, body: bytes, credential: Credential, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> UpstreamRequest:
        """A request for an answer at *path* with this *body*, and these *headers* beside ours."""
        sent = (
            (b"content-type", b"application/json"),
            *headers,
            *self.request_headers(credential, (b"accept", b"text/event-stream, application/json")),
        )
        return UpstreamRequest("POST", self._address(credential, path), sent, body, self.signing(credential))

    def _address(self, credential: Credential, path: str) -> str:
        """Where *path* is asked; a query at the end of the endpoint goes with every request."""
        base, mark, query = (credential.endpoint or self.endpoint or ENDPOINT).partition("?")
        return f"{base.rstrip('/')}{path}{mark}{query}"

    @staticmethod
    def is_custom(endpoint: str) -> bool:
        """Whether somebody else than OpenAI answers at *endpoint*."""
        host = OpenAIServer.host(endpoint)
        return host != _HOST and not host.endswith(f".{_HOST}")

    @staticmethod
    def host(endpoint: str) -> str:
        """The name of the server at *endpoint*."""
        return urlsplit(endpoint or ENDPOINT).hostname or ""
