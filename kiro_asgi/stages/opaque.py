"""What the reader of the service's API does not understand, for clients of that API alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import evolve, frozen

from kiro_asgi.model.events import BlockMembers, Citation, Delta, MessageMembers, OpaqueBlock, OpaqueEvent
from kiro_asgi.stages.base import Filter

_OPAQUE: Final = frozenset({MessageMembers, BlockMembers, OpaqueBlock, OpaqueEvent, Citation})


@frozen
class SameApi(Filter[Delta]):
    """Pass on what is of the client's API; what is of another is left out, and what stands in its place goes on.

    So a notice of something that was passed over is given where it was.
    """

    _api: str
    """The client's; empty where it takes nothing of this kind."""

    _streamed_api: str
    """The same where the client receives the events of a stream; empty where it gets the answer whole."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas."""
        for item in items:
            if type(item) in _OPAQUE:
                yield from self._left(item)
            else:
                yield item

    def _left(self, item: Delta) -> Iterable[Delta]:
        if isinstance(item, Citation):
            if item.origin is None or item.origin.api == self._api:
                return (item,)
            return (evolve(item, origin=None),) if item.url or item.location else item.instead
        assert isinstance(item, MessageMembers | BlockMembers | OpaqueBlock | OpaqueEvent), f"not opaque: {item!r}"
        api = self._streamed_api if isinstance(item, OpaqueEvent) else self._api
        return (item,) if item.unread.api == api else item.instead
