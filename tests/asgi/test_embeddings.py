"""Embeddings: through the whole gateway, in front of each simulated service that makes them."""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from collections.abc import AsyncIterator
from itertools import chain
from typing import Any

import anyio
import httpx2
import openai
import pytest

from kiro_asgi import App, Observer, create_app
from kiro_asgi.limits import EMBEDDING_DIMENSIONS, EMBEDDING_INPUTS
from kiro_asgi.observers import CallFacts, EndFacts
from kiro_asgi.quota.settings import hash_of
from kiro_asgi.simulator import Head, Pause, RawBytes, Simulator, Stall, json_answer, refusal
from kiro_asgi.simulator.embeddings import vector
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, get, post

pytestmark = pytest.mark.anyio

SDK = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
"""Under trio the official client leaves its connections to the garbage collector."""

PATH = "/v1/embeddings"
SMALL = "openai/text-embedding-3-small"
MODELS = {
    SMALL: (1_536, 256),
    "openai/text-embedding-3-large": (3_072, 256),
    "copy/text-embedding-3-small": (1_536, 256),
    "gemini/gemini-embedding-001": (3_072, 100),
    "bedrock/amazon.titan-embed-text-v2:0": (1_024, 1),
    "bedrock/amazon.titan-embed-text-v1": (1_536, 1),
    "bedrock/cohere.embed-v4:0": (1_536, 96),
    "bedrock/cohere.embed-multilingual-v3": (1_024, 96),
}
"""Model to the length of its vectors, and the inputs that its service takes at once."""

SHORTENED = {
    SMALL: 256,
    "gemini/gemini-embedding-001": 768,
    "bedrock/amazon.titan-embed-text-v2:0": 512,
    "bedrock/cohere.embed-v4:0": 512,
}
"""Model to a shorter length that it can be asked for."""


def services(sim: Simulator) -> dict[str, Any]:
    direct = {name: {"endpoint": sim.url, "api_key": "k", "models_ttl": 0.0} for name in ("gemini", "bedrock")}
    server = {"endpoint": f"{sim.url}/v1", "api_key": "k"}
    return {**direct, "openai": server, "custom": {"copy": server}}


class Seen(Observer):
    """What observers are told."""

    def __init__(self) -> None:
        self.ends: list[EndFacts] = []

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        self.ends.append(end)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
async def app(sim, seen) -> AsyncIterator[App]:
    made = create_app(settings_for(sim.url, services(sim)), observers=[seen])
    yield made
    await made.aclose()


async def embed(app: App, given: Any, model: str = SMALL, **more: Any) -> Exchange:
    return await post(PATH, {"model": model, "input": given, **more}).run(app)


def vectors_of(exchange: Exchange) -> list[list[float]]:
    """The vectors, in the order of their places; each place is there once."""
    assert exchange.status == 200, exchange.content
    data = exchange.json()["data"]
    assert [each["index"] for each in data] == [*range(len(data))]
    assert {each["object"] for each in data} <= {"embedding"}
    return [numbers(each["embedding"]) for each in data]


def numbers(written: list[float] | str) -> list[float]:
    """The numbers of one vector, as 32-bit floats."""
    data = b64decode(written) if isinstance(written, str) else struct.pack(f"<{len(written)}f", *written)
    return [number for (number,) in struct.iter_unpack("<f", data)]


def asked_of(sim: Simulator) -> list[Any]:
    """Bodies of the requests for embeddings."""
    return [json.loads(request.body) for request in sim.requests if request.operation.endswith(".embed")]


@pytest.mark.parametrize("form", [None, "float", "base64"])
@pytest.mark.parametrize("model", MODELS)
async def test_each_service_makes_embeddings(app, sim, model, form):
    """A vector for each text, as numbers or in base64, with the model as the client wrote it and a count of tokens."""
    texts = ["a cat", "a dog, and more", "日本語"]
    answer = await embed(app, texts, model, **({} if form is None else {"encoding_format": form}))

    assert vectors_of(answer) == [numbers(vector(text, MODELS[model][0])) for text in texts]
    document = answer.json()
    assert (document["object"], document["model"]) == ("list", model)
    assert 0 < document["usage"]["prompt_tokens"] == document["usage"]["total_tokens"]
    assert isinstance(document["data"][0]["embedding"], str if form == "base64" else list)


@pytest.mark.parametrize(
    ("model", "dimensions"),
    [
        (SMALL, 8),
        ("gemini/gemini-embedding-001", 8),
        ("bedrock/amazon.titan-embed-text-v2:0", 256),
        ("bedrock/cohere.embed-v4:0", 256),
    ],
)
async def test_many_texts_are_sent_in_parts(app, sim, model, dimensions):
    """As many as the service takes at once, and joined in the order of the texts."""
    size = MODELS[model][1]
    count = min(2 * size + 1, EMBEDDING_INPUTS)
    texts = [f"text {index}" for index in range(count)]
    answer = await embed(app, texts, model, dimensions=dimensions, encoding_format="base64")

    assert vectors_of(answer) == [numbers(vector(text, dimensions)) for text in texts]
    assert len(asked_of(sim)) == -(-count // size)


async def test_the_operator_says_how_many_a_server_takes(sim):
    server = {"endpoint": f"{sim.url}/v1", "api_key": "k", "embedding_inputs": 2}
    app = create_app(settings_for(sim.url, {"custom": {"copy": server}}))

    assert len(vectors_of(await embed(app, ["a", "b", "c", "d", "e"], "copy/text-embedding-3-small"))) == 5
    assert [len(body["input"]) for body in asked_of(sim)] == [2, 2, 1]
    await app.aclose()


@pytest.mark.parametrize("model", SHORTENED)
async def test_vectors_can_be_shorter(app, model):
    """Where the model makes such."""
    made = await embed(app, "a cat", model, dimensions=SHORTENED[model])

    assert vectors_of(made) == [numbers(vector("a cat", SHORTENED[model]))]


async def test_tokens_go_to_the_service_whose_they_are(app, sim):
    """One text that was cut into tokens, or several."""
    one, several = await embed(app, [5, 6, 7]), await embed(app, [[5, 6, 7], [8]])

    assert vectors_of(one) == [numbers(vector([5, 6, 7], 1_536))]
    assert vectors_of(several) == [numbers(vector(tokens, 1_536)) for tokens in ([5, 6, 7], [8])]
    assert (one.json()["usage"]["prompt_tokens"], several.json()["usage"]["prompt_tokens"]) == (3, 4)


@pytest.mark.parametrize(
    ("model", "word", "asked"),
    [
        pytest.param("bedrock/cohere.embed-v4:0", None, ("input_type", "search_document"), id="cohere-usual"),
        pytest.param("bedrock/cohere.embed-v4:0", "query", ("input_type", "search_query"), id="cohere"),
        pytest.param("gemini/gemini-embedding-001", "search_query", ("taskType", "RETRIEVAL_QUERY"), id="gemini"),
        pytest.param("gemini/gemini-embedding-001", "CODE_RETRIEVAL_QUERY", ("taskType", "CODE_RETRIEVAL_QUERY"),
                     id="gemini-own"),
    ],
)  # fmt: skip
async def test_what_vectors_are_for_is_said_in_the_words_of_the_service(app, sim, model, word, asked):
    """Services that make others for questions than for documents are told which."""
    answer = await embed(app, "a cat", model, **({} if word is None else {"input_type": word}))
    (body,) = asked_of(sim)

    assert answer.status == 200
    name, value = asked
    assert (body["requests"][0] if "requests" in body else body)[name] == value


REFUSED = [
    pytest.param({"input": None}, "input", "send a text", id="no-input"),
    pytest.param({"input": []}, "input", "send a text", id="nothing"),
    pytest.param({"input": ""}, "input", "is empty", id="empty"),
    pytest.param({"input": ["a", ""]}, "input[1]", "is empty", id="empty-one"),
    pytest.param({"input": ["a", 5]}, "input[1]", "expected a text", id="mixed"),
    pytest.param({"input": [[1, "a"]]}, "input[0]", "expected tokens alone", id="no-token"),
    pytest.param({"input": [1, "a"]}, "input", "expected tokens alone", id="no-token-either"),
    pytest.param({"input": {"a": 1}}, "input", "expected", id="object"),
    pytest.param({"input": ["a"] * (EMBEDDING_INPUTS + 1)}, "input", f"at most {EMBEDDING_INPUTS}", id="too-many"),
    pytest.param({"encoding_format": "int8"}, "encoding_format", "expected float or base64", id="form"),
    pytest.param({"dimensions": 0}, "dimensions", "at least 1", id="no-dimensions"),
    pytest.param({"dimensions": "many"}, "dimensions", "expected", id="dimensions"),
    pytest.param({"model": ""}, "model", "name a model", id="no-model"),
    pytest.param({"model": "claude-sonnet-4.5"}, "model", "kiro has no embeddings; name an embedding model of",
                 id="kiro"),
    pytest.param({"model": "openai/gpt-5"}, "model", "gpt-5 of openai makes no embeddings", id="chat-model"),
    pytest.param({"model": "gemini/gemini-embedding-001", "input": ["a", [1, 2]]}, "input[1]", "tokens mean nothing",
                 id="gemini-tokens"),
    pytest.param({"model": "gemini/gemini-embedding-001", "input_type": "x"}, "input_type", "no purpose",
                 id="gemini-purpose"),
    pytest.param({"model": "bedrock/amazon.titan-embed-text-v2:0", "dimensions": 300}, "dimensions", "256, 512, 1024",
                 id="titan-dimensions"),
    pytest.param({"model": "bedrock/amazon.titan-embed-text-v1", "dimensions": 256}, "dimensions", "leave this out",
                 id="titan-1-dimensions"),
    pytest.param({"model": "bedrock/amazon.titan-embed-text-v1", "input_type": "query"}, "input_type", "leave it out",
                 id="titan-purpose"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "param", "words"), REFUSED)
async def test_what_cannot_be_had_is_refused_with_its_place(app, sim, change, param, words):
    """400 before any service is asked for embeddings."""
    refused = await post(PATH, {"model": SMALL, "input": "a cat", **change}).run(app)
    error = refused.json()["error"]

    assert (refused.status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert words in error["message"]
    assert not asked_of(sim)


async def test_without_a_service_for_it_the_error_says_so(gateway, sim):
    refused = await embed(gateway(), "a cat", "claude-sonnet-4.5")

    assert refused.status == 400
    assert "no service that is set up here has any" in refused.json()["error"]["message"]


async def test_an_embedding_model_answers_no_question(app, sim):
    """It is refused before the service is asked, in whichever API."""
    said = {"model": SMALL, "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
    for path in ("/v1/chat/completions", "/v1/messages"):
        refused = await post(path, said).run(app)
        assert refused.status == 400
        assert "makes embeddings, and no answers" in refused.json()["error"]["message"]


async def test_models_that_make_embeddings_are_listed(app):
    """Each says what it makes; a client of Gemini's API, which cannot ask for embeddings, is told of none."""
    listed = {each["id"]: each["output_modalities"] for each in (await get("/v1/models").run(app)).json()["data"]}

    for model in ("text-embedding-3-small", "gemini-embedding-001", "amazon.titan-embed-text-v2:0"):
        assert listed[model] == ["embeddings"]
    assert listed["gpt-5"] == ["text"]
    assert "embed" not in (await get("/v1beta/models").run(app)).content.decode()


async def test_a_plain_name_finds_its_service(app, sim):
    """As for answers: the service that lists it."""
    assert vectors_of(await embed(app, "a cat", "text-embedding-3-small"))
    assert vectors_of(await embed(app, "a cat", "gemini-embedding-001"))


async def test_a_part_that_fails_is_asked_again_alone(app, sim):
    """What has come is kept, also where another key takes over."""
    half = json_answer(200, {"embedding": [0.5] * 1_536, "inputTextTokenCount": 1})
    sim.enqueue(half, half, refusal(429, "slow down"), operation="bedrock.embed")
    answer = await embed(app, ["a", "b", "c", "d"], "bedrock/amazon.titan-embed-text-v1")

    made = vectors_of(answer)
    assert made[:2] == [[0.5] * 1_536] * 2 != made[2:]
    assert [body["inputText"] for body in asked_of(sim)] == ["a", "b", "c", "c", "d"]


async def test_vectors_of_two_models_are_never_mixed(sim):
    """Where another service stands in, it is asked for all of them."""
    slices = services(sim)
    slices["routing"] = {"models": [f"vectors=bedrock/amazon.titan-embed-text-v1>{SMALL}"]}
    app = create_app(settings_for(sim.url, {**slices, "retry": {"attempts": 1}}))
    sim.enqueue(json_answer(200, {"embedding": [0.5]}), refusal(500, "no"), operation="bedrock.embed")
    answer = await embed(app, ["a", "b"], "vectors")

    assert vectors_of(answer) == [numbers(vector(text, 1_536)) for text in "ab"]
    assert asked_of(sim)[-1]["input"] == ["a", "b"]
    await app.aclose()


BROKEN = [
    pytest.param({"data": []}, id="too-few"),
    pytest.param({"data": [{"index": 0, "embedding": [1.0]}] * 2}, id="index-twice"),
    pytest.param({"data": [{"index": 1, "embedding": [1.0]}]}, id="index-elsewhere"),
    pytest.param({"data": [{"index": "0", "embedding": [1.0]}]}, id="index-text"),
    pytest.param({"data": [{"index": 0, "embedding": []}]}, id="empty"),
    pytest.param({"data": [{"index": 0, "embedding": ""}]}, id="empty-text"),
    pytest.param({"data": [{"index": 0, "embedding": "AAAA"}]}, id="torn"),
    pytest.param({"data": [{"index": 0, "embedding": "AADAfw=="}]}, id="not-a-number"),
    pytest.param({"data": [{"index": 0, "embedding": "AACAfw=="}]}, id="infinite"),
    pytest.param({"data": [{"index": 0, "embedding": "¶"}]}, id="no-base64"),
    pytest.param({"data": [{"index": 0, "embedding": [1e300]}]}, id="too-large"),
    pytest.param({"data": [{"index": 0, "embedding": ["a"]}]}, id="texts"),
    pytest.param({"data": [{"index": 0, "embedding": {"a": 1}}]}, id="object"),
    pytest.param({"data": ["a"]}, id="no-entry"),
    pytest.param({"data": None}, id="no-list"),
    pytest.param([], id="list"),
    pytest.param({"data": [{"index": 0, "embedding": [0] * (EMBEDDING_DIMENSIONS + 1)}]}, id="endless"),
]


async def test_a_report_with_the_status_of_a_success_is_a_failure(app, sim):
    """With the service's own words."""
    sim.enqueue(*[json_answer(200, {"error": {"message": "out of luck"}})] * 10, operation="openai.embed")
    refused = await embed(app, "a cat")

    assert (refused.status, refused.json()["error"]["code"]) == (502, "internal")
    assert "out of luck" in refused.json()["error"]["message"]


@pytest.mark.parametrize("document", BROKEN)
async def test_what_is_no_answer_is_an_error_of_the_service(app, sim, document):
    """And nothing of it reaches the client."""
    sim.enqueue(*[json_answer(200, document)] * 10, operation="openai.embed")
    refused = await embed(app, "a cat")

    assert (refused.status, refused.json()["error"]["code"]) == (502, "upstream.embeddings")


@pytest.mark.parametrize(
    ("lengths", "more", "words"),
    [
        pytest.param([(3, 3)], {"dimensions": 2}, "of 3 numbers where 2 were due", id="not-shortened"),
        pytest.param([(3, 2)], {}, "numbers where", id="uneven"),
        pytest.param([(3, 3), (2,)], {}, "of 2 numbers where 3 were due", id="uneven-parts"),
    ],
)
async def test_vectors_that_cannot_be_compared_are_an_error_of_the_service(sim, lengths, more, words):
    """A server that passes ``dimensions`` over, or answers a part by another model."""
    server = {"endpoint": f"{sim.url}/v1", "api_key": "k", "embedding_inputs": 2}
    app = create_app(settings_for(sim.url, {"custom": {"copy": server}, "retry": {"attempts": 1}}))
    for part in lengths:
        data = [{"index": index, "embedding": [0.5] * length} for index, length in enumerate(part)]
        sim.enqueue(json_answer(200, {"data": data}), operation="openai.embed")
    texts = ["a"] * sum(map(len, lengths))
    refused = await embed(app, texts, "copy/text-embedding-3-small", **more)

    assert (refused.status, refused.json()["error"]["code"]) == (502, "upstream.embeddings")
    assert words in refused.json()["error"]["message"]
    await app.aclose()


async def test_an_answer_without_end_is_not_kept(sim):
    """``limits.answer_bytes`` bounds it, as any other."""
    app = create_app(settings_for(sim.url, {**services(sim), "limits": {"answer_bytes": 65_536}}))
    refused = await embed(app, ["a"] * 100)

    assert (refused.status, refused.json()["error"]["code"]) == (502, "answer_too_large")
    await app.aclose()


async def test_observers_are_told_as_of_an_answer(app, seen):
    """What was asked, and how many tokens that took."""
    await embed(app, ["a cat", "a dog"])
    await embed(app, ["a cat"], "gemini/gemini-embedding-001")
    counted, estimated = seen.ends

    assert (counted.plan.operation, counted.plan.upstream, counted.plan.model) == (
        "embeddings",
        "openai",
        "text-embedding-3-small",
    )
    assert (counted.usage.input_tokens, counted.usage.input_source.value) == (6, "upstream")
    assert (counted.usage.output_tokens, counted.first_content) == (0, None)
    assert (estimated.usage.input_tokens > 0, estimated.usage.input_source.value) == (True, "estimate")


async def test_limits_of_a_client_count_embeddings(gateway, sim):
    """Reserved by an estimate, put right by the count; beyond it 429 in the words of the API."""
    app = gateway(fresh=True, **services(sim), quotas={"requests_per_minute": 2, "tokens_per_day": 1_000})
    first, second, third = [await embed(app, ["a cat"] * 3) for _ in range(3)]

    assert [first.status, second.status, third.status] == [200, 200, 429]
    assert first.headers["x-ratelimit-remaining-requests"] == "1"
    large = gateway(fresh=True, **services(sim), quotas={"tokens_per_day": 100})
    assert [(await embed(large, "word " * 60)).status for _ in range(2)] == [200, 402]


async def test_a_key_asks_for_its_models_alone(sim):
    """Another model is one that is not there."""
    keys = {"one": {"hash": hash_of(b"mine"), "models": ["gemini/*"]}}
    app = create_app(settings_for(sim.url, {**services(sim), "keys": keys}))
    asked = [
        await post(PATH, {"model": model, "input": "a cat"}, key="mine").run(app)
        for model in ("gemini/gemini-embedding-001", SMALL)
    ]

    assert [each.status for each in asked] == [200, 404]
    assert len(asked_of(sim)) == 1
    await app.aclose()


@SDK
@pytest.mark.parametrize("model", MODELS)
async def test_the_official_client_takes_them(app, model):
    """In both forms; the client asks for base64 by itself, and makes the same numbers of it."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
        client = openai.AsyncOpenAI(base_url="http://gateway/v1", api_key="k", http_client=http, max_retries=0)
        packed = await client.embeddings.create(model=model, input=["a cat", "a dog"])
        plain = await client.embeddings.create(model=model, input=["a cat", "a dog"], encoding_format="float")

    expected = [numbers(vector(text, MODELS[model][0])) for text in ("a cat", "a dog")]
    assert [numbers(each.embedding) for each in packed.data] == expected
    assert [numbers(each.embedding) for each in plain.data] == expected
    assert packed.usage.total_tokens == plain.usage.total_tokens > 0


async def test_a_long_answer_is_sent_while_it_is_made(app):
    """Without its length, in messages of bounded size; a short one has it."""
    texts = [f"text {index}" for index in range(200)]
    long, short = await embed(app, texts), await embed(app, ["a cat"])
    bodies = [message["body"] for message in long.messages if message["type"] == "http.response.body"]

    assert "content-length" not in long.headers and "content-length" in short.headers
    assert len(bodies) > 10 and max(map(len, bodies)) < 512 * 1024
    assert vectors_of(long) == [numbers(vector(text, 1_536)) for text in texts]


async def test_vectors_have_the_room_of_bodies(sim):
    """All clients' together; what has gone out gives its room back, and a refusal says when to come again."""
    limits = {"body_bytes": 65_536, "body_bytes_in_flight": 131_072}
    app = create_app(settings_for(sim.url, {**services(sim), "limits": limits}))
    for _ in range(3):
        refused, made = await embed(app, ["a"] * 20), await embed(app, ["a"] * 8)
        assert (refused.status, made.status) == (503, 200)
        assert float(refused.headers["retry-after"]) > 0
    await app.aclose()


async def test_room_is_taken_for_all_vectors_with_the_first(sim):
    """Before the others come: else many requests would get as far as it reaches, and none of them to its end."""
    limits = {"body_bytes": 65_536, "body_bytes_in_flight": 131_072}
    app = create_app(settings_for(sim.url, {**services(sim), "limits": limits}))
    first = RawBytes(json.dumps({"index": 0, "embedding": [0.5] * 3_000}).encode())
    script = (Head(content_type="application/json"), RawBytes(b'{"data":['), first, Stall())
    sim.enqueue(script, operation="openai.embed")
    with anyio.fail_after(10):
        refused = await embed(app, ["a"] * 12)

    assert refused.status == 503
    await app.aclose()


async def test_a_service_that_goes_on_is_not_silent(sim):
    """The limit of the first event is for the first vector; what comes after it has that of a stream."""
    server = {"endpoint": f"{sim.url}/v1", "api_key": "k", "first_token_timeout": 0.5}
    app = create_app(settings_for(sim.url, {"custom": {"copy": server}}))
    entries = [RawBytes(b'{"index":%d,"embedding":[1,2]},' % index) for index in range(5)]
    steps = chain.from_iterable((entry, Pause(0.2)) for entry in entries)
    last = RawBytes(b'{"index":5,"embedding":[1,2]}]}')
    sim.enqueue((Head(content_type="application/json"), RawBytes(b'{"data":['), *steps, last), operation="openai.embed")
    answer = await embed(app, ["a"] * 6, "copy/text-embedding-3-small")

    assert (answer.status, len(answer.json()["data"])) == (200, 6)
    await app.aclose()
