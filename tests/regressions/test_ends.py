"""How an answer ended is how every client hears it end."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.model.events import StopReason
from kiro_asgi.upstreams.gemini.answer import STOPS
from tests.regressions.crossing import (
    Client,
    both_ways,
    each_client,
    each_upstream,
    heard,
    told,
)
from tests.regressions.speech import COUNTED, DONE, USAGE, Call, Say, Think, event, spoken, stream

CALL = Call("c1", "f", {"a": 1})


@both_ways
@each_client
@each_upstream
@pytest.mark.parametrize("end", ["end", "length", "filter"])
def test_ends(upstream: str, client: Client, streamed: bool, end: str) -> None:
    """§2.2, §2.3, §3.9: limits and filters are told as such."""
    sent = stream(spoken(upstream, Say("a"), end=end))

    assert heard(client, streamed, upstream, [sent]).end == end


@both_ways
@each_client
@each_upstream
@pytest.mark.parametrize("end", ["length", "filter", "call"])
def test_a_call_does_not_hide_how_the_answer_ended(upstream: str, client: Client, streamed: bool, end: str) -> None:
    """§2.2: an answer with a call that met a limit has met a limit."""
    found = heard(client, streamed, upstream, [stream(spoken(upstream, Say("a"), CALL, end=end))])

    assert (found.end, found.calls) == (end, [("f", {"a": 1})])


@each_client
@each_upstream
def test_no_foreign_word_is_passed_on(upstream: str, client: Client) -> None:
    """§2.2: a reason that nobody knew is an end in the client's own words."""
    sent = [stream(spoken(upstream, Say("a"), end="NOVELTY"))]

    assert heard(client, True, upstream, sent).end == "end"
    assert b"NOVELTY" not in told(client, upstream, sent)


@both_ways
@each_client
def test_what_follows_a_reason_is_told(client: Client, streamed: bool) -> None:
    """§2.3: a reason may come twice, with text between; there is one end, behind everything."""
    first, second = event({"text": "a"}, finish="STOP"), event({"text": "b"}, finish="MAX_TOKENS")
    found = heard(client, streamed, "gemini", [stream([first, second, {"usageMetadata": USAGE["gemini"]}])])

    assert (found.text, found.end, found.usage) == ("ab", "length", COUNTED)


@both_ways
@each_client
def test_a_prompt_that_was_filtered(client: Client, streamed: bool) -> None:
    """§2.2: without candidates, it is a filter's doing, and no empty success."""
    found = heard(client, streamed, "gemini", [stream([{"promptFeedback": {"blockReason": "SAFETY"}}])])

    assert found.end == "filter"


# Failures.

UNFINISHED: dict[str, list[Any]] = {
    upstream: [value for value in spoken(upstream, Think("hm"), Say("a"), CALL, end="call") if value != DONE][:-last]
    for upstream, last in (("gemini", 1), ("anthropic", 1), ("openai", 2))
}
ERRORS: dict[str, list[Any]] = {
    "gemini": [{"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}}],
    "anthropic": [{"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}],
    "openai": [{"error": {"message": "Busy.", "type": "server_error", "code": None}}],
}


@both_ways
@each_client
@each_upstream
@pytest.mark.parametrize("begun", [True, False], ids=["begun", "nothing-yet"])
def test_an_answer_that_stops_is_a_failure(upstream: str, client: Client, streamed: bool, begun: bool) -> None:
    """§2.2-§2.4, §3.9: without its end it is never taken for a whole one, and an end is never made up."""
    assert heard(client, streamed, upstream, [stream(UNFINISHED[upstream] if begun else [])]).end == "error"


@both_ways
@each_client
@pytest.mark.parametrize("word", sorted(word for word, meaning in STOPS.items() if not isinstance(meaning, StopReason)))
def test_a_generation_that_broke_is_a_failure(word: str, client: Client, streamed: bool) -> None:
    """§1.3, §2.2: it is neither an end nor a word that the client has never heard of."""
    values = spoken("gemini", Say("a"), end=word)

    assert heard(client, streamed, "gemini", [stream(values)]).end == "error"


@both_ways
@each_client
@each_upstream
def test_an_error_is_an_error(upstream: str, client: Client, streamed: bool) -> None:
    """§1.5, §2.3, §2.4, §3.9: what came before it is told, what comes behind it is not."""
    late = spoken(upstream, Say("late"))
    sent = [stream([*UNFINISHED[upstream], *ERRORS[upstream], *late])]

    assert heard(client, streamed, upstream, sent).end == "error"
    shown = told(client, upstream, sent)
    assert b"Busy." in shown and b"hm" in shown
    assert b"late" not in shown


@each_client
@each_upstream
def test_nothing_is_begun_for_an_answer_that_is_an_error(upstream: str, client: Client) -> None:
    """§2.3, §2.4: a client that was told nothing gets a status, so that another try is possible."""
    assert told(client, upstream, [stream(ERRORS[upstream])]) == b""
    assert told(client, upstream, []) == b""
