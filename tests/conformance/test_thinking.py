"""Thinking through the official clients, in each API, streamed and collected."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.simulator import Head, Layout, answer, text, thinking, tool_call
from tests.conformance.asked import EACH_API, EACH_WAY, Seen, ask
from tests.conformance.asking import MODEL, NATIVE
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

ASKED: dict[str, Any] = {
    "messages": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    "chat": {"reasoning_effort": "high"},
    "responses": {"reasoning": {"effort": "high"}},
}
ENDS = {"messages": "end_turn", "chat": "stop", "responses": "completed"}
STOPS = {"messages": "stop_sequences", "chat": "stop"}


@pytest.fixture
def said(clients: Clients, scripted: Gateway) -> Any:
    """Asks, where the service answers with these events."""

    def make(api: str, stream: bool, *events: Any, model: str = MODEL, **more: Any) -> Seen:
        assert scripted.service is not None
        scripted.service.enqueue(answer(*events, head=Head(layout=Layout(write=1))))
        return ask(clients, scripted, api, "think", stream=stream, model=model, **more)

    return make


@EACH_WAY
@EACH_API
@pytest.mark.parametrize("pieces", [["<thinking>hm</thinking>\n\n Hello\n"], [*"<thinking>hm</thinking>\n\n Hello\n"]])
def test_white_space_behind_thinking_belongs_to_neither(said: Any, api: str, stream: bool, pieces: list[str]) -> None:
    """F161: it is dropped, however it is cut; what stands elsewhere stays."""
    seen = said(api, stream, *text(*pieces), **ASKED[api])

    assert (seen.thinking, seen.text) == ("hm", "Hello\n")


@EACH_WAY
@EACH_API
def test_nothing_but_white_space_is_no_text(said: Any, api: str, stream: bool) -> None:
    """F161: then the answer is thinking only, or thinking and a call."""
    seen = said(api, stream, *text("<thinking>hm</thinking>", "\n", "\n"), **ASKED[api])
    assert (seen.thinking, seen.text, seen.stop) == ("hm", "", ENDS[api])

    events = (*text("<thinking>hm</thinking>", "\n\n"), *tool_call("f", {"a": 1}))
    seen = said(api, stream, *events, tools={"f": {"type": "object"}}, **ASKED[api])
    assert (seen.thinking, seen.text, seen.calls) == ("hm", "", (("f", {"a": 1}),))


@EACH_WAY
@pytest.mark.parametrize("api", STOPS)
def test_stop_sequences_see_what_the_client_sees(said: Any, api: str, stream: bool) -> None:
    """White space that is dropped ends nothing; what stands in the answer does."""
    stop = {STOPS[api]: ["\n\n"]}
    seen = said(api, stream, *text("<thinking>hm</thinking>\n\nHello\n\nno"), **stop, **ASKED[api])

    assert (seen.thinking, seen.text) == ("hm", "Hello")


@EACH_WAY
@EACH_API
def test_a_leading_tag_counts_where_thinking_was_asked_for(said: Any, api: str, stream: bool) -> None:
    """Also for a model that the table calls native, until its own thinking has come; where thinking was not asked for,
    tags are text."""
    tagged = text("<think>hm</think>\n\nHello")

    assert _shown(said(api, stream, *tagged, model=NATIVE, **ASKED[api])) == ("hm", "Hello")
    seen = said(api, stream, *thinking("native"), *tagged, model=NATIVE, **ASKED[api])
    assert _shown(seen) == ("native", "<think>hm</think>\n\nHello")
    for model in (MODEL, NATIVE):
        assert _shown(said(api, stream, *tagged, model=model)) == ("", "<think>hm</think>\n\nHello")


def _shown(seen: Seen) -> tuple[str, str]:
    return seen.thinking, seen.text


@EACH_WAY
@pytest.mark.parametrize("model", [MODEL, NATIVE], ids=["tags", "native"])
def test_thinking_can_be_omitted(clients: Clients, scripted: Gateway, stream: bool, model: str) -> None:
    """``display: "omitted"``: no text of thinking, but its signature; it is thinking that is counted."""
    assert scripted.service is not None
    thought = thinking("native") if model == NATIVE else text("<thinking>native</thinking>\n")
    scripted.service.enqueue(answer(*thought, *text("Hello")))
    client = clients.anthropic(scripted)
    params: dict[str, Any] = {
        "model": model,
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "think"}],
        "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"},
    }
    if stream:
        with client.messages.stream(**params) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**params)
    thoughts = [block for block in message.content if block.type == "thinking"]

    assert [block.text for block in message.content if block.type == "text"] == ["Hello"]
    assert [block.thinking for block in thoughts] == ([""] if model == NATIVE else [])
    assert all(block.signature for block in thoughts)
