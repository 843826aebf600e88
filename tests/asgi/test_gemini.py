"""The Gemini API at each service, over paths that name the model and what is to be done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi import create_app
from kiro_asgi.dialects.unserved import UNSERVED
from kiro_asgi.simulator import answer, text
from kiro_asgi.testing.grammar import gemini as grammar
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, get, post

pytestmark = pytest.mark.anyio

MODEL = "claude-sonnet-4.5"
SERVICES = (MODEL, "gemini/gemini-2.5-flash", "anthropic/claude-haiku-4-5", "openai/gpt-5")
HELLO: dict[str, Any] = {"contents": [{"parts": [{"text": "hello"}]}]}
NOW = {"functionDeclarations": [{"name": "now"}]}
SSE = b"alt=sse"


def generate(model: str, verb: str, body: Any, *, version: str = "v1beta", query: bytes = b"", **more: Any) -> Exchange:
    return post(f"/{version}/models/{model}:{verb}", body, query_string=query, **more)


def said(parts: list[dict[str, Any]]) -> str:
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


@pytest.fixture
async def app(sim):
    """Answers are translated, Gemini's own as well; `tests.asgi.test_gemini_passing` has those that go through."""
    direct = {name: {"endpoint": sim.url, "api_key": "k"} for name in ("gemini", "anthropic")}
    openai = {"endpoint": f"{sim.url}/v1", "api_key": "k"}
    app = create_app(settings_for(sim.url, {**direct, "openai": openai, "stream": {"relay": "never"}}))
    yield app
    await app.aclose()


@pytest.mark.parametrize("version", ["v1beta", "v1", "v1alpha"])
@pytest.mark.parametrize("model", SERVICES)
async def test_each_service_answers(app, model, version):
    """As events, as an array, and collected; the model, slashes and all, is called what the client calls it."""
    body = {"contents": [{"parts": [{"text": "sim:count=4"}]}]}
    events = await generate(model, "streamGenerateContent", body, version=version, query=SSE).run(app)
    array = await generate(model, "streamGenerateContent", body, version=version).run(app)
    whole = await generate(model, "generateContent", body, version=version).run(app)

    for objects in (grammar.events(events.content), grammar.array(array.content), [json.loads(whole.content)]):
        told = grammar.check(objects)
        assert said(told["candidates"][0]["content"]["parts"]).endswith("1 2 3 4 ")
        assert (told["modelVersion"], told["candidates"][0]["finishReason"]) == (model, "STOP")
        assert told["usageMetadata"]["promptTokenCount"] > 0 < told["usageMetadata"]["candidatesTokenCount"]
    assert events.headers["content-type"] == "text/event-stream"
    assert array.headers["content-type"] == whole.headers["content-type"]
    assert array.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("model", SERVICES)
async def test_thinking_comes_back_to_who_has_signed_it(app, sim, model):
    """Over a call: the client hands back nothing of the answer but the call, as gemini-cli does."""
    config = {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2048}}
    question = {"role": "user", "parts": [{"text": "sim:thinking-tool"}]}
    body = {"contents": [question], "tools": [NOW], "generationConfig": config}
    told = grammar.check(
        grammar.events((await generate(model, "streamGenerateContent", body, query=SSE).run(app)).content)
    )
    (call,) = (part for part in told["candidates"][0]["content"]["parts"] if "functionCall" in part)
    result = {"functionResponse": {"name": "now", "response": {"output": "noon"}}}
    contents = [question, {"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]
    again = await generate(model, "generateContent", {**body, "contents": contents}).run(app)

    assert again.status == 200
    assert said(json.loads(again.content)["candidates"][0]["content"]["parts"])
    assert b"noon" in sim.requests[-1].body
    if model.startswith("anthropic/"):
        handed = json.loads(sim.requests[-1].body)["messages"][1]["content"]
        assert [block["type"] for block in handed] == ["thinking", "tool_use"]
        assert handed[0]["thinking"] and handed[0]["signature"]


async def test_tokens_are_counted(app):
    """Of contents, and of a whole request."""
    counted = await generate(MODEL, "countTokens", HELLO).run(app)
    assert json.loads(counted.content)["totalTokens"] > 0
    more = {"generateContentRequest": {**HELLO, "systemInstruction": "Answer in one word, and in French."}}
    whole = await generate(MODEL, "countTokens", more).run(app)
    assert json.loads(whole.content)["totalTokens"] > json.loads(counted.content)["totalTokens"]


async def test_models_are_listed(app):
    """Below ``/v1beta`` for everybody; at ``/v1/models``, where other APIs have theirs, for its own clients."""
    listed = json.loads((await get("/v1beta/models").run(app)).content)["models"]
    names = {model["name"] for model in listed}
    assert {f"models/{MODEL}", "models/gemini-2.5-flash"} <= names
    mine = get("/v1/models")
    mine.scope["headers"].append((b"x-goog-api-client", b"google-genai-sdk/3.4.0"))
    assert {model["name"] for model in json.loads((await mine.run(app)).content)["models"]} == names
    assert json.loads((await get("/v1/models").run(app)).content)["object"] == "list"
    one = json.loads((await get(f"/v1beta/models/{MODEL}").run(app)).content)
    assert one == next(model for model in listed if model["name"] == f"models/{MODEL}")


@pytest.mark.parametrize("place", ["header", "query", "bearer"])
async def test_keys(app, place):
    """In a header of its own, in the query, and as everywhere; an empty header is none."""
    asked = generate(MODEL, "generateContent", HELLO, key="k" if place == "bearer" else None)
    asked.scope["headers"].append((b"x-goog-api-key", b"k" if place == "header" else b""))
    asked.scope["query_string"] = b"key=k&alt=json" if place == "query" else b""
    assert (await asked.run(app)).status == 200


async def test_a_key_in_the_query_is_not_logged(app, caplog):
    """Whatever becomes of the request."""
    caplog.set_level("DEBUG")
    await generate(MODEL, "generateContent", HELLO, key=None, query=b"key=k").run(app)
    await generate(MODEL, "generateContent", HELLO, key=None, query=b"key=sesame").run(app)
    assert caplog.text
    assert "sesame" not in caplog.text
    assert "key=k" not in caplog.text


@pytest.mark.parametrize(
    ("asked", "status", "word"),
    [
        (lambda: generate(MODEL, "generateContent", HELLO, key=None), 401, "UNAUTHENTICATED"),
        (lambda: generate(MODEL, "generateContent", {}), 400, "INVALID_ARGUMENT"),
        (lambda: generate("nonesuch", "generateContent", HELLO), 404, "NOT_FOUND"),
        (lambda: generate(MODEL, "foretell", HELLO), 404, "NOT_FOUND"),
        (lambda: generate(MODEL, "embedContent", HELLO), 501, "UNIMPLEMENTED"),
        (lambda: post("/v1beta/models", HELLO), 404, "NOT_FOUND"),
        (lambda: post("/upload/v1beta/files", b"..."), 501, "UNIMPLEMENTED"),
        (lambda: post("/v1beta/cachedContents", {}), 501, "UNIMPLEMENTED"),
        (lambda: post("/v1beta/files:register", {}), 501, "UNIMPLEMENTED"),
        (lambda: get("/v1beta/anything"), 404, "NOT_FOUND"),
    ],
)
async def test_errors_are_googles(app, asked, status, word):
    """With the status, the same number in the body, and the word for it."""
    answer = await asked().run(app)
    error = json.loads(answer.content)["error"]
    assert (answer.status, error["code"], error["status"]) == (status, status, word)
    assert error["message"]


@pytest.mark.parametrize("word", [word for row in UNSERVED for word in row.words])
async def test_what_only_google_has_is_refused_with_the_reason(app, word):
    """Verbs of models, and resources, of the table for all APIs."""
    [why] = [row.why for row in UNSERVED if word in row.words]
    for asked in (generate(MODEL, word, HELLO), post(f"/v1beta/{word}", {})):
        answer = await asked.run(app)
        assert (answer.status, json.loads(answer.content)["error"]["message"]) == (501, f"{word}: {why}")


async def test_structured_output_is_kept(gateway, sim):
    """Under the promise of the other APIs: an answer that does not fit is asked for again."""
    sim.enqueue(answer(*text("No.")), answer(*text('```json\n{"city": "Oslo"}\n```')))
    schema = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
    config = {"responseMimeType": "application/json", "responseSchema": schema}
    asked = generate(MODEL, "generateContent", {**HELLO, "generationConfig": config})
    whole = await asked.run(gateway())
    assert json.loads(said(json.loads(whole.content)["candidates"][0]["content"]["parts"])) == {"city": "Oslo"}
