"""Refusals at every service, to clients of every API: who rests, what is asked next, and what the client is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from kiro_asgi import create_app
from kiro_asgi.simulator import Head, RawBytes, RecordedRequest
from kiro_asgi.simulator.scripts import Script
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, post
from tests.asgi.test_unknown_answers import CLIENTS, FORMS, SAME, Form, asking, slices
from tests.failures.test_meanings import CARRIERS

pytestmark = pytest.mark.anyio

SERVICES: Final[Mapping[str, tuple[str, str]]] = {
    "chat": ("local/gpt-5", "local/gpt-4o"),
    "responses": ("openai/gpt-5.1-codex-max", "openai/gpt-5-pro"),
    "messages": ("anthropic/claude-haiku-4-5", "anthropic/claude-sonnet-4-5"),
    "gemini": ("gemini/gemini-2.5-flash", "gemini/gemini-2.5-pro"),
    "converse": ("bedrock/us.amazon.nova-2-lite-v1:0", "bedrock/amazon.nova-pro-v1:0"),
    "invoke": (
        "bedrock/us.anthropic.claude-opus-4-6-v1",
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ),
    "kiro": ("kiro/claude-haiku-4.5", "kiro/claude-sonnet-4.5"),
}
"""Form of a service to a model that it refuses, and another."""

DENIED: Final = (
    (403, "You don't have access to the model with the specified model ID."),
    (
        403,
        "User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel on resource: foundation-model/x",
    ),
    (
        403,
        "Model access is denied due to IAM user or service role is not authorized to perform AWS Marketplace actions",
    ),
    (403, "Your API key does not have permission to use the specified model claude-x."),
    (403, "Your API key does not have permission to use the specified resource."),
    (403, "Permission denied on resource model gemini-3-pro."),
    (403, "this model requires a subscription, upgrade for access: https://ollama.com/upgrade"),
    (401, "key not allowed to access model. This key can only access models=['b']"),
    (403, "You are not allowed to sample from this model"),
    (403, "User is not authorized to access this model."),
)
"""Status and words of refusals of one model."""

OTHERS: Final = (
    (403, "Forbidden"),
    (403, "Content blocked by our policy"),
    (403, "prompt is too long"),
    (401, "no"),
    (404, "no such model: x"),
    (400, "Unsupported value"),
    (404, "page not found"),
    (403, "<!DOCTYPE html><title>Just a moment...</title>"),
    (401, "Incorrect API key provided"),
)
"""Status and words of other refusals; the last is of the only credential that there is."""


def answering(each: Form, refused: str, status: int, said: Any) -> Callable[[RecordedRequest], Script | None]:
    """A service that refuses the model *refused*, and answers every other."""

    def answer(recorded: RecordedRequest) -> Script | None:
        if recorded.operation != each.operation:
            return None
        asked = f"{recorded.path} {recorded.body.decode('utf-8', 'replace')}"
        if refused in asked:
            html = isinstance(said, str)
            body = said.encode() if html else json.dumps(said).encode()
            return (Head(status=status, content_type="text/html" if html else "application/json"), RawBytes(body))
        return (Head(content_type=each.content_type), RawBytes(each.ended("stop")))

    return answer


def settings(service: Any, form: str, **more: Any) -> dict[str, Any]:
    """Settings of a gateway where what is refused rests."""
    each = slices(service, FORMS[form])
    for table in ("anthropic", "gemini", "openai", "bedrock"):
        each[table] = {**each.get(table, {}), **more.get("keys", {})} if table in each else None
    each = {name: value for name, value in each.items() if value is not None}
    return {**each, "retry": {"refused_base": 60.0, "attempts": 1}, "client": {"api_keys": ["k", "other"]}}


def keyed(exchange: Exchange, key: str) -> Exchange:
    headers = [(name, value) for name, value in exchange.scope["headers"] if name != b"authorization"]
    exchange.scope["headers"] = [*headers, (b"authorization", f"Bearer {key}".encode())]
    return exchange


@pytest.mark.parametrize("form", SERVICES)
async def test_a_refusal_of_one_model_is_told_of_that_model_alone(form, service, sim):
    """Whoever was not meant is answered at once: another client, and the same one, for another model."""
    each, (bad, good) = FORMS[form], SERVICES[form]
    for at, (status, said) in enumerate(DENIED):
        app = create_app(settings_for(service.url, settings(service, form)))
        sim.answer_with(
            answering(
                each, bad.partition("/")[2].partition(":")[0], status, {"error": {"message": said}, "message": said}
            )
        )
        client = "openai_chat" if at % 2 else "anthropic"
        first = await asking(client, bad, False).run(app)
        found = [await keyed(asking(client, good, False), key).run(app) for key in ("other", "k")]
        again = await asking(client, bad, False).run(app)
        sim.answer_with(None)
        await app.aclose()

        assert [done.status for done in found] == [200, 200], said
        assert (first.status, again.status) == (404, 404), said
        assert b"own credential" not in first.content


@pytest.mark.parametrize("form", SERVICES)
async def test_no_refusal_closes_the_gateway(form, service, sim):
    """Of a request, a proxy or the only credential: every other model goes on, whoever asks for it."""
    each, (bad, good) = FORMS[form], SERVICES[form]
    for status, said in OTHERS:
        app = create_app(settings_for(service.url, settings(service, form)))
        told = said if said.startswith("<") else {"error": {"message": said}, "message": said}
        sim.answer_with(answering(each, bad.partition("/")[2].partition(":")[0], status, told))
        first = await asking("openai_chat", bad, False).run(app)
        found = await keyed(asking("openai_chat", good, False), "other").run(app)
        sim.answer_with(None)
        await app.aclose()

        assert found.status == 200, said
        assert first.status >= 400
        is_credential = said.startswith("Incorrect")
        assert (b"own credential" in first.content) is is_credential, said


SPENT: Final = (
    (400, {"error": {"message": "Access denied, make sure your account is in good standing.", "code": "Arrearage"}}),
    (429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}),
    (403, {"error": {"code": "AccountOverdueError", "message": "overdue", "type": "Forbidden"}}),
    (403, {"code": 30011, "message": "Your paid balance is insufficient. Please top up and try again.", "data": None}),
    (403, {"code": 403, "reason": "NOT_ENOUGH_BALANCE", "message": "no"}),
    (403, {"error": {"message": "no", "type": "new_api_error", "code": "insufficient_user_quota"}}),
    (412, {"error": "Account suspended, possibly due to reaching the monthly spending limit"}),
    (400, {"error": {"message": "no", "type": "budget_exceeded", "code": "400"}}),
)


async def test_a_spent_balance_is_told_once_and_the_next_key_is_asked(service, sim):
    """402, in whatever words; nothing is tried three times that cannot help."""
    for status, body in SPENT:
        made = settings(service, "chat")
        local = made["custom"]["local"]
        made["custom"] = {"local": {**local, "fallback_api_keys": ["second"]}}
        app = create_app(settings_for(service.url, made))
        keys: list[str] = []

        def answer(recorded: RecordedRequest, status: int = status, body: Any = body, keys: list[str] = keys) -> Any:
            if recorded.operation != "openai.chat":
                return None
            keys.append(recorded.headers["authorization"])
            return (Head(status=status, content_type="application/json"), RawBytes(json.dumps(body).encode()))

        sim.answer_with(answer)
        done = await asking("openai_chat", "local/gpt-4o", False).run(app)
        sim.answer_with(None)
        await app.aclose()

        assert (done.status, done.json()["error"]["code"]) == (402, "insufficient_quota"), body
        assert keys == ["Bearer sk", "Bearer second"], body


NO_ANSWERS: Final[tuple[Any, ...]] = (
    {"success": False, "code": 1113, "msg": "quota used up"},
    {"code": 500, "msg": "404 NOT_FOUND", "success": False},
    {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
    {"errors": [{"message": "x"}]},
    {"detail": "Not authenticated"},
    {"message": "Forbidden"},
    {"error_code": 17, "error_msg": "no"},
    {"type": "error"},
    {"error": {"message": "boom"}},
    {"error": "boom"},
    {"ok": False},
    {"hello": "world"},
    {},
    [],
    "hello",
    None,
)
"""What comes with 200 and is no answer of any API."""


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("form", ["chat.whole", "responses.whole", "messages.whole", "gemini.whole"])
async def test_what_is_no_answer_is_never_given_to_a_client_as_one(form, stream, service, sim):
    """Relayed as well as translated, with the same status."""
    each, client = FORMS[form], SAME[form.partition(".")[0]]
    statuses: dict[str, list[int]] = {}
    for relay in ("auto", "never"):
        made = {**settings(service, form), "stream": {"relay": relay}}
        made["custom"] = {"local": {**made["custom"]["local"], "relay": "allow"}}
        app = create_app(settings_for(service.url, made))
        for body in NO_ANSWERS:
            script = (Head(content_type="application/json"), RawBytes(json.dumps(body).encode()))
            sim.answer_with(lambda recorded, script=script: script if recorded.operation == each.operation else None)
            done = await asking(client, each.model, stream).run(app)
            sim.answer_with(None)
            assert done.status >= 400, (relay, body)
            statuses.setdefault(json.dumps(body), []).append(done.status)
        await app.aclose()

    assert {body: found for body, found in statuses.items() if len({*found}) > 1} == {}


def refusing(each: Form, refuses: Callable[[Any], str]) -> tuple[list[Any], Callable[[RecordedRequest], Script | None]]:
    """A service that answers 400 with what *refuses* says of a body, and answers where that is nothing."""
    bodies: list[Any] = []

    def answer(recorded: RecordedRequest) -> Script | None:
        if recorded.operation != each.operation:
            return None
        bodies.append(json.loads(recorded.body))
        if said := refuses(bodies[-1]):
            told = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
            return (Head(status=400, content_type="application/json"), RawBytes(json.dumps(told).encode()))
        return (Head(content_type=each.content_type), RawBytes(each.ended("end_turn")))

    return bodies, answer


def scoped(value: Any) -> int:
    """How many marks for the cache have a scope."""
    if isinstance(value, list):
        return sum(map(scoped, value))
    return sum(scoped(each) for each in value.values()) + ("scope" in value) if isinstance(value, dict) else 0


def marks(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(marks, value))
    return sum(marks(each) for each in value.values()) + ("cache_control" in value) if isinstance(value, dict) else 0


@pytest.mark.parametrize("tools", [False, True], ids=["relayed", "translated"])
async def test_a_refused_member_of_a_mark_takes_that_member_alone(tools, service, sim):
    """The other marks stay; it is remembered for the client, and later requests keep their marks."""
    each = FORMS["messages.whole"]
    bodies, answer = refusing(
        each,
        lambda body: "system.0.cache_control.ephemeral.scope: Extra inputs are not permitted" if scoped(body) else "",
    )
    made = {**settings(service, "messages.whole"), "stream": {}}
    app = create_app(settings_for(service.url, made))
    marked = {"cache_control": {"type": "ephemeral"}}
    asks: dict[str, Any] = {
        "model": each.model,
        "max_tokens": 50,
        "system": [{"type": "text", "text": "A", "cache_control": {"type": "ephemeral", "scope": "global"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", **marked}]}],
    }
    if tools:
        asks["tools"] = [{"name": "B", "input_schema": {"type": "object"}, **marked}]
    sim.answer_with(answer)
    found = [(await post("/v1/messages", asks).run(app)).status for _ in range(2)]
    sim.answer_with(None)
    await app.aclose()

    assert found == [200, 200]
    assert [scoped(body) for body in bodies] == [1, 0, 0]
    assert {marks(body) for body in bodies} == {3 if tools else 2}


@pytest.mark.parametrize("tools", [False, True], ids=["relayed", "translated"])
async def test_what_is_asked_next_differs_in_the_member_that_was_named(tools, service, sim):
    """Whatever it is called; where the client wrote it, no other client's request is changed by it."""
    each = FORMS["messages.whole"]
    bodies, answer = refusing(each, lambda body: "zzz_a: Extra inputs are not permitted" if "zzz_a" in body else "")
    made = {**settings(service, "messages.whole"), "stream": {}}
    app = create_app(settings_for(service.url, made))
    asks: dict[str, Any] = {
        "model": each.model,
        "max_tokens": 50,
        "inference_geo": "us",
        "messages": [{"role": "user", "content": "hi"}],
        **({"tools": [{"name": "B", "input_schema": {"type": "object"}}]} if tools else {}),
    }
    sim.answer_with(answer)
    first = await post("/v1/messages", {**asks, "zzz_a": 1}).run(app)
    again = await post("/v1/messages", {**asks, "zzz_a": 1}).run(app)
    other = await keyed(post("/v1/messages", {**asks, "zzz_a": 1}), "other").run(app)
    sim.answer_with(None)
    await app.aclose()

    assert [first.status, again.status, other.status] == [200, 200, 200]
    assert ["zzz_a" in body for body in bodies] == [True, False, False, True, False]
    assert all(body["inference_geo"] == "us" for body in bodies)
    whole, less = bodies[:2]
    assert {name: value for name, value in whole.items() if name != "zzz_a"} == less


async def test_what_steers_privacy_is_never_left_out(service, sim):
    """A service that refuses it refuses the request, and nothing is learnt of it."""
    each = FORMS["messages.whole"]
    bodies, answer = refusing(
        each, lambda body: "inference_geo: Extra inputs are not permitted" if "inference_geo" in body else ""
    )
    app = create_app(settings_for(service.url, settings(service, "messages.whole")))
    asks = {"model": each.model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    sim.answer_with(answer)
    refused = await post("/v1/messages", {**asks, "inference_geo": "us"}).run(app)
    sim.answer_with(None)
    await app.aclose()

    assert refused.status == 400 and b"inference_geo" in refused.content
    assert [body["inference_geo"] for body in bodies] == ["us"]


async def test_what_a_message_quotes_of_the_client_is_not_the_services_word(service, sim):
    """One client's value, in the words of a refusal, takes nothing away from another."""
    each = FORMS["messages.whole"]
    bad = "unsupported service_tier"
    bodies, answer = refusing(
        each,
        lambda body: (
            f"Invalid value: '{bad}'. Supported values are: 'auto'." if body.get("service_tier") == bad else ""
        ),
    )
    app = create_app(settings_for(service.url, settings(service, "messages.whole")))
    asks = {"model": each.model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    sim.answer_with(answer)
    refused = await post("/v1/messages", {**asks, "service_tier": bad}).run(app)
    other = await keyed(post("/v1/messages", {**asks, "service_tier": "standard_only"}), "other").run(app)
    sim.answer_with(None)
    await app.aclose()

    assert (refused.status, other.status) == (400, 200)
    assert [body.get("service_tier") for body in bodies] == [bad, "standard_only"]


TOOL: Final = {"type": "function", "function": {"name": "t", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize(
    ("said", "effort"),
    [
        (
            "Function tools with reasoning_effort are not supported for gpt-5.6-luna in /v1/chat/completions. To use "
            "function tools, use /v1/responses or set reasoning_effort to 'none'.",
            None,
        ),
        (
            "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use "
            "/v1/responses instead.",
            "high",
        ),
        ('model "m" is not accessible via the /chat/completions endpoint', "high"),
    ],
)
@pytest.mark.parametrize("client", ["openai_chat", "anthropic"])
async def test_tools_are_asked_for_where_the_service_says(client, said, effort, service, sim):
    """By Responses, at once from then on, with tools and effort; without tools the model is asked as before."""
    made = {
        **settings(service, "chat"),
        "openai": {"api_key": "sk", "endpoint": f"{service.url}/v1", "models_ttl": 0.0},
    }
    made["custom"] = {"local": {**made["custom"]["local"], "api": "auto", "relay": "allow"}}
    app = create_app(settings_for(service.url, made))
    asked: list[tuple[str, Any]] = []

    def answer(recorded: RecordedRequest) -> Script | None:
        if recorded.operation not in ("openai.chat", "responses.chat"):
            return None
        body = json.loads(recorded.body)
        asked.append((recorded.operation, body))
        if recorded.operation == "openai.chat" and body.get("tools"):
            told = {"error": {"message": said, "type": "invalid_request_error", "param": "reasoning_effort"}}
            return (Head(status=400, content_type="application/json"), RawBytes(json.dumps(told).encode()))
        form = FORMS["chat" if recorded.operation == "openai.chat" else "responses"]
        return (
            Head(content_type=form.content_type),
            RawBytes(form.ended("stop" if form is FORMS["chat"] else "completed")),
        )

    path, document = CLIENTS[client]
    own = TOOL if client == "openai_chat" else {"name": "t", "input_schema": {"type": "object"}}
    wish: dict[str, Any] = {"reasoning_effort": effort} if effort and client == "openai_chat" else {}
    sim.answer_with(answer)
    found = [
        await post(path, {**document, "model": "local/gpt-5", **wish, **({"tools": [own]} if tools else {})}).run(app)
        for tools in (True, True, False)
    ]
    sim.answer_with(None)
    await app.aclose()

    assert [done.status for done in found] == [200, 200, 200]
    last = "openai.chat" if "tools" in said else "responses.chat"
    assert [operation for operation, _ in asked] == ["openai.chat", "responses.chat", "responses.chat", last]
    if wish:
        assert asked[1][1]["reasoning"]["effort"] == "high"
        without_tools = asked[3][1]
        assert without_tools.get("reasoning_effort") or without_tools["reasoning"]["effort"] == "high"


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_long_prompt_is_told_in_the_words_that_agents_act_upon(carrier, service, sim):
    """Each API has its own; from whatever document, before an answer and within one."""
    each = FORMS["chat"]
    app = create_app(settings_for(service.url, settings(service, "chat")))
    body = json.dumps(CARRIERS[carrier]("Range of input length should be [1, 129024]", 400)).encode()
    for status, sent, kind in ((400, body, "application/json"), (200, b"data: " + body + b"\n\n", each.content_type)):
        script = (Head(status=status, content_type=kind), RawBytes(sent))
        sim.answer_with(lambda recorded, script=script: script if recorded.operation == each.operation else None)
        chat, messages = [await asking(client, each.model, False).run(app) for client in ("openai_chat", "anthropic")]
        sim.answer_with(None)
        if status == 200 and carrier in ("flat", "capital", "detail", "problem"):
            continue  # a piece of a stream with nothing but a message is read with what stands beside it
        assert (chat.status, chat.json()["error"]["code"]) == (400, "context_length_exceeded")
        assert "prompt is too long" in messages.json()["error"]["message"]
    await app.aclose()


async def test_embeddings_are_asked_for_as_numbers_where_base64_is_refused(service, sim):
    """Then without the member; and it is remembered."""
    app = create_app(settings_for(service.url, settings(service, "chat")))
    formats: list[Any] = []

    def answer(recorded: RecordedRequest) -> Script | None:
        if recorded.operation != "openai.embed":
            return None
        formats.append(json.loads(recorded.body).get("encoding_format"))
        told: Any = {"data": [{"index": 0, "embedding": [0.5, 1.0]}]}
        status = 200
        if formats[-1] == "base64":
            status, told = 400, {"message": "base64 encoding is not currently supported", "code": 400}
        elif formats[-1] == "float":
            status, told = (
                422,
                {"detail": [{"loc": ["body", "encoding_format"], "msg": "Extra inputs are not permitted"}]},
            )
        return (Head(status=status, content_type="application/json"), RawBytes(json.dumps(told).encode()))

    sim.answer_with(answer)
    found = [
        await post("/v1/embeddings", {"model": "local/text-embedding-3-small", "input": "a"}).run(app) for _ in range(2)
    ]
    sim.answer_with(None)
    await app.aclose()

    assert [done.status for done in found] == [200, 200]
    assert formats == ["base64", "float", None, None]


async def test_a_failure_in_the_place_of_embeddings_is_told_in_its_own_words(service, sim):
    """With a status of success, too."""
    app = create_app(settings_for(service.url, settings(service, "chat")))
    told = {"error": {"message": "No successful provider responses.", "code": 404}}
    script = (Head(content_type="application/json"), RawBytes(json.dumps(told).encode()))
    sim.answer_with(lambda recorded: script if recorded.operation == "openai.embed" else None)
    done = await post("/v1/embeddings", {"model": "local/text-embedding-3-small", "input": "a"}).run(app)
    sim.answer_with(None)
    await app.aclose()

    assert done.status >= 400
    assert b"No successful provider responses." in done.content and b"KeyError" not in done.content


async def test_tokens_are_counted_while_the_credential_rests(service, sim):
    """The number is the gateway's own estimate."""
    each = FORMS["messages"]
    app = create_app(settings_for(service.url, {**settings(service, "messages"), "retry": {"quota_probe": 300.0}}))
    told = {"type": "error", "error": {"type": "billing_error", "message": "pay"}}
    script = (Head(status=402, content_type="application/json"), RawBytes(json.dumps(told).encode()))
    sim.answer_with(lambda recorded: script if recorded.operation == each.operation else None)
    spent = [await asking("anthropic", each.model, False).run(app) for _ in range(2)]
    counted = await post(
        "/v1/messages/count_tokens", {"model": each.model, "messages": [{"role": "user", "content": "hi"}]}
    ).run(app)
    sim.answer_with(None)
    await app.aclose()

    assert [done.status for done in spent] == [402, 402]
    assert counted.status == 200 and counted.json()["input_tokens"] > 0


async def test_a_model_that_takes_one_of_two_is_asked_with_one(service, sim):
    """Bedrock's application inference profiles do not say which model stands behind them."""
    each = FORMS["converse"]
    bodies, answer = [], None

    def refuse(recorded: RecordedRequest) -> Script | None:
        if recorded.operation != each.operation:
            return None
        bodies.append(json.loads(recorded.body))
        config = bodies[-1].get("inferenceConfig", {})
        if "temperature" in config and "topP" in config:
            said = "`temperature` and `topP` cannot both be specified for this model. Please use only one."
            return (
                Head(status=400, content_type="application/json"),
                RawBytes(json.dumps({"message": said}).encode()),
            )
        return (Head(content_type=each.content_type), RawBytes(each.ended("end_turn")))

    app = create_app(settings_for(service.url, settings(service, "converse")))
    model = "bedrock/arn:aws:bedrock:us-east-1:1:application-inference-profile/abc"
    asks = {"model": model, "temperature": 0.5, "top_p": 0.9, "messages": [{"role": "user", "content": "hi"}]}
    sim.answer_with(refuse)
    found = [(await post("/v1/chat/completions", asks).run(app)).status for _ in range(2)]
    sim.answer_with(None)
    await app.aclose()

    assert answer is None and found == [200, 200]
    assert [sorted(body["inferenceConfig"]) for body in bodies][1:] == [["topP"], ["topP"]]


@pytest.mark.parametrize(
    ("table", "tail", "form"),
    [
        ("anthropic", "/v1", "messages"),
        ("anthropic", "/v1/messages", "messages"),
        ("anthropic", "/v1/", "messages"),
        ("gemini", "/v1beta", "gemini"),
        ("custom", "/chat/completions", "chat"),
        ("custom", "/responses", "chat"),
    ],
)
async def test_an_address_may_have_the_path_in_it_that_is_added(table, tail, form, service, sim):
    """What people copy from a page is understood."""
    made, each = settings(service, form), FORMS[form]
    if table == "custom":
        made["custom"] = {"local": {**made["custom"]["local"], "endpoint": f"{service.url}/v1{tail}"}}
    else:
        made[table] = {**made[table], "endpoint": service.url + tail}
    app = create_app(settings_for(service.url, made))
    done = await asking("openai_chat", each.model, False).run(app)
    await app.aclose()

    assert done.status == 200


@pytest.mark.parametrize("form", ["messages", "chat", "gemini"])
async def test_a_wrong_address_is_the_operators_mistake(form, service, sim):
    """The client is not told that its request was wrong, and the message names what to look at."""
    each = FORMS[form]
    app = create_app(settings_for(service.url, settings(service, form)))
    script = (Head(status=404, content_type="text/plain"), RawBytes(b"404 page not found"))
    sim.answer_with(lambda recorded: script if recorded.operation == each.operation else None)
    done = await asking("openai_chat", each.model, False).run(app)
    sim.answer_with(None)
    await app.aclose()

    assert done.status == 502
    assert f"check the endpoint in the settings of {each.model.partition('/')[0]}" in done.json()["error"]["message"]
