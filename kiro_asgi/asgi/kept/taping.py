"""The recording of an application's calls, and the settings that tapes name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final, TypeVar

from attrs import define, frozen

from kiro_asgi.asgi.kept.attachments import AttachmentSource
from kiro_asgi.config import Settings
from kiro_asgi.config.installed import OBSERVERS, STORES, offered, with_installed
from kiro_asgi.config.leaves import Leaf, leaves, members_of, values_of
from kiro_asgi.errors import KiroAsgiError, StoreUnavailable
from kiro_asgi.extension import extensions_in
from kiro_asgi.limits import TAPE_EXCHANGE_BYTES
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.net.fetching import Fetched
from kiro_asgi.observers.base import ObserverManifest
from kiro_asgi.redaction import Redactor
from kiro_asgi.setting import Choices
from kiro_asgi.stages.estimate import Calibration
from kiro_asgi.state.base import Store, StoreManifest, stored_values
from kiro_asgi.tapes.folder import TapeFolder
from kiro_asgi.tapes.recorder import Recorder, TapeMaker
from kiro_asgi.upstreams.base import Credential
from kiro_asgi.upstreams.manifest import set_up

T = TypeVar("T")

_NOT_REPLAYED: Final = frozenset({"client", "cors", "keys", "credentials", "quotas", "state", "tapes", "inspector"})
"""Tables about access, limits, the inspector and storage, which a replay does without."""

_TEXTS: Final = frozenset(
    {
        *("agent_mode", "betas", "default", "effort_budgets", "guardrail", "guardrail_version", "lead_in", "models"),
        *("model_aliases", "order", "origin", "parameter_names", "plan_mode_key", "region", "repairs_off", "rules_off"),
        *("thinking_tags", "version"),
    }
)
"""Names of the settings with texts of the operator's own that shape an exchange, and name nothing outside of it.

All other texts are left out, those of upstreams from outside as well: each may be the name of a file, a program, an
account or an address, and a tape may come from anyone."""

_OF_THE_MACHINE: Final = frozenset({"http_library", "write_back", "raise_unexpected"})
"""Choices and switches that are about the process, and not about what a client is sent."""

PLACE: Final = "https://tape.invalid"
"""Stands for every address of a service that the operator chose: it stays private, but that it is one decides how a
service is asked, and whether it has other hosts."""


@frozen
class RecordedFiles:
    """A source of files that records what it gives, or why it gives none."""

    _source: AttachmentSource
    _recorder: Recorder

    def allows(self, url: str) -> bool:
        """As the source."""
        return self._source.allows(url)

    async def fetch(self, places: Mapping[str, str], hold: Callable[[int], None]) -> Mapping[str, Fetched]:
        """As the source."""
        try:
            files = await self._source.fetch(places, hold)
        except KiroAsgiError as error:
            self._recorder.aside("file", error=error.message, code=error.code, param=error.param)
            raise
        for url in places:
            self._recorder.aside("file", files[url].content, url=url, media_type=files[url].media_type)
        return files

    async def aclose(self) -> None:
        """As the source."""
        await self._source.aclose()


@frozen
class RecordedStore:
    """A store that records what calls read: answers of earlier requests, signatures.

    Keys are not: a replay asks in the same order, but as another client, whose keys are others.
    """

    _store: Store
    _recorder: Recorder

    async def get(self, key: str) -> bytes | None:
        """As the store."""
        return await self._recorded(self._store.get(key))

    async def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """As the store; recorded as if each had been asked for, which is how a replay asks."""
        found = await self._asked(stored_values(self._store, keys))
        for key in keys:
            self._record(found.get(key))
        return found

    async def take(self, key: str) -> bytes | None:
        """As the store."""
        return await self._recorded(self._store.take(key))

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """As the store."""
        await self._store.set(key, value, ttl)

    async def delete(self, key: str) -> None:
        """As the store."""
        await self._store.delete(key)

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """As the store."""
        return self._store.lock(key)

    async def aclose(self) -> None:
        """As the store."""
        await self._store.aclose()

    async def _recorded(self, reading: Awaitable[bytes | None]) -> bytes | None:
        value = await self._asked(reading)
        self._record(value)
        return value

    async def _asked(self, reading: Awaitable[T]) -> T:
        try:
            return await reading
        except StoreUnavailable as error:
            self._recorder.aside("stored", error=error.message, code=error.code)
            raise

    def _record(self, value: bytes | None) -> None:
        self._recorder.aside("stored", value or b"", found=value is not None)


@define
class RecordedCredentials(Credentials):
    """Credentials of which each choice for a call, and each renewal, is recorded, without the credential itself.

    Which one is used depends on other calls, on files and on sign-in services: a replay has none of them.
    """

    _upstream: str
    _recorder: Recorder

    @classmethod
    def of(cls, credentials: Credentials, upstream: str, recorder: Recorder) -> RecordedCredentials:
        """Those of *credentials*, which are *upstream*'s."""
        return cls(credentials._states, upstream, recorder)

    async def get(self, model: str = "", *, exclude: Collection[Credential] = ()) -> Credential:
        """As `Credentials.get`."""
        found = await self._recorded("get", super().get(model, exclude=exclude))
        assert found is not None, "no credential, and no error"
        return found

    async def renew(self, refused: Credential) -> Credential | None:
        """As `Credentials.renew`."""
        return await self._recorded("renew", super().renew(refused))

    @contextmanager
    def asking(self, credential: Credential, model: str) -> Iterator[Callable[[], None]]:
        """As `Credentials.asking`; recorded where the credential rests, and the service is not asked."""
        is_let_in = False
        try:
            with super().asking(credential, model) as accepted:
                is_let_in = True
                yield accepted
        except KiroAsgiError as error:
            if not is_let_in:
                self._refused("asking", error)
            raise

    def _refused(self, asked: str, error: KiroAsgiError) -> None:
        facts: dict[str, Any] = {"error": type(error).__name__, "code": error.code, "message": error.message}
        facts |= {"upstream": self._upstream, "asked": asked, "retry_after": error.retry_after, "fresh": error.asked}
        self._recorder.aside("credential", **facts)

    async def _recorded(self, asked: str, choosing: Awaitable[Credential | None]) -> Credential | None:
        facts: dict[str, Any] = {"upstream": self._upstream, "asked": asked}
        try:
            found = await choosing
        except KiroAsgiError as error:
            self._refused(asked, error)
            raise
        if found is None:
            self._recorder.aside("credential", **facts, found=False)
        else:
            self._recorder.aside("credential", **facts, found=True, credential=found.source, host=found.host)
        return found


def recorded_reset(
    asking: Callable[[Credential], Awaitable[float | None]], recorder: Recorder
) -> Callable[[Credential], Awaitable[float | None]]:
    """*asking* for the time of a new quota, recorded."""

    async def asked(credential: Credential) -> float | None:
        moment = await asking(credential)
        if moment is not None:
            recorder.aside("reset", value=moment)
        return moment

    return asked


@define(kw_only=True)
class RecordedCalibration(Calibration):
    """Corrections of estimates, recorded: the answers from which they were learnt are on other tapes."""

    _recorder: Recorder

    def input_factor(self, model: str) -> float:
        """The factor for estimates of a prompt for *model*."""
        factor = super().input_factor(model)
        if factor != 1:
            self._recorder.aside("factor", model=model, value=factor)
        return factor


@frozen
class Taping:
    """Records the calls of an application, and makes tapes of them."""

    recorder: Recorder
    maker: TapeMaker
    folder: TapeFolder | None
    """``None`` where recordings are only looked at."""


def new_taping(settings: Settings, redactor: Callable[[], Redactor], clock: Callable[[], float]) -> Taping | None:
    """Make the recorder of calls; ``None`` where neither tapes nor an inspector want them."""
    inspector = settings.inspector
    is_inspected = inspector.enabled and inspector.content != "none"
    if not settings.tapes.path and not is_inspected:
        return None
    maker = TapeMaker(redactor, dict(shown_settings(settings)), tuple(each.name for each in set_up(settings)))
    folder = TapeFolder(settings.tapes, maker) if settings.tapes.path else None
    most = TAPE_EXCHANGE_BYTES if folder is not None else min(TAPE_EXCHANGE_BYTES, inspector.bytes // 4)
    return Taping(Recorder(clock, most, None if folder is None else folder.take), maker, folder)


def is_replayed(leaf: Leaf) -> bool:
    """Whether tapes name this setting, and replays take it: a number, a switch or a choice, or one of some texts."""
    if leaf.secret or leaf.path.partition(".")[0] in _NOT_REPLAYED or leaf.name in _OF_THE_MACHINE:
        return False
    return leaf.type in (bool, int, float) or isinstance(leaf.declared.rule, Choices) or leaf.name in _TEXTS


def shown_settings(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Paths and values of what differs from its default and may be shown."""
    values, root = values_of(settings), type(settings)
    known = leaves(root, members_of(root, values))
    keeping = {name for kind in (StoreManifest, ObserverManifest) for name, _ in extensions_in(root, kind)}
    for path, value in values.items():
        leaf = known[path]
        if path.partition(".")[0] in keeping:
            continue
        if leaf.name == "endpoint":
            if value != leaf.default or path.count(".") > 1:  # without one, a service of the operator's does not exist
                yield path, PLACE
        elif value != leaf.default and is_replayed(leaf):
            yield path, value


@frozen
class ReplayedSettings:
    """Settings that somebody names for a replay, by path."""

    taken: Mapping[str, Any]
    """What the replay has: addresses are `PLACE`.  A path that is no setting stays, for the message about it."""

    left_out: tuple[str, ...]
    """Paths that could reach outside of the replay, or would not change what a client is sent."""

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> ReplayedSettings:
        """Sort out *named*.  A table as a value names more than its path shows, so it is left out, too.

        So are stores and observers of installed packages: a tape must not lead to one, so it is not even imported.
        """
        keeping = offered(STORES, OBSERVERS).keys()
        tables = {path.partition(".")[0] for path in named} - keeping
        root, _ = with_installed(Settings, tables)
        known = leaves(root, members_of(root, named))
        places = {path: PLACE for path in named if path in known and known[path].name == "endpoint"}
        left = [
            path
            for path in named
            if path.partition(".")[0] in keeping or (path not in places and _is_left_out(known.get(path), named[path]))
        ]
        return cls({path: value for path, value in named.items() if path not in left} | places, tuple(left))


def _is_left_out(leaf: Leaf | None, value: Any) -> bool:
    return isinstance(value, Mapping) if leaf is None else not is_replayed(leaf)
