"""Checks of an upstream that is asked with a key: the key, the connection, the models, one small answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time
from typing import Any

from attrs import define, evolve, field

from kiro_asgi.asgi.providers import new_transport
from kiro_asgi.cli import doctor_local, doctor_network
from kiro_asgi.cli.doctor_service import PATIENCE, Questions
from kiro_asgi.cli.findings import Finding, Verdict, failed, with_key
from kiro_asgi.config import Settings
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.net.credentials import Credentials
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.access import Keys
from kiro_asgi.upstreams.base import Credential, Upstream
from kiro_asgi.upstreams.manifest import Configured, probes_in

__all__ = ["DirectExamination"]


@define
class DirectExamination:
    """Goes along the chain of one upstream, and stops where it breaks."""

    _settings: Settings
    _configured: Configured[Any]
    _environ: Mapping[str, str]
    _put: Callable[[Finding], None]
    _held: list[Credentials]
    """Gets the credentials that are used, whose tokens must not be told."""

    _upstream: Upstream = field(init=False)
    _keys: Keys = field(init=False)
    _first_patience: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        setup = self._configured.make()
        assert isinstance(setup.access, Keys), "whoever is not asked with keys is examined by somebody else"
        self._upstream, self._keys = setup.upstream, setup.access
        self._first_patience = setup.manner.first_event_timeout

    async def run(self, *, refresh: bool, ask: bool) -> None:
        """Put a finding for each link; ask a model if *ask*.  There is nothing that could be renewed."""
        self._put(doctor_local.keys(self._called("key"), self._keys))
        transport = new_transport(self._settings, self._configured.settings.proxy)
        credential = await self._credential(transport)
        if credential is not None:
            reached = await self._connection(credential)
            self._put(reached)
            if reached.verdict is not Verdict.FAIL:
                await self._answers(transport, credential, ask)
        await transport.aclose()

    def _called(self, name: str) -> str:
        return f"{self._configured.name} {name}"

    async def _credential(self, transport: Transport) -> Credential | None:
        """The first key, or the token that it is exchanged for."""
        credentials = Credentials.create(evolve(self._keys, named=self._keys.named[:1]), transport)
        self._held.append(credentials)
        name = self._called("token")
        try:
            credential = await credentials.get()
        except KiroAsgiError as error:
            self._put(failed(name, error, with_key(self._configured.path)))
            return None
        if self._keys.exchange is not None:
            self._put(Finding(name, Verdict.OK, "the key was exchanged for one"))
        return credential

    async def _connection(self, credential: Credential) -> Finding:
        settings, name = self._configured.settings, self._called("service")
        if settings.proxy:
            return doctor_local.proxied(name, f"{self._configured.path}.proxy", settings.proxy)
        url, patience = self._upstream.models_request(credential).url, self._settings.limits.connect_timeout
        way = await doctor_network.walk(url, doctor_network.trusted(self._settings), patience)
        return doctor_network.connection(name, way, self._environ, time())

    async def _answers(self, transport: Transport, credential: Credential, ask: bool) -> None:
        questions = Questions(
            prefix=self._called(""),
            advice=with_key(self._configured.path),
            transport=transport,
            upstream=self._upstream,
            credential=credential,
            first_patience=self._first_patience,
            patience=self._settings.stream.idle_timeout or PATIENCE,
            probes=tuple(probes_in(type(self._settings))),
        )
        models = await questions.models()
        self._put(models)
        if ask and models.verdict is not Verdict.FAIL:
            self._put(await questions.answer())
