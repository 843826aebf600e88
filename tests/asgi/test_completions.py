"""The older Completions API, as the official client sees it, at each service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pytest
from openai.types import Completion

from kiro_asgi import create_app
from kiro_asgi.simulator import Head, RawBytes, answer, text
from tests.asgi.conftest import settings_for
from tests.asgi.driver import post
from tests.asgi.test_restart import frame

pytestmark = pytest.mark.anyio

MODEL = "claude-sonnet-4.5"
SERVICES = (MODEL, "gemini/gemini-2.5-flash", "anthropic/claude-haiku-4-5", "openai/gpt-5")

SDK = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
"""Under trio the official client leaves its generators to the garbage collector."""

EACH_WAY = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])


@pytest.fixture
async def client(sim) -> AsyncIterator[openai.AsyncOpenAI]:
    direct = {name: {"endpoint": sim.url, "api_key": "k"} for name in ("gemini", "anthropic")}
    app = create_app(settings_for(sim.url, {**direct, "openai": {"endpoint": f"{sim.url}/v1", "api_key": "k"}}))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
        yield openai.AsyncOpenAI(base_url="http://gateway/v1", api_key="k", http_client=http, max_retries=0)
    await app.aclose()


async def asked(client: openai.AsyncOpenAI, prompt: Any, *, stream: bool, **more: Any) -> Completion:
    """The answer, of which a stream is put together."""
    if not stream:
        return await client.completions.create(**{"model": MODEL, "prompt": prompt, **more})
    options: Any = {"include_usage": True}
    whole: Completion | None = None
    chunks = await client.completions.create(
        **{"model": MODEL, "prompt": prompt, "stream": True, "stream_options": options, **more}
    )
    async for chunk in chunks:
        if whole is None:
            whole = chunk
        elif chunk.choices:
            whole.choices[0].text += chunk.choices[0].text
            whole.choices[0].finish_reason = chunk.choices[0].finish_reason
        else:
            whole.usage = chunk.usage
    assert whole is not None
    return whole


@SDK
@EACH_WAY
@pytest.mark.parametrize("model", SERVICES)
async def test_each_service_answers(client, sim, model, stream):
    """Text, why it ended, and token counts; the model is called what the client calls it."""
    completion = await asked(client, "sim:count=4", stream=stream, model=model)

    assert completion.choices[0].text.endswith("1 2 3 4 ")
    assert (completion.object, completion.model) == ("text_completion", model)
    assert completion.id.startswith("cmpl-")
    assert (completion.choices[0].finish_reason, completion.choices[0].index) == ("stop", 0)
    usage = completion.usage
    assert usage is not None
    assert usage.prompt_tokens > 0 < usage.completion_tokens
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


@SDK
@EACH_WAY
async def test_the_prompt_is_what_the_user_says(client, sim, stream):
    """A list of one text is that text; with ``echo`` the answer begins with it."""
    completion = await asked(client, ["sim:count=2"], stream=stream, echo=True)

    assert completion.choices[0].text.startswith("sim:count=2")
    assert completion.choices[0].text.endswith("1 2 ")
    assert b"sim:count=2" in sim.requests[-1].body


@SDK
@EACH_WAY
@pytest.mark.parametrize(
    ("more", "said", "reason"),
    [
        pytest.param({"stop": " 3"}, "2", "stop", id="stop"),
        pytest.param({"stop": ["x", " 3"]}, "2", "stop", id="stops"),
        pytest.param({"max_tokens": 1}, "", "length", id="max-tokens"),
    ],
)
async def test_an_answer_ends_where_it_is_to(client, sim, more, said, reason, stream):
    """At a stop sequence, which is not part of it, and where it is long enough."""
    sim.enqueue(answer(*text("1 ", "2 ", "3 ", "4 ")))
    completion = await asked(client, "count", stream=stream, **more)

    assert completion.choices[0].text.endswith(said)
    assert "3" not in completion.choices[0].text
    assert completion.choices[0].finish_reason == reason


@SDK
@EACH_WAY
async def test_no_tokens_at_all_are_the_prompt_again(client, sim, stream):
    """``max_tokens`` 0 with ``echo`` asks nobody."""
    completion = await asked(client, "hello", stream=stream, echo=True, max_tokens=0)

    assert (completion.choices[0].text, completion.choices[0].finish_reason) == ("hello", "length")
    assert not [request for request in sim.requests if b"hello" in request.body]


@SDK
@EACH_WAY
async def test_there_is_room_for_text_alone(client, sim, stream):
    """Thinking stays out of it."""
    completion = await asked(client, "sim:think", stream=stream)

    assert completion.choices[0].text
    assert "thought" not in completion.choices[0].text.lower()


@SDK
@EACH_WAY
@pytest.mark.parametrize(
    ("params", "param", "words"),
    [
        pytest.param({"prompt": ["a", "b"]}, "prompt", "only one prompt can be answered, got 2", id="prompts"),
        pytest.param({"prompt": [1, 2]}, "prompt", "tokens cannot be read", id="tokens"),
        pytest.param({"prompt": [[1, 2]]}, "prompt", "tokens cannot be read", id="lists-of-tokens"),
        pytest.param({"prompt": ""}, "prompt", "is empty", id="empty"),
        pytest.param({"prompt": []}, "prompt", "send text", id="none"),
        pytest.param({"prompt": None}, "prompt", "send text", id="null"),
        pytest.param({"suffix": "end"}, "suffix", "comes after it", id="suffix"),
        pytest.param({"n": 2}, "n", "only one choice", id="n"),
        pytest.param({"best_of": 2}, "best_of", "only one choice", id="best-of"),
        pytest.param({"logprobs": 0}, "logprobs", "not available", id="logprobs"),
        pytest.param({"max_tokens": -1}, "max_tokens", "at least 0", id="max-tokens"),
        pytest.param({"temperature": 3}, "temperature", "between 0 and 2", id="temperature"),
        pytest.param({"stop": list("abcde")}, "stop", "at most 4", id="stops"),
        pytest.param({"model": ""}, "model", "name a model", id="model"),
    ],
)
async def test_what_cannot_be_done_is_refused(client, sim, params, param, words, stream):
    """A 400 that names the field; nobody is asked."""
    with pytest.raises(openai.BadRequestError, match=words) as caught:
        await asked(client, **{"prompt": "hi", "stream": stream, **params})

    assert caught.value.param == param
    assert sim.requests == ()


async def test_messages_are_for_another_path(sim):
    """A client that has the wrong path is told the right one."""
    app = create_app(settings_for(sim.url, {}))
    exchange = await post("/v1/completions", {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}).run(app)

    assert exchange.status == 400
    assert "/v1/chat/completions" in exchange.json()["error"]["message"]


@SDK
@EACH_WAY
async def test_an_error_of_the_service_before_the_answer(client, sim, stream):
    """It has a status, in OpenAI's words."""
    with pytest.raises(openai.APIStatusError) as caught:
        await asked(client, "sim:suspended", stream=stream)

    assert caught.value.status_code in (403, 502, 503)
    assert caught.value.code == "upstream_account_suspended"


@SDK
async def test_an_error_within_the_stream(client, sim):
    """The official client raises it, after what there was."""
    whole = frame("one ") + frame("never")[:40]
    sim.enqueue((Head(length=len(whole)), RawBytes(whole)))
    said = []
    with pytest.raises(openai.APIError) as caught:
        async for chunk in await client.completions.create(model=MODEL, prompt="hi", stream=True):
            said.append(chunk.choices[0].text)

    assert said == ["one "]
    assert caught.value.code == "stream_error"


async def test_counts_in_the_finish_chunk(sim):
    """``stream.usage_chunk`` counts here, too: no chunk is without a choice."""
    app = create_app(settings_for(sim.url, {"stream": {"usage_chunk": "finish"}}))
    exchange = await post("/v1/completions", {"model": MODEL, "prompt": "sim:count=2", "stream": True}).run(app)
    await app.aclose()
    *_, last, done, _ = exchange.content.split(b"\n\n")

    assert done == b"data: [DONE]"
    assert b'"finish_reason":"stop"' in last
    assert b'"usage":{"prompt_tokens":' in last
