"""The credentials of an app: which one to use now."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

from attrs import define, field

from kiro_asgi.config.rules import require
from kiro_asgi.errors import ConfigError, KiroAsgiError, UpstreamDenied
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credential_keeper import TokenKeeper
from kiro_asgi.net.credential_slot import Slot
from kiro_asgi.net.credential_sources import Source, TokenCommand, open_source
from kiro_asgi.net.keys import key_slot
from kiro_asgi.net.resting import RestPolicy
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.access import Keys, Renewer, SignIns, TokenPlaces, Vendor
from kiro_asgi.upstreams.base import Credential, Token

__all__ = ["Clocks", "Credentials"]


@define
class Credentials:
    """One app's credentials, in order of preference; they may be used from several event loops."""

    _slots: tuple[Slot, ...]

    @classmethod
    def create(
        cls,
        access: Keys | SignIns,
        transport: Transport,
        clocks: Clocks = Clocks(),  # noqa: B008 - frozen
        rests: RestPolicy = RestPolicy(),  # noqa: B008 - frozen
    ) -> Credentials:
        """What *access* names: keys, or the key or token in the settings, the file, the program, the further files.

        Files are read now, programs are not run, nothing is asked yet.

        Args:
            access: What an upstream is asked with.
            transport: What tokens are renewed with, and keys exchanged.
            clocks: Time and chance.
            rests: How long one is left alone that is at fault.

        Raises:
            ConfigError: Nothing is named, or something that is named cannot be used; the message lists all of it.
        """
        if isinstance(access, Keys):
            named, exchange = access.named, access.exchange
            return cls(tuple(key_slot(name, key, transport, clocks, rests, exchange) for name, key in named))
        making = _Making(access.places, access.vendor, transport, clocks, rests)
        slots = tuple(making.slots())
        require(making.problems)
        if not slots:
            raise ConfigError(access.vendor.missing, code=f"{access.vendor.table}.credential")
        return cls(slots)

    async def get(self, model: str = "", *, besides: Collection[Credential] = ()) -> Credential:
        """The first that does not rest and is none of *besides*, renewed if that is due.

        Args:
            model: Whose answer is wanted; empty for anything else.
            besides: What must not be used.

        Raises:
            KiroAsgiError: None is left: what that one rests for, or why it has no token, which may be asked for
                soonest.  Code ``credentials.login`` means that only signing in again helps.
        """
        tried = {credential.source for credential in besides}
        why: list[KiroAsgiError] = []
        for slot in self._slots:
            if slot.name not in tried:
                try:
                    return await slot.take(model)
                except KiroAsgiError as error:
                    why.append(error)
        if not why:
            raise UpstreamDenied("there is no other credential", code="credentials.none")
        raise min(why, key=lambda error: inf if error.retry_after is None else error.retry_after)

    @contextmanager
    def asking(self, credential: Credential, model: str) -> Iterator[Callable[[], None]]:
        """Ask for an answer of *model* within the block; call what is given when the service has accepted that.

        Raises:
            KiroAsgiError: *credential* has come to rest meanwhile.
        """
        slot = self._slot(credential)
        if slot is None:
            yield _nobody
        else:
            with slot.asking(model) as accepted:
                yield accepted

    async def renew(self, refused: Credential) -> Credential | None:
        """A newer credential in place of one that the upstream has refused as invalid; ``None`` where there is none.

        If it was replaced meanwhile, that costs no call.

        Raises:
            KiroAsgiError: There should be one, but it is not to be had now.
        """
        slot = self._slot(refused)
        return None if slot is None else await slot.renew(refused)

    def cool(self, credential: Credential, error: KiroAsgiError, model: str = "") -> None:
        """Let *credential* rest because of *error*, for *model* only where it is about that; `get` passes it over."""
        slot = self._slot(credential)
        if slot is not None:
            slot.rest(error, model)

    def rests(self) -> Iterator[tuple[str, KiroAsgiError, float]]:
        """What rests now: its name, why, and the seconds until somebody may ask."""
        for slot in self._slots:
            yield from slot.rests()

    async def aclose(self) -> None:
        """Wait for renewals that are under way, lest a new token be lost."""
        for slot in self._slots:
            await slot.landed()

    @property
    def secrets(self) -> Iterator[str]:
        """What must not be told."""
        for slot in self._slots:
            yield from slot.secrets

    def _slot(self, credential: Credential) -> Slot | None:
        return next((slot for slot in self._slots if slot.name == credential.source), None)


@define
class _Making:
    """Makes slots, and notes what is wrong with the settings."""

    _places: TokenPlaces
    _vendor: Vendor
    _transport: Transport
    _clocks: Clocks
    _rests: RestPolicy
    problems: list[str] = field(init=False, factory=list)

    def slots(self) -> Iterator[Slot]:
        """In order of preference."""
        places, table, given = self._places, self._vendor.table, self._vendor.given
        if given is not None:
            yield self._slot(given.source, credential=given)
        known: set[Path] = set()
        if places.credentials_file:
            yield from self._file(f"{table}.credentials_file", places.credentials_file, known)
        if places.credentials_command:
            yield from self._command(f"{table}.credentials_command", places.credentials_command)
        for text in places.fallback_credentials_files:
            yield from self._file(f"{table}.fallback_credentials_files", text, known)

    def _file(self, setting: str, text: str, known: set[Path]) -> Iterator[Slot]:
        path = Path(text).expanduser()
        if path in known:
            return
        known.add(path)
        try:
            source = open_source(path, self._vendor, self._places.write_back, self._clocks.wall)
            yield self._slot(source.name, keeper=self._keeper(source, source.load(), self._vendor))
        except OSError as error:
            self.problems.append(f"{setting}: {path}: {error.strerror or error}")
        except KiroAsgiError as error:
            self.problems.append(f"{setting}: {error.message}")

    def _command(self, setting: str, text: str) -> Iterator[Slot]:
        try:
            argv = tuple(shlex.split(text))
        except ValueError as error:
            self.problems.append(f"{setting}: {error}")
            return
        if not argv or shutil.which(argv[0]) is None:
            self.problems.append(f"{setting}: there is no such program")
            return
        source = TokenCommand(setting, argv, self._vendor, self._clocks.wall)
        yield self._slot(setting, keeper=self._keeper(source, None, None))

    def _keeper(self, source: Source, token: Token | None, renewer: Renewer | None) -> TokenKeeper:
        return TokenKeeper(source, token, renewer, self._transport, self._clocks.wall)

    def _slot(self, name: str, *, credential: Credential | None = None, keeper: TokenKeeper | None = None) -> Slot:
        return Slot(
            name=name,
            vendor=self._vendor,
            transport=self._transport,
            clocks=self._clocks,
            margin=self._places.refresh_margin,
            rests=self._rests,
            keeper=keeper,
            credential=credential,
        )


def _nobody() -> None:
    """No credential of ours was accepted."""
