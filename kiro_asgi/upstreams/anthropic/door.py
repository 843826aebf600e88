"""How requests come to the service: addresses, headers, and a client's own request sent on as it is.

Sources: https://docs.anthropic.com/en/api/overview, https://docs.anthropic.com/en/api/beta-headers
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import Final
from urllib.parse import urlsplit

from attrs import field, frozen

from kiro_asgi.model.features import Ask, betas_in
from kiro_asgi.upstreams.anthropic.families import listed_family
from kiro_asgi.upstreams.anthropic.sampling import LAST_SAMPLED
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, UpstreamRequest
from kiro_asgi.upstreams.headers import Headers, overridden

__all__ = ["ENDPOINT", "Door", "PassedOn"]

ENDPOINT: Final = "https://api.anthropic.com"

_HOST: Final = "anthropic.com"

_JSON: Final = (b"content-type", b"application/json")
_STREAM: Final = (b"accept", b"text/event-stream")
_VERSION: Final = re.compile(rb"[\w.:/-]{1,200}", re.ASCII)
"""What a version may be called."""


@frozen(kw_only=True)
class Door:
    """The operator's part of every request."""

    endpoint: str
    """Base URL; empty for the public one."""

    user_agent: str
    version: str
    betas: tuple[str, ...]
    bearer: bool
    """Whether API keys go into ``Authorization`` as tokens do."""

    extra: Headers = field(repr=False)
    """Added to every request; one of our own that has the name of one of these is left out."""

    def is_custom(self, credential: Credential) -> bool:
        """Whether somebody else than Anthropic is asked with *credential*."""
        host = urlsplit(credential.endpoint or self.endpoint or ENDPOINT).hostname or ""
        return host != _HOST and not host.endswith(f".{_HOST}")

    def url(self, credential: Credential, path: str) -> str:
        """Address of *path*, which begins with a slash."""
        return (credential.endpoint or self.endpoint or ENDPOINT).rstrip("/") + path

    def ask(self, credential: Credential, body: bytes, betas: Iterable[str]) -> UpstreamRequest:
        """An answer as a stream, with the client's *betas*."""
        headers = self._headers(credential, (_JSON, _STREAM), self.version.encode(), betas)
        return UpstreamRequest("POST", self.url(credential, "/v1/messages"), headers, body)

    def look_up(self, credential: Credential, path: str) -> UpstreamRequest:
        """A resource."""
        headers = self._headers(credential, ((b"accept", b"application/json"),), self.version.encode(), ())
        return UpstreamRequest("GET", self.url(credential, path), headers)

    def pass_on(self, credential: Credential, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> UpstreamRequest:
        """A client's request, with what its headers say about the API."""
        headers = [*headers]
        versions = [value.strip() for name, value in headers if name.lower() == b"anthropic-version"]
        version = next(filter(_VERSION.fullmatch, reversed(versions)), self.version.encode())
        own = self._headers(credential, (_JSON,), version, betas_in(headers))
        return UpstreamRequest("POST", self.url(credential, "/v1/messages"), own, body)

    def _headers(self, credential: Credential, kinds: Headers, version: bytes, betas: Iterable[str]) -> Headers:
        features = ",".join(dict.fromkeys((*betas, *self.betas))).encode()
        own = (
            *kinds,
            (b"anthropic-version", version),
            *([(b"anthropic-beta", features)] if features else []),
            *self._authorization(credential),
            (b"accept-encoding", b"identity"),
            (b"user-agent", self.user_agent.encode()),
        )
        return overridden(own, self.extra)

    def _authorization(self, credential: Credential) -> Headers:
        secret = credential.secret.encode("ascii")
        if not secret:
            return ()
        if self.bearer or credential.kind is not CredentialKind.API_KEY:
            return ((b"authorization", b"Bearer " + secret),)
        return ((b"x-api-key", secret),)


@frozen
class PassedOn:
    """Requests of clients that speak the service's own API, for `kiro_asgi.upstreams.base.Forwarding`."""

    _door: Door
    _replay_thinking: bool = True
    dialect: str = field(init=False, default="anthropic")
    tagged: bool = field(init=False, default=False)

    def differs(self, asks: Set[Ask], model: ModelCard) -> bool:
        """Whether a rule has something to do for *asks*; see `kiro_asgi.upstreams.anthropic.rules`."""
        peculiar = listed_family(model)
        sampled = peculiar.sampled and self._door.version < LAST_SAMPLED
        return (
            (Ask.THOUGHTS in asks and not self._replay_thinking)
            or (Ask.SAMPLING in asks and not sampled)
            or (Ask.SAMPLED_TWICE in asks and peculiar.sampled_once)
        )

    def request(self, body: bytes, credential: Credential, headers: Iterable[tuple[bytes, bytes]]) -> UpstreamRequest:
        """The same request to the service; of the client's *headers* those go on that name a version and features."""
        return self._door.pass_on(credential, body, headers)
