"""Places in a text, where the client has less of it than the service sent."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.model.message import fold
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from tests.helpers import cut
from tests.upstreams.openai.chunks import DONE, chunk, new_ids, sse

SENT = "<think>How far?</think>\n\nFjords are deep, and cold."
PAGE = {"title": "Fjords", "url": "https://example.org/"}


def annotated(words: str) -> dict[str, object]:
    start = SENT.index(words)
    page = {**PAGE, "start_index": start, "end_index": start + len(words)}
    return chunk({"annotations": [{"type": "url_citation", "url_citation": page}]})


def told(pieces: list[str], stop: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    """The text, and what of it is cited."""
    plan = Plan(thinking="remove", thinking_tags=("think",), stop=stop)
    answer = build_pipeline(OpenAIUpstream(new_id=new_ids()).decoder("text/event-stream"), plan)
    said = [chunk({"content": piece}) for piece in pieces]
    stream = sse(*said, annotated("deep"), annotated("cold"), chunk(finish="stop")) + DONE
    message = fold([*answer.feed([stream]), *answer.flush()])
    body = json.loads(b"".join(OpenAIChat().render(message, ResponseMeta("chatcmpl-1", "m", 1, ChatOptions()))))
    turn = body["choices"][0]["message"]
    places = [each["url_citation"] for each in turn.get("annotations", ())]
    return turn["content"], [turn["content"][each["start_index"] : each["end_index"]] for each in places]


@given(st.lists(st.integers(0, len(SENT))))
def test_places_are_those_of_the_text_that_the_client_has(cuts: list[int]) -> None:
    """Thinking that was left out is not counted, however the text was cut."""
    pieces = [piece.decode() for piece in cut(SENT.encode(), cuts)]

    assert told(pieces) == ("Fjords are deep, and cold.", ["deep", "cold"])


def test_an_answer_that_ends_at_a_stop_sequence_has_no_sources_from_behind_it() -> None:
    """They come when the answer has ended, and nobody knows any more what they are for."""
    assert told([SENT], stop=(", and",)) == ("Fjords are deep", [])
