"""The facts that the gateway reads in requests to a service of this API, and in the responses that come of them.

What a client stores is the gateway's: a request goes on with everything in its input that it builds on, and the service
is to store nothing.  So the response object, which the first events and the last repeat, is given the id under which it
is kept here, and the client's choice about storing.  All other events go through byte for byte.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_common import served_tier
from kiro_asgi.dialects.openai_responses.compaction import COMPACTIONS, TRIGGER
from kiro_asgi.dialects.openai_responses.encoder import ResponsesEncoder
from kiro_asgi.dialects.openai_responses.kept import references
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions, input_items, options_of
from kiro_asgi.dialects.openai_responses.response import RenderedResponse
from kiro_asgi.dialects.openai_responses.sealing import is_ours
from kiro_asgi.dialects.openai_responses.shapes import ResponsesBody
from kiro_asgi.dialects.passthrough import Format, Passed, PassthroughStage, Sign
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.limits import REQUEST_DEPTH
from kiro_asgi.stages.counts import responses_counts
from kiro_asgi.wire.json import JsonError, dumps, loads, object_of, objects_of, text_of
from kiro_asgi.wire.sse import encode_comment

_FAILED: Final = Sign(failed=True)
_OURS: Final = ("previous_response_id", "conversation", "background", "client_metadata")
"""Fields that are for the gateway alone."""

_STATE: Final = ("conversation", "context_management")
"""Fields that only the gateway can do something about."""


def passed_value(value: Any) -> Passed | None:
    """The body that goes on of one that was read as *value*, into which everything was put that it builds on; ``None``
    where the gateway keeps, makes or has sealed a part of it."""
    if type(value) is not dict or any(value.get(name) not in (None, False, []) for name in _STATE):
        return None
    items = value.get("input")
    if type(items) is list and (any(references(items)) or any(map(_is_ours, objects_of(items)))):
        return None
    return Passed.of(dumps({name: it for name, it in value.items() if name not in _OURS}), value, ResponsesBody)


def _is_ours(item: Mapping[str, Any]) -> bool:
    kind, seal = item.get("type"), item.get("encrypted_content")
    return kind == TRIGGER or kind in COMPACTIONS or (kind == "reasoning" and type(seal) is str and is_ours(seal))


def passed_options(value: Mapping[str, Any]) -> ResponsesOptions:
    """Options that the gateway needs of a request whose reader has refused it."""
    previous, given = value.get("previous_response_id"), value.get("input")
    return ResponsesOptions(
        store=value.get("store") is not False,
        previous_response_id=previous if type(previous) is str else None,
        input_items=input_items(given) if isinstance(given, str | list) else (),
    )


def _read(document: Mapping[str, Any]) -> Sign:
    match document:
        case {"type": "response.completed" | "response.incomplete", "response": dict(response)}:
            return Sign(True, usage=object_of(response.get("usage")), tier=served_tier(response))
        case {"type": "response.failed" | "error"} | {"object": "response", "status": "failed"}:
            return _FAILED
        case {"object": "response", "usage": dict(usage)}:
            return Sign(usage=usage, tier=served_tier(document))
        case {"error": dict() | str()} if "type" not in document:
            return _FAILED
    return Sign()


def _error(error: KiroAsgiError, meta: ResponseMeta) -> list[bytes]:
    return ResponsesEncoder(meta).error(error)


RESPONSES: Final = Format(
    content=frozenset({"output"}),
    heartbeat=encode_comment("ping"),
    relevant=re.compile(rb'"(?:response\.(?:completed|incomplete|failed)|error)"'),
    read=_read,
    counts=responses_counts,
    error=_error,
)
"""The Responses API.  A comment is its sign of life: an event of ours would have a number that the service's have."""

_HOLDS: Final = b'"response"'
"""In every event that holds the response object; within a text its quotes have backslashes before them."""

_NUMBER: Final = re.compile(rb'"sequence_number"\s*:\s*([0-9]{1,9})')


@define
class ResponsePassthrough(PassthroughStage):
    """The stage for one answer, which remembers the response that it ended with.

    Of `ResponseMeta` the id counts, and of its options those about storing.
    """

    seals: Mapping[str, str] = field(init=False, factory=dict)
    """None of ours: the service's own seals stand in the response."""

    _response: Mapping[str, Any] | None = field(init=False, default=None)
    size: int = field(init=False, default=0)
    """Bytes of that."""

    _last: bytes = field(init=False, default=b"")
    """The latest bytes sent that have a number."""

    @property
    def complete(self) -> bool:
        """Whether the answer has come to its end, with nothing going wrong, and can be kept."""
        return self._response is not None and self.failure is None

    @property
    def rendered(self) -> RenderedResponse:
        """The response object as the client received it last; its output, wherever it stood, is its last member."""
        others = {name: value for name, value in object_of(self._response).items() if name != "output"}
        items = [(text_of(item, "id"), [dumps(item)]) for item in self._output]
        return RenderedResponse(dumps(others)[:-1] + b',"output":', items, b"}")

    @property
    def item_ids(self) -> Iterator[str]:
        """Ids of the items of that response, which the service has given them."""
        return filter(None, (text_of(item, "id") for item in self._output))

    @property
    def _output(self) -> list[Mapping[str, Any]]:
        return objects_of(object_of(self._response).get("output"))

    def whole(self, body: bytes) -> bytes:
        """A collected answer.

        Raises:
            KiroAsgiError: As from `PassthroughStage.whole`.
        """
        super().whole(body)
        self._response, self.size = self._ours(loads(body, max_depth=REQUEST_DEPTH)), len(body)
        return dumps(self._response)

    def _rewritten(self, data: bytes) -> bytes:
        if _HOLDS in data:
            lines = data.splitlines(keepends=True)
            data = b"".join([self._line(line) if _HOLDS in line else line for line in lines])
        self._last = data if _NUMBER.search(data) else self._last
        return data

    def _line(self, line: bytes) -> bytes:
        """A line of an event, with the response in it as the client is to see it."""
        name, _, text = line.partition(b":")
        try:
            event = object_of(loads(text, max_depth=REQUEST_DEPTH)) if name == b"data" else {}
        except JsonError:
            return line
        response = event.get("response")
        if type(response) is not dict:
            return line
        shown = self._ours(response)
        if _read(event).ended:
            self._response, self.size = shown, len(text)
        return b"data: %b%b" % (dumps({**event, "response": shown}), line[len(line.rstrip(b"\r\n")) :])

    def _ours(self, response: dict[str, Any]) -> dict[str, Any]:
        options = options_of(self._meta)
        own = {"id": self._meta.id, "previous_response_id": options.previous_response_id, "store": options.store}
        return {**response, **own, **({"model": self._name} if self._name else {})}

    def _ending(self, error: KiroAsgiError) -> list[bytes]:
        """Its numbers go on from those of the service."""
        numbers = [int(number) for number in _NUMBER.findall(self._last)]
        return ResponsesEncoder(self._meta, first=max(numbers, default=-1) + 1).error(error)
