"""The pool of an app's credentials, and the choice of one for a request."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from logging import getLogger
from math import inf
from pathlib import Path

from attrs import define, evolve, field, frozen

from kiro_asgi.config.gateway import RetrySettings
from kiro_asgi.config.validation import require
from kiro_asgi.errors import ConfigError, KiroAsgiError, UpstreamDenied, UpstreamTokenInvalid
from kiro_asgi.limits import FETCHED_BYTES, REFUSAL_BYTES
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials.key_tokens import key_credential
from kiro_asgi.net.credentials.refresh import SharedRenewals, TokenRefresher
from kiro_asgi.net.credentials.sources import CommandSource, Source, open_source
from kiro_asgi.net.credentials.state import CredentialState
from kiro_asgi.net.requests import fetch_whole
from kiro_asgi.net.transport import Headers, Transport
from kiro_asgi.upstreams.access import Hosts, Keys, Renewer, SignIns, TokenPlaces, Vendor
from kiro_asgi.upstreams.base import Credential, Token, UpstreamRequest

_log = getLogger("kiro_asgi")


@define
class Credentials:
    """One app's credentials, in order of preference; they may be used from several event loops."""

    _states: tuple[CredentialState, ...]

    @classmethod
    def create(
        cls,
        access: Keys | SignIns,
        transport: Transport,
        clocks: Clocks = Clocks(),  # noqa: B008 - frozen
        cooldowns: RetrySettings = RetrySettings(),  # noqa: B008 - frozen
        shared: SharedRenewals | None = None,
    ) -> Credentials:
        """Open what *access* names: keys, or the key or token in the settings, the file, the program, further files.

        Files are read now; programs are not run and no request is sent yet.

        Args:
            access: Keys, or the places of tokens.
            transport: Sends the requests that refresh tokens and exchange keys.
            clocks: Time and chance.
            cooldowns: How long a credential that is at fault is not used.
            shared: Renewals of other gateways; ``None`` where there are no others.

        Raises:
            ConfigError: No credential is set, or one that is set cannot be used; the message lists all of them.
        """
        if isinstance(access, Keys):
            named, exchange = access.named, access.exchange
            return cls(tuple(key_credential(name, key, transport, clocks, cooldowns, exchange) for name, key in named))
        builder = _PoolBuilder(
            access.places, access.vendor, transport, clocks, cooldowns, shared, bool(access.renewed_by)
        )
        states = tuple(builder.states())
        require(builder.problems)
        if not states:
            raise ConfigError(access.vendor.missing, code=f"{access.vendor.table}.credential")
        return cls(states)

    async def get(self, model: str = "", *, exclude: Collection[Credential] = ()) -> Credential:
        """Return the first credential that is not cooling down and not among *exclude*, refreshed if that is due.

        Where there is none, one that was refused for other models alone is used all the same: what a service says of a
        credential may be about one model, and a gateway with one credential must not be closed by it.

        Args:
            model: The model whose answer is wanted; empty for any other request.
            exclude: Credentials that must not be used.

        Raises:
            KiroAsgiError: None is left; the error of the one that can be used again soonest.  Code
                ``credentials.login`` means that only signing in again helps.
        """
        tried = {credential.source for credential in exclude}
        left = [state for state in self._states if state.name not in tried]
        errors: list[KiroAsgiError] = []
        for state in left:
            try:
                return await state.take(model)
            except KiroAsgiError as error:
                errors.append(error)
        for state in left:
            with suppress(KiroAsgiError):
                return await state.take_all_the_same(model)
        if not errors:
            raise UpstreamDenied("there is no other credential", code="credentials.none")
        raise min(errors, key=lambda error: inf if error.retry_after is None else error.retry_after)

    @contextmanager
    def asking(self, credential: Credential, model: str) -> Iterator[Callable[[], None]]:
        """Ask for an answer of *model* within the block; call the yielded function when the service has accepted that.

        Raises:
            KiroAsgiError: *credential* has begun to cool down meanwhile.
        """
        state = self._state(credential)
        if state is None:
            yield _ignore
        else:
            with state.asking(model) as accepted:

                def answered() -> None:
                    accepted()
                    state.keep_hosts(credential)

                yield answered

    def keep_hosts(self, credential: Credential) -> None:
        """Remember the hosts that have answered *credential*, for all requests with it."""
        state = self._state(credential)
        if state is not None:
            state.keep_hosts(credential)

    async def renew(self, refused: Credential) -> Credential | None:
        """Replace a credential that the upstream has refused as invalid; ``None`` where there is no newer one.

        If it was replaced meanwhile, that costs no request.

        Raises:
            KiroAsgiError: It could not be refreshed now.
        """
        state = self._state(refused)
        return None if state is None else await state.renew(refused)

    def cool(self, credential: Credential, error: KiroAsgiError, model: str = "") -> None:
        """Start the cooldown of *credential* after *error*, for *model* alone where the error is about that."""
        state = self._state(credential)
        if state is not None:
            state.cool_down(error, model)

    def cooldowns(self) -> Iterator[tuple[str, KiroAsgiError, float]]:
        """Name, cause and seconds left of each cooldown that is active now."""
        for state in self._states:
            yield from state.cooldowns()

    async def aclose(self) -> None:
        """Wait for refreshes that are under way, lest a new token be lost."""
        for state in self._states:
            await state.join()

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each, in order of preference."""
        return tuple(state.name for state in self._states)

    @property
    def is_usable(self) -> bool:
        """Whether one of them works, or may work again without the operator, as one that cools down does."""
        return any(state.is_usable for state in self._states)

    @property
    def secrets(self) -> Iterator[str]:
        """Keys and tokens that no message or log line may show."""
        for state in self._states:
            yield from state.secrets

    def _state(self, credential: Credential) -> CredentialState | None:
        for state in self._states:
            if state.name == credential.source:
                return state
        return None


_Question = Callable[[Credential], UpstreamRequest]


@frozen
class Asker:
    """Sends small requests with a credential of the pool: for the models, what is left of a quota, a search.

    A token that is refused is refreshed, once, and a host that the credential is not for is left, as for an answer.
    No failure starts a cooldown: only failures of answers do.
    """

    _transport: Transport
    _credentials: Credentials
    _fault: Callable[[int, Headers, bytes], KiroAsgiError]
    """Makes the error of a refusal."""

    _hosts: Hosts | None = None
    """Which other hosts there are, where the service has several."""

    async def ask(
        self, question: _Question, *, patience: float, limit: int = FETCHED_BYTES, credential: Credential | None = None
    ) -> bytes:
        """Return the body of the response.

        Args:
            question: Makes the request.
            patience: Seconds for each of at most three requests.
            limit: Largest body, in bytes.
            credential: The credential to use; ``None`` for the one that `Credentials.get` gives.

        Raises:
            KiroAsgiError: There is no credential, no response, or a refusal.
        """
        used = credential or await self._credentials.get()
        try:
            return await self._renewing(question, used, patience, limit)
        except KiroAsgiError as error:
            other = None if self._hosts is None else self._hosts.elsewhere(used, question(used), error)
            if other is None:
                raise
            _log.info("asking other hosts with %s: %r", used.source, error)
            try:
                answer = await self._renewing(question, other, patience, limit)
            except KiroAsgiError:
                raise error from None
        self._credentials.keep_hosts(other)
        return answer

    async def _renewing(self, question: _Question, used: Credential, patience: float, limit: int) -> bytes:
        try:
            return await self._answer(question, used, patience, limit)
        except UpstreamTokenInvalid:
            newer = await self._credentials.renew(used)
            if newer is None:
                raise
        newer = evolve(newer, host=used.host, management_host=used.management_host)
        return await self._answer(question, newer, patience, limit)

    async def _answer(self, question: _Question, credential: Credential, patience: float, limit: int) -> bytes:
        answer = await fetch_whole(self._transport, question(credential), patience=patience, limit=limit)
        if answer.status != HTTPStatus.OK:
            raise self._fault(answer.status, answer.headers, credential.hidden_in(answer.body[:REFUSAL_BYTES]))
        return answer.body


@define
class _PoolBuilder:
    """Opens the credentials that settings name, and collects what is wrong with them."""

    _places: TokenPlaces
    _vendor: Vendor
    _transport: Transport
    _clocks: Clocks
    _policy: RetrySettings
    _shared: SharedRenewals | None
    _owned: bool
    problems: list[str] = field(init=False, factory=list)

    def states(self) -> Iterator[CredentialState]:
        """Open them in order of preference."""
        places, table, given = self._places, self._vendor.table, self._vendor.given
        if given is not None:
            yield self._state(given.source, credential=given)
        known: set[Path] = set()
        if places.credentials_file:
            yield from self._file(f"{table}.credentials_file", places.credentials_file, known)
        if places.credentials_command:
            yield from self._command(f"{table}.credentials_command", places.credentials_command)
        for text in places.fallback_credentials_files:
            yield from self._file(f"{table}.fallback_credentials_files", text, known)

    def _file(self, setting: str, text: str, known: set[Path]) -> Iterator[CredentialState]:
        path = Path(text).expanduser()
        if path in known:
            return
        known.add(path)
        try:
            source = open_source(path, self._vendor, self._places.write_back, self._clocks.wall)
            yield self._state(source.name, refresher=self._refresher(source, source.load(), self._vendor))
        except OSError as error:
            self.problems.append(f"{setting}: {path}: {error.strerror or error}")
        except KiroAsgiError as error:
            self.problems.append(f"{setting}: {error.message}")

    def _command(self, setting: str, text: str) -> Iterator[CredentialState]:
        try:
            argv = tuple(shlex.split(text))
        except ValueError as error:
            self.problems.append(f"{setting}: {error}")
            return
        if not argv or shutil.which(argv[0]) is None:
            self.problems.append(f"{setting}: there is no such program; check the PATH of the gateway's process")
            return
        source = CommandSource(setting, argv, self._vendor, self._clocks.wall)
        yield self._state(setting, refresher=self._refresher(source, None, None))

    def _refresher(self, source: Source, token: Token | None, renewer: Renewer | None) -> TokenRefresher:
        return TokenRefresher(source, token, renewer, self._transport, self._clocks.wall, self._shared)

    def _state(
        self, name: str, *, credential: Credential | None = None, refresher: TokenRefresher | None = None
    ) -> CredentialState:
        return CredentialState(
            name=name,
            vendor=self._vendor,
            transport=self._transport,
            clocks=self._clocks,
            margin=self._places.refresh_margin,
            policy=self._policy,
            refresher=refresher,
            credential=credential,
            owned=self._owned,
        )


def _ignore() -> None:
    """Do nothing: the credential is not one of the pool."""
