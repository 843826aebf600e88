"""The recording of an application's calls, and the settings that tapes name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from attrs import define, frozen

from kiro_asgi.asgi.attachments import AttachmentSource
from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import leaves, members_of, values_of
from kiro_asgi.errors import KiroAsgiError, StoreUnavailable
from kiro_asgi.limits import TAPE_EXCHANGE_BYTES
from kiro_asgi.net.fetching import Fetched
from kiro_asgi.redaction import Redactor
from kiro_asgi.stages.estimate import Calibration
from kiro_asgi.state.base import Store
from kiro_asgi.tapes.folder import TapeFolder
from kiro_asgi.tapes.recorder import Recorder, TapeMaker
from kiro_asgi.upstreams.manifest import set_up

_OF_THE_MACHINE: Final = ("path", "url", "endpoint", "file", "files", "folder", "principals", "source")
"""Last words of settings that name a place, or a person: a replay does without them."""

_NOT_REPLAYED: Final = frozenset({"client", "cors", "keys", "credentials", "quotas", "state", "tapes", "inspector"})
"""Tables about access, limits, the inspector and storage, which a replay does without."""

_PLACE: Final = "https://tape.invalid"
"""Stands for the address of every service of the operator's own, which stays private."""


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
        try:
            value = await reading
        except StoreUnavailable as error:
            self._recorder.aside("stored", error=error.message, code=error.code)
            raise
        self._recorder.aside("stored", value or b"", found=value is not None)
        return value


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


def is_replayed(path: str) -> bool:
    """Whether a replay takes the setting of that path."""
    return path.partition(".")[0] not in _NOT_REPLAYED


def shown_settings(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Paths and values of what differs from its default and may be shown."""
    values = values_of(settings)
    known = leaves(type(settings), members_of(type(settings), values))
    for path, value in values.items():
        leaf = known[path]
        if leaf.name == "endpoint" and path.count(".") > 1:
            yield path, _PLACE
        if value == leaf.default or leaf.secret or not is_replayed(path):
            continue
        if leaf.name.rpartition("_")[2] not in _OF_THE_MACHINE:
            yield path, value
