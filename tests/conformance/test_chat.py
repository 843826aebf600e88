"""Chat Completions through the official Python client, which validates every body and chunk.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.conformance.asking import MODEL, NATIVE, PNG, SENTENCE, TEXT_ONLY, THOUGHT, City, user
from tests.conformance.clients import SETTINGS
from tests.conformance.gateways import KEY, Gateway, watched

Params = dict[str, Any]


def ask(client: openai.OpenAI, content: Any, **params: Any) -> ChatCompletion:
    return client.chat.completions.create(model=params.pop("model", MODEL), messages=user(content), **params)


def chunks(client: openai.OpenAI, content: Any, **params: Any) -> list[ChatCompletionChunk]:
    model = params.pop("model", MODEL)
    with client.chat.completions.create(model=model, messages=user(content), stream=True, **params) as stream:
        return list(stream)


def text(received: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in received for choice in chunk.choices)


def test_1_nonstream_strict(chat: openai.OpenAI) -> None:
    """F004: one body that the strict client accepts, with usage and a request id."""
    answer = ask(chat, "sim:text")
    (choice,) = answer.choices

    assert answer.id.startswith("chatcmpl-")
    assert (answer.object, answer.model, answer.service_tier) == ("chat.completion", MODEL, "default")
    assert (choice.index, choice.finish_reason, choice.message.role) == (0, "stop", "assistant")
    assert (choice.message.content, choice.message.refusal, choice.message.tool_calls) == (SENTENCE, None, None)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 0
    assert answer.usage.completion_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert (answer._request_id or "").startswith("req_")


def test_3_stream_strict(chat: openai.OpenAI) -> None:
    """F001, F005: every chunk validates, all have one id and model, the role comes once, one reason ends it."""
    received = chunks(chat, "sim:text")
    choices = [choice for chunk in received for choice in chunk.choices]

    assert len({(chunk.id, chunk.model, chunk.created, chunk.object) for chunk in received}) == 1
    assert [choice.delta.role for choice in choices] == ["assistant", *[None] * (len(choices) - 1)]
    assert [choice.finish_reason for choice in choices] == [*[None] * (len(choices) - 1), "stop"]
    assert text(received) == SENTENCE
    assert len(received) > 5


@pytest.mark.parametrize(
    ("content", "params"),
    [
        pytest.param("sim:text", {}, id="text"),
        pytest.param("sim:unicode", {}, id="unicode"),
        pytest.param("sim:count=500", {}, id="long"),
        pytest.param("sim:text sim:bytes", {}, id="byte-by-byte"),
        pytest.param("sim:text sim:empty-frames sim:unknown-event", {}, id="noise"),
        pytest.param("What is 2 + 3?", {"reasoning_effort": "high", "model": NATIVE}, id="thinking"),
        pytest.param("sim:length", {}, id="cut-by-the-service"),
    ],
)
def test_4_python_helper(chat: openai.OpenAI, content: str, params: Params) -> None:
    """F005: what `.stream()` folds equals the answer that is not streamed; the role is not doubled."""
    whole = ask(chat, content, **params).choices[0]
    model = params.get("model", MODEL)
    rest = {name: value for name, value in params.items() if name != "model"}
    with chat.chat.completions.stream(model=model, messages=user(content), **rest) as stream:
        for _ in stream:
            pass
        folded = stream.current_completion_snapshot.choices[0]

    assert folded.message.role == "assistant"
    assert folded.message.content == whole.message.content
    assert folded.finish_reason == whole.finish_reason


@pytest.mark.parametrize("content", ["sim:text", "sim:tool", "sim:no-trailers"])
def test_8_usage_on(chat: openai.OpenAI, content: str) -> None:
    """Exactly one chunk without choices holds the usage; it is the last, and the others have none."""
    *before, last = chunks(chat, content, stream_options={"include_usage": True})

    assert last.choices == []
    assert last.usage is not None
    assert last.usage.prompt_tokens > 0
    assert last.usage.completion_tokens > 0
    assert [chunk.usage for chunk in before if chunk.usage is not None or not chunk.choices] == []


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}, {"stream_options": None}])
def test_9_usage_off(chat: openai.OpenAI, options: Params) -> None:
    """No usage unless asked for: clients index `choices[0]` blindly."""
    received = chunks(chat, "sim:text", **options)

    assert [chunk for chunk in received if chunk.usage is not None or not chunk.choices] == []


@pytest.mark.parametrize("model", [MODEL, NATIVE])
def test_15_json_schema(chat: openai.OpenAI, model: str) -> None:
    """`.parse()` gets an instance, streamed or not."""
    asked: Params = {"model": model, "messages": user("Tell me about Oslo"), "response_format": City}
    parsed = chat.chat.completions.parse(**asked).choices[0].message.parsed
    with chat.chat.completions.stream(**asked) as stream:
        streamed = stream.get_final_completion().choices[0].message.parsed

    assert isinstance(parsed, City)
    assert streamed == parsed


def test_16_json_object(chat: openai.OpenAI) -> None:
    """The content is JSON."""
    answer = ask(chat, "Tell me about Oslo.", response_format={"type": "json_object"})

    assert isinstance(json.loads(answer.choices[0].message.content or ""), dict)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_17_length(chat: openai.OpenAI, name: str) -> None:
    """The limit ends the answer with its own reason; the helper complains only when the whole is asked for."""
    answer = ask(chat, "sim:text", **{name: 1}).choices[0]
    seen = []
    with chat.chat.completions.stream(model=MODEL, messages=user("sim:text"), **{name: 1}) as stream:
        seen.extend(stream)
        with pytest.raises(openai.LengthFinishReasonError):
            stream.get_final_completion()

    assert answer.finish_reason == "length"
    assert answer.message.content
    assert SENTENCE.startswith(answer.message.content)
    assert seen[-1].type != "error"


@pytest.mark.parametrize("stop", ["answer", ["nowhere", "answer"], ["1", "2", "3", "answer"]], ids=["one", "two", "4"])
def test_18_stop(chat: openai.OpenAI, stop: Any) -> None:
    """A stop text ends the answer and is not part of it, wherever the service cut its pieces."""
    whole = ask(chat, "sim:text", stop=stop).choices[0]
    streamed = chunks(chat, "sim:text sim:chunks=3", stop=stop)

    assert (whole.finish_reason, whole.message.content) == ("stop", SENTENCE[: SENTENCE.index("answer")])
    assert text(streamed) == whole.message.content


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(
            [
                {"role": "developer", "content": "Be brief.", "name": "dev"},
                {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
                {"role": "user", "content": "sim:text", "name": "someone"},
            ],
            id="developer-system-names",
        ),
        pytest.param(
            [
                {"role": "user", "content": "Hello"},
                {"role": "system", "content": "Be brief."},
                {"role": "assistant", "content": [{"type": "text", "text": "Hi."}], "refusal": None},
                {"role": "user", "content": [{"type": "text", "text": "sim:"}, {"type": "text", "text": "text"}]},
                {"role": "user", "content": [{"type": "text", "text": "sim:text"}]},
            ],
            id="system-in-the-middle-and-parts",
        ),
        pytest.param(
            [
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Hi.", "reasoning_content": "A greeting."},
                {"role": "user", "content": "sim:text"},
            ],
            id="replayed-reasoning",
        ),
    ],
)
def test_19_roles(chat: openai.OpenAI, messages: list[Any]) -> None:
    """Every role, names and content parts are taken."""
    assert chat.chat.completions.create(model=MODEL, messages=messages).choices[0].message.content == SENTENCE


def _picture(address: str) -> list[Any]:
    return [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": address}}]


def test_20_image(chat: openai.OpenAI) -> None:
    """An image reaches a model that takes images, and is refused for one that does not."""
    picture = _picture(f"data:image/png;base64,{PNG}")
    with pytest.raises(openai.BadRequestError) as refused:
        ask(chat, picture, model=TEXT_ONLY)

    assert "1 image" in (ask(chat, picture).choices[0].message.content or "")
    assert (refused.value.type, refused.value.param) == (
        "invalid_request_error",
        "messages[0].content[1].image_url.url",
    )


IGNORED: Params = {
    "store": True,
    "metadata": {"topic": "demo"},
    "user": "someone",
    "safety_identifier": "someone",
    "service_tier": "flex",
    "seed": 7,
    "prompt_cache_key": "cache",
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "logit_bias": {"50256": -100},
    "temperature": 0.2,
    "top_p": 0.9,
    "verbosity": "low",
    "prediction": {"type": "content", "content": "This"},
    "extra_body": {"unknown_field": {"deep": [1]}, "top_k": 5, "min_p": 0.1, "guided_json": {}},
    "extra_query": {"unknown": "query"},
    "extra_headers": {"openai-organization": "org", "x-unknown": "1", "accept": "application/json"},
}


@pytest.mark.parametrize("name", IGNORED)
def test_21_ignore(chat: openai.OpenAI, name: str) -> None:
    """Harmless fields, known or not, never fail a request; the tier echoed is one that clients know."""
    answer = ask(chat, "sim:text", **{name: IGNORED[name]})

    assert (answer.choices[0].message.content, answer.service_tier) == (SENTENCE, "default")


@pytest.mark.parametrize(
    ("params", "code", "param"),
    [
        pytest.param({"modalities": ["text", "audio"]}, "unsupported_value", "modalities", id="22-modalities"),
        pytest.param({"audio": {"voice": "alloy", "format": "wav"}}, "unsupported_value", "audio", id="22-audio"),
        pytest.param({"n": 2}, "unsupported_value", "n", id="22-23-n"),
        pytest.param({"logprobs": True}, "unsupported_value", "logprobs", id="22-logprobs"),
        pytest.param({"stop": ["1", "2", "3", "4", "5"]}, "invalid_value", "stop", id="18-five-stops"),
        pytest.param({"max_tokens": 0}, "invalid_value", "max_tokens", id="22-max-tokens"),
        pytest.param({"temperature": 3}, "invalid_value", "temperature", id="22-temperature"),
        pytest.param({"messages": []}, "missing_required_parameter", "messages", id="22-no-messages"),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_22_reject(chat: openai.OpenAI, params: Params, code: str, param: str, stream: bool) -> None:
    """What cannot be honoured is refused with a code and the place, before anything is streamed."""
    with pytest.raises(openai.BadRequestError) as refused:
        chat.chat.completions.create(**{"model": MODEL, "messages": user("sim:text"), "stream": stream, **params})

    assert (refused.value.type, refused.value.code, refused.value.param) == ("invalid_request_error", code, param)


@pytest.mark.parametrize(
    ("content", "params", "thought"),
    [
        pytest.param("sim:thinking", {"model": NATIVE}, THOUGHT, id="native"),
        pytest.param("sim:tagged", {"reasoning_effort": "low"}, THOUGHT, id="tags"),
        pytest.param("sim:thinking", {"reasoning_effort": "none", "model": NATIVE}, "", id="declined"),
        pytest.param("sim:text", {"model": NATIVE}, "", id="none"),
    ],
)
def test_26_reasoning(chat: openai.OpenAI, content: str, params: Params, thought: str) -> None:
    """Reasoning comes before the content, and its pieces are the whole that the other mode answers with."""
    whole = ask(chat, content, **params).choices[0].message
    deltas = [choice.delta for chunk in chunks(chat, content, **params) for choice in chunk.choices]
    kinds = ["r" if getattr(delta, "reasoning_content", None) else "c" for delta in deltas if _says_something(delta)]
    reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)

    assert (whole.model_extra or {}).get("reasoning_content", "") == reasoning == thought
    assert "".join(kinds).lstrip("r").strip("c") == ""
    assert (whole.content or "").strip() == SENTENCE


def _says_something(delta: Any) -> bool:
    return bool(delta.content or getattr(delta, "reasoning_content", None))


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # the client leaves its own open, trio says
async def test_1_3_asynchronous_client(gateway: Gateway) -> None:
    """The asynchronous client gets the same, on both event loops."""
    async with openai.AsyncOpenAI(base_url=gateway.openai_base, api_key=KEY, max_retries=0, **SETTINGS) as client:
        whole = await client.chat.completions.create(model=MODEL, messages=user("sim:text"))
        async with await client.chat.completions.create(model=MODEL, messages=user("sim:text"), stream=True) as stream:
            received = [chunk async for chunk in stream]

    assert whole.choices[0].message.content == text(received) == SENTENCE


@pytest.fixture(scope="module")
def finishing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    """A client of a gateway that tells token counts in the finish chunk."""
    folder = tmp_path_factory.mktemp("finishing")
    with (
        watched(folder, KIRO_ASGI__STREAM__USAGE_CHUNK="finish") as gateway,
        openai.OpenAI(base_url=gateway.openai_base, api_key=KEY, _strict_response_validation=True) as client,
    ):
        yield client


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
def test_264_usage_in_the_finish_chunk(finishing: openai.OpenAI, options: Params) -> None:
    """F264: the counts stand where the reason does, asked for or not, and never in a chunk of their own as well."""
    received = chunks(finishing, "sim:text", **options)
    telling = [chunk for chunk in received if chunk.usage is not None]

    assert all(chunk.choices for chunk in received)
    assert [chunk.choices[0].finish_reason for chunk in telling] == ["stop"]
    assert telling[0].usage is not None
    assert telling[0].usage.completion_tokens > 0
