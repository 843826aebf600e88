"""Counts and signatures are the same for every client."""

from __future__ import annotations

import json

from kiro_asgi.model.message import fold
from kiro_asgi.testing.grammar import messages as anthropic_grammar
from tests.regressions.crossing import (
    CLIENTS,
    MESSAGES,
    both_ways,
    events,
    heard,
    told,
)
from tests.regressions.speech import COUNTED, DONE, USAGE, Call, Say, event, spoken, stream

CALL = Call("c1", "f", {"a": 1})


def test_counts_that_come_again_do_not_add_up() -> None:
    """§1.4: reports are cumulative; the last one counts."""
    for upstream, plural in (("gemini", "usageMetadata"), ("openai", "usage")):
        values = spoken(upstream, Say("a"), Say("b"))
        values = [value if value == DONE else {**value, plural: USAGE[upstream]} for value in values]
        for client in CLIENTS:
            assert heard(client, True, upstream, [stream(values)]).usage == COUNTED


def test_what_was_written_to_a_cache_is_counted() -> None:
    """§2.3: it is not always 0."""
    values = spoken("anthropic", Say("a"))
    values[0]["message"]["usage"]["cache_creation_input_tokens"] = 5

    assert {heard(client, True, "anthropic", [stream(values)]).usage for client in CLIENTS} == {(25, 8, 12)}
    [*_, end, _] = anthropic_grammar.parse_sse(told(MESSAGES, "anthropic", [stream(values)]))
    assert end["usage"]["cache_creation_input_tokens"] == 5


SIGNED = [
    event({"text": "hm", "thought": True, "thoughtSignature": "dGhvdWdodA=="}),
    event({"text": "a", "thoughtSignature": "dGV4dA=="}),
    event({"text": "so", "thought": True}),
    event({"functionCall": {"name": "f"}, "thoughtSignature": "Y2FsbA=="}, {"functionCall": {"name": "g"}}),
    event({"text": "", "thoughtSignature": "ZW5k"}, finish="STOP"),
]
"""Signatures that are, decoded, readable words."""


@both_ways
def test_signatures_are_the_same_streamed_and_collected(streamed: bool) -> None:
    """§1.8, §2.3: none is lost, decoded, or moved to thinking that it does not belong to."""
    assert heard(MESSAGES, streamed, "gemini", [stream(SIGNED)]).signatures == [
        "gemini.thought:dGhvdWdodA==", "gemini.text:dGV4dA==", "gemini.call:Y2FsbA==", "gemini.text:ZW5k"
    ]  # fmt: skip
    chat = next(client for client in CLIENTS if client.name == "chat")
    assert heard(chat, streamed, "gemini", [stream(SIGNED)]).signatures == ["Y2FsbA=="]


def test_a_body_of_messages_holds_the_blocks_of_the_stream() -> None:
    """§2.3: block for block, so that what one client sees every client sees."""
    streamed = anthropic_grammar.check(told(MESSAGES, "gemini", [stream(SIGNED)]))
    body = json.loads(b"".join(MESSAGES.dialect.render(fold(events("gemini", [stream(SIGNED)])), MESSAGES.meta)))
    assert streamed["content"] == body["content"]
