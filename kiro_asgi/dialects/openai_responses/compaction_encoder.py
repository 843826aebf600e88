"""The answer to a request for a compaction: one item, with the summary that the model has written, sealed.

As a stream::

    response.created response.in_progress output_item.added output_item.done (response.completed | response.failed)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_common import SERVED
from kiro_asgi.dialects.openai_responses.encoder import CommentingEncoder, ResponsesEncoder
from kiro_asgi.dialects.openai_responses.kept import identified
from kiro_asgi.dialects.openai_responses.response import ResponseOutcome, usage_object
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.model.events import Event, MessageEnd, MessageStart, TextDelta
from kiro_asgi.wire.json import dumps

_KIND: Final = "compaction"


class CompactionEncoder(ResponsesEncoder):
    """Events in, server-sent events out; the text is the summary, and everything else of the answer is passed over."""

    __slots__ = ("_summary", "item", "usage")

    def __init__(
        self, meta: ResponseMeta, sealer: Sealer | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        super().__init__(meta, sealer, clock)
        self._summary: list[str] = []
        self.item: dict[str, Any] = {}
        """The item, once there is one."""
        self.usage: dict[str, Any] = {}
        """Its token counts, as the API shows them."""

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """Server-sent events for *items*.

        Raises:
            UpstreamProtocolError: There is no summary.
        """
        for item in items:
            match item:
                case MessageStart():
                    yield from self._start(item)
                case TextDelta(text):
                    self._summary.append(text)
                case MessageEnd():
                    yield from self._finish(item)

    def _finish(self, end: MessageEnd) -> list[bytes]:
        summary = "".join(self._summary).strip()
        if not summary or self._sealer is None:
            raise UpstreamProtocolError("the model has written no summary of the conversation")
        self._ended = self.complete = True
        sealed = self._sealer.seal_summary(summary)
        place, events = self._output.add(_KIND, {"type": _KIND, "encrypted_content": ""})
        fields = {"type": _KIND, "encrypted_content": sealed}
        self.item, self.usage = {"id": place.id, **fields}, usage_object(end.usage)
        events += self._output.done(place, fields)
        return events + self._output.snapshot(
            ResponseOutcome("completed", None, None, self.usage, SERVED.get(end.usage.tier, ""), int(self._clock())),
            "completed",
        )


class CommentingCompactionEncoder(CommentingEncoder, CompactionEncoder):
    """One whose heartbeats are comments."""

    __slots__ = ()


@frozen
class EncoderStyles:
    """The encoders of one style of heartbeats."""

    answer: type[ResponsesEncoder] = ResponsesEncoder
    compaction: type[CompactionEncoder] = CompactionEncoder

    @classmethod
    def commenting(cls) -> EncoderStyles:
        """Those whose heartbeats are comments."""
        return cls(CommentingEncoder, CommentingCompactionEncoder)


def compaction_object(meta: ResponseMeta, encoder: CompactionEncoder, messages: Iterable[Mapping[str, Any]]) -> bytes:
    """JSON of the answer to a request to compact, with the user's *messages* before the compaction."""
    token = meta.id.removeprefix("resp_")
    return dumps(
        {
            "id": meta.id,
            "object": "response.compaction",
            "created_at": meta.created,
            "output": [*identified(messages, f"{token}_u"), encoder.item],
            "usage": encoder.usage,
        }
    )
