"""Answers of a service of this API on their way through: the response object is ours, all other bytes are not."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.kept import Kept, encode
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.dialects.openai_responses.passthrough import ResponsePassthrough
from kiro_asgi.errors import KiroAsgiError, UpstreamFault, UpstreamProtocolError
from kiro_asgi.wire.sse import SseDecoder

RESPONSE = {"id": "resp_theirs", "object": "response", "model": "gpt-5", "store": False, "usage": {"input_tokens": 3}}
META = ResponseMeta("resp_ours", "gpt-5", 7, ResponsesOptions(previous_response_id="resp_0"))


def event(kind: str, **more: Any) -> str:
    return f"data: {json.dumps({'type': kind, **more})}\n\n"


FIRST = event("response.created", response={**RESPONSE, "status": "in_progress"})
LAST = event("response.completed", response={**RESPONSE, "status": "completed", "output": []})
between = st.lists(
    st.sampled_from(
        [
            ": ping\n\n",
            event("response.output_text.delta", delta='{"response": {"id": 1}} é世'),
            event("response.novel", response="response.completed"),
            "data: {'response': \"response\"\n\n",
            'event: x\nid: 7\ndata: "response"\n\n',
        ]
    ),
    max_size=6,
)


def fault(data: bytes) -> KiroAsgiError:
    return UpstreamFault(data.decode())


def stage() -> ResponsePassthrough:
    return OpenAIResponses().passthrough(fault, META)


@settings(max_examples=40)
@given(events=between, end=st.sampled_from(["\n", "\r\n", "\r"]), places=st.lists(st.integers(0, 3000), max_size=9))
def test_the_response_is_ours_however_it_is_cut(events: list[str], end: str, places: list[int]) -> None:
    """Ours are the id, the response before and the word about storing; unreadable and unknown events stay."""
    middle = "".join(events).replace("\n", end).encode()
    stream = FIRST.replace("\n", end).encode() + middle + LAST.replace("\n", end).encode()
    edges = sorted({0, len(stream), *(place % len(stream) for place in places)})
    through = stage()
    out = b"".join(b"".join(through.feed([stream[start:stop]])) for start, stop in pairwise(edges))
    out += b"".join(through.flush())

    ours = {"id": "resp_ours", "previous_response_id": "resp_0", "store": True}
    first, *_, last = (json.loads(each.data)["response"] for each in _whole(out))
    assert middle in out
    assert first == {**RESPONSE, **ours, "status": "in_progress"}
    assert last == {**RESPONSE, **ours, "status": "completed", "output": []}
    assert through.complete and json.loads(b"".join(Kept.decode(encode(through.rendered, (), {})).response)) == last
    assert through.usage is not None and through.usage.input_tokens == 3
    assert len(list(SseDecoder().feed([out]))) == len(list(SseDecoder().feed([stream])))


def _whole(out: bytes) -> list[Any]:
    return [each for each in SseDecoder().feed([out]) if '"resp_ours"' in each.data]


def test_a_cut_answer_is_not_kept() -> None:
    """Without its last event there is nothing to keep, and the client is told so."""
    through = stage()
    assert b"".join(through.feed([FIRST.encode()]))
    with pytest.raises(UpstreamProtocolError) as caught:
        list(through.flush())
    assert not through.complete
    assert b'"resp_ours"' in b"".join(through.error(caught.value))
