"""The official Python client, in its strict mode, in front of the dialect without a network between them."""

from __future__ import annotations

import httpx2
import openai
import pytest

from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.errors import KiroAsgiError, UpstreamOverloaded
from kiro_asgi.model.events import Event, StopReason, Usage
from kiro_asgi.model.message import Message, TextBlock, ThinkingBlock, ToolCallBlock, replay

USAGE = Usage(7, 5, 2, 1, 3)
MESSAGE = Message(
    (
        ThinkingBlock("hm", "sig"),
        TextBlock("Hello\u2028\r\nyou"),
        ToolCallBlock("call_1", "f", "{}"),
        ToolCallBlock("call_2", "g", '{"x":1}'),
    ),
    StopReason.TOOL_CALL,
    usage=USAGE,
)


def client(broken: KiroAsgiError | None = None) -> openai.OpenAI:
    """A client whose server parses the request and answers with `MESSAGE`, or breaks off half-way."""
    dialect = OpenAIChat()

    def answer(request: httpx2.Request) -> httpx2.Response:
        parsed = dialect.parse(request.read())
        meta = dialect.meta(parsed, lambda: "x" * 24, 12)
        if not parsed.stream:
            return httpx2.Response(200, content=b"".join(dialect.render(MESSAGE, meta)), headers=JSON)
        encoder = dialect.encoder(meta)
        events: list[Event] = list(replay(MESSAGE))
        if broken is not None:
            body = b"".join(encoder.feed(events[:7])) + b"".join(encoder.error(broken))
        else:
            body = b"".join([*encoder.feed(events), *encoder.flush()])
        return httpx2.Response(200, content=body, headers={"content-type": "text/event-stream"})

    return openai.OpenAI(
        api_key="k",
        base_url="http://gateway/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
        _strict_response_validation=True,
    )


JSON = {"content-type": "application/json"}


def test_collected() -> None:
    """A whole answer passes strict validation and holds everything."""
    with client() as sdk:
        whole = sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    message = whole.choices[0].message
    assert message.content == "Hello\u2028\r\nyou"
    assert [call.id for call in message.tool_calls or ()] == ["call_1", "call_2"]
    assert whole.usage is not None and whole.usage.total_tokens == 15


def test_streamed() -> None:
    """The SDK's stream helper ends up with the same message, its usage included."""
    with (
        client() as sdk,
        sdk.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": "hi"}], stream_options={"include_usage": True}
        ) as stream,
    ):
        final = stream.get_final_completion()
    choice = final.choices[0]
    assert (choice.message.role, choice.message.content) == ("assistant", "Hello\u2028\r\nyou")
    assert [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls or ()] == [
        ("call_1", "f", "{}"),
        ("call_2", "g", '{"x":1}'),
    ]
    assert choice.finish_reason == "tool_calls"
    assert final.usage is not None and final.usage.prompt_tokens == 10


def test_broken_off() -> None:
    """F024, F085: an error inside the stream is raised by the client, with its message and its class."""
    with client(UpstreamOverloaded("No capacity.")) as sdk:
        stream = sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
        with pytest.raises(openai.APIError, match=r"No capacity\.") as caught:
            list(stream)
    assert (caught.value.code, caught.value.type) == ("stream_error", "overloaded_error")
