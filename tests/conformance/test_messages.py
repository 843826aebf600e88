"""Messages through the official Python client, which validates every body and event.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from anthropic.types import Message

from tests.conformance.asking import MODEL, NATIVE, SENTENCE, City, user
from tests.conformance.clients import SETTINGS, Clients
from tests.conformance.gateways import KEY, Gateway

Params = dict[str, Any]

VERSIONS = ("2026-10-21", "2023-06-01")


def ask(client: anthropic.Anthropic, content: Any, **params: Any) -> Message:
    return client.messages.create(**{"model": MODEL, "max_tokens": 1000, "messages": user(content), **params})


def helper(client: Any, content: Any, **params: Any) -> Any:
    """The message that `.stream()` folds."""
    with client.messages.stream(**{"model": MODEL, "max_tokens": 1000, "messages": user(content), **params}) as stream:
        return stream.get_final_message()


def comparable(message: Any) -> Any:
    """All of a message but what differs from answer to answer."""
    return message.model_dump(exclude={"id", "usage"}, exclude_none=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_48_nonstream_strict(clients: Clients, gateway: Gateway, version: str) -> None:
    """F004: one body that the strict client accepts under both versions of the API."""
    client = clients.anthropic(gateway, version=version)
    answer = ask(client, "sim:text")
    (block,) = answer.content

    assert answer.id.startswith("msg_")
    assert (answer.type, answer.role, answer.model) == ("message", "assistant", MODEL)
    assert (block.type, getattr(block, "text", "")) == ("text", SENTENCE)
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0
    assert (answer.usage.cache_creation_input_tokens, answer.usage.cache_read_input_tokens) == (0, 0)
    assert (answer._request_id or "").startswith("req_")


@pytest.mark.parametrize("version", VERSIONS)
def test_49_stream_strict(clients: Clients, gateway: Gateway, version: str) -> None:
    """F002: every event validates; the message starts and stops, and so does its one block, in between."""
    client = clients.anthropic(gateway, version=version)
    with client.messages.create(model=MODEL, max_tokens=99, messages=user("sim:text"), stream=True) as stream:
        events = list(stream)
    kinds = [event.type for event in events]

    assert kinds[:2] == ["message_start", "content_block_start"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert "".join(event.delta.text for event in events[2:-3]) == SENTENCE  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "params"),
    [
        pytest.param("sim:text", {}, id="text"),
        pytest.param("sim:unicode", {}, id="unicode"),
        pytest.param("sim:count=300", {}, id="long"),
        pytest.param("sim:parallel", {}, id="tools"),
        pytest.param("sim:thinking", {}, id="thinking"),
        pytest.param("sim:redacted", {}, id="sealed-thinking"),
        pytest.param("sim:text sim:bytes", {}, id="byte-by-byte"),
        pytest.param("sim:text sim:chunks=7 sim:empty-frames sim:unknown-event", {}, id="noise"),
        pytest.param("sim:text", {"max_tokens": 2}, id="max-tokens"),
        pytest.param("sim:text sim:chunks=3", {"stop_sequences": ["answer"]}, id="stop-sequence"),
        pytest.param("sim:filtered", {}, id="refusal"),
        pytest.param("sim:text sim:no-trailers", {}, id="no-trailers"),
        pytest.param("sim:eof", {}, id="no-stop-reason"),
    ],
)
def test_50_helpers(messages: anthropic.Anthropic, content: str, params: Params) -> None:
    """F005: both `.stream()` helpers fold to what is answered without a stream; counts of the start survive."""
    answer = ask(messages, content, **params)
    plain, beta = helper(messages, content, **params), helper(messages.beta, content, **params)

    assert comparable(plain) == comparable(answer)
    assert comparable(beta) == comparable(answer)
    for usage in (answer.usage, plain.usage, beta.usage):
        assert usage.output_tokens > 0
        assert usage.input_tokens == answer.usage.input_tokens > 0


def test_50_counts_of_the_stream(messages: anthropic.Anthropic) -> None:
    """An estimate comes at the start and the truth at the end; nothing in between is zero for want of knowledge."""
    for content in ("sim:text", "sim:text sim:no-usage", "sim:text sim:no-trailers"):
        with messages.messages.create(model=MODEL, max_tokens=99, messages=user(content), stream=True) as stream:
            start, *_, delta, _ = list(stream)
        assert start.message.usage.input_tokens > 0  # type: ignore[union-attr]
        assert delta.usage.input_tokens != 0  # type: ignore[union-attr]
        assert delta.usage.output_tokens > 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("system", "conversation"),
    [
        pytest.param("Be brief.", user("sim:text"), id="text"),
        pytest.param(
            [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cc_entrypoint=cli"},
                {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
                {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral", "scope": "global"}},
            ],
            user([{"type": "text", "text": "sim:text", "cache_control": {"type": "ephemeral"}}]),
            id="blocks-with-cache-control",
        ),
        pytest.param(
            "Be brief.",
            [
                *user("Hello"),
                {"role": "assistant", "content": "Hi."},
                {"role": "system", "content": "Be kind."},
                *user("sim:text"),
            ],
            id="system-in-mid-conversation",
        ),
        pytest.param("Be brief.", [*user("One."), *user("sim:text")], id="same-role-twice"),
    ],
)
def test_55_system_blocks(messages: anthropic.Anthropic, system: Any, conversation: list[Any]) -> None:
    """Every way to put a system text is taken."""
    answer = messages.messages.create(model=MODEL, max_tokens=99, system=system, messages=conversation)

    assert answer.content[0].text == SENTENCE  # type: ignore[union-attr]


def test_56_stop_sequence(messages: anthropic.Anthropic) -> None:
    """The reason says that a sequence was met, and which one; the text ends before it."""
    answer = ask(messages, "sim:text", stop_sequences=["nowhere", "answer"])

    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "answer")
    assert answer.content[0].text == SENTENCE[: SENTENCE.index("answer")]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "params"),
    [
        pytest.param("sim:text", {"max_tokens": 1}, id="ours"),
        pytest.param("sim:length", {}, id="the-service"),
        pytest.param("sim:length-exception", {}, id="the-service-by-exception"),
        pytest.param("sim:cut-tool", {}, id="within-a-tool-call"),
    ],
)
def test_57_max_tokens(messages: anthropic.Anthropic, content: str, params: Params) -> None:
    """Whoever cut the answer, the reason says so."""
    answer = ask(messages, content, **params)

    assert answer.stop_reason == "max_tokens"
    assert [block.type for block in answer.content] == ["text"]


@pytest.mark.parametrize("model", [MODEL, NATIVE])
def test_58_output_format(messages: anthropic.Anthropic, model: str) -> None:
    """`.parse()` gets an instance, and so does the streaming helper."""
    asked: Params = {"model": model, "max_tokens": 999, "messages": user("About Oslo"), "output_format": City}
    parsed = messages.messages.parse(**asked).parsed_output
    with messages.messages.stream(**asked) as stream:
        streamed = stream.get_final_message().parsed_output

    assert isinstance(parsed, City)
    assert streamed == parsed


def test_59_betas(messages: anthropic.Anthropic) -> None:
    """Betas, known or made up, the old query and fields of betas never fail a request."""
    answer = messages.beta.messages.create(
        model=MODEL,
        max_tokens=99,
        messages=user("sim:text"),
        betas=["claude-code-20250219", "junk-2020-01-01", "context-management-2025-06-27"],
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        metadata={"user_id": '{"device_id":"d","session_id":"s"}'},
        service_tier="auto",
        extra_query={"beta": "true"},
        extra_headers={"x-app": "cli", "anthropic-dangerous-direct-browser-access": "true"},
        extra_body={
            "diagnostics": {"previous_message_id": None},
            "speed": "fast",
            "safeguards": {},
            "temperature": 0.5,
            "unknown_field": [1],
            "cache_control": {"type": "ephemeral"},
        },
    )

    assert answer.content[0].text == SENTENCE  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Authorization": f"Bearer {KEY}"}, id="bearer"),
        pytest.param({"Authorization": anthropic.Omit(), "X-Api-Key": KEY}, id="x-api-key"),
        pytest.param({"Authorization": f"bearer {KEY}", "X-Api-Key": KEY}, id="both"),
    ],
)
def test_60_auth(messages: anthropic.Anthropic, headers: Any) -> None:
    """F029: both ways to show a key work."""
    assert ask(messages, "sim:text", extra_headers=headers).content[0].text == SENTENCE  # type: ignore[union-attr]


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # the client leaves its own open, trio says
async def test_49_50_asynchronous_client(gateway: Gateway) -> None:
    """The asynchronous client gets the same, on both event loops."""
    asked: Params = {"model": MODEL, "max_tokens": 99, "messages": user("sim:text")}
    async with anthropic.AsyncAnthropic(base_url=gateway.base, api_key=KEY, max_retries=0, **SETTINGS) as client:
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            folded = await stream.get_final_message()

    assert comparable(folded) == comparable(whole)
    assert text == SENTENCE
