"""Refusals of members in many words: each service is asked again without them, once, whatever it says and how."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from kiro_asgi.errors import UpstreamRejected
from kiro_asgi.failures.members import blames_member
from kiro_asgi.simulator import Head, RawBytes, RecordedRequest
from kiro_asgi.simulator.scripts import Script
from tests.asgi.driver import Exchange, post
from tests.asgi.test_unknown_answers import CLIENTS, FORMS, chat, generated, said, slices, sse

pytestmark = pytest.mark.anyio

WORDS: Final = (
    "Unrecognized request argument supplied: {}",
    "Invalid parameter: {}",
    "invalid field `{}`",
    "'{}' is not a valid parameter for this model",
    "Unpermitted parameter: {}",
    "This model does not accept {}.",
    "The parameter {} isn't supported.",
    "The parameter {} isn’t supported.",
    "{} is not available for this model",
    "{} is not implemented",
    "no such parameter: {}",
    "Disallowed field {}",
    "1 validation error: body -> {}: extra fields not permitted",
    "$.{}: is not defined in the schema and the schema does not allow additional properties",
    "messages.0.content.1.{}: Extra inputs are not permitted",
    "Please remove {} from the request",
    "`{}` is deprecated for this model.",
    "{} must be null for this model",
    "{} is incompatible with this model",
    "不支持的参数：{}",
    "API 调用参数有误，未知字段 {}",
    "パラメータ {} はサポートされていません",
    "매개변수 {} 은(는) 지원되지 않습니다",
    "Der Parameter {} wird nicht unterstützt",
    "Le paramètre {} n'est pas pris en charge",
    "El parámetro {} no está soportado",
    "O parâmetro {} não é suportado",
    "Параметр {} не поддерживается",
)
"""What services say of a member that they do not take."""

VALUES: Final = (
    "temperature must be between 0 and 2",
    "Invalid value for 'temperature': 3",
    "temperature: Input should be less than or equal to 1",
    "Invalid parameter: temperature must be between 0 and 2",
    "invalid argument temperature: expected a number",
    "temperature 3 is out of range",
    "max_tokens is too large: 999999",
)
"""What they say of its value, which is the client's."""


@pytest.mark.parametrize("words", WORDS)
def test_words_that_blame_a_member(words):
    assert blames_member(UpstreamRejected(words.format("temperature"), code="rejected"))


@pytest.mark.parametrize("words", VALUES)
def test_words_that_blame_a_value(words):
    assert not blames_member(UpstreamRejected(words, code="rejected"))


def chat_refused(words: str) -> dict[str, Any]:
    return {"error": {"message": words, "type": "invalid_request_error"}}


DOCUMENTS: Final[Mapping[str, tuple[int, Callable[[str, str], Any]]]] = {
    "an object": (400, lambda name, words: chat_refused(words)),
    "a text": (400, lambda name, words: {"error": words}),
    "a list": (400, lambda name, words: [chat_refused(words)]),
    "several": (400, lambda name, words: {"errors": [{"message": words}]}),
    "within": (400, lambda name, words: chat_refused(json.dumps(chat_refused(words)))),
    "a page": (400, lambda name, words: f"<html><body>{words}</body></html>"),
    "a place": (
        422,
        lambda name, words: {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": words}]},
    ),
    "a code": (400, lambda name, words: {"error": {"message": "Bad.", "param": name, "code": "unknown_parameter"}}),
    "not implemented": (501, lambda name, words: chat_refused(words)),
    "a traceback": (500, lambda name, words: chat_refused(f"got an unexpected keyword argument '{name}'")),
    "a success": (200, lambda name, words: chat_refused(words)),
    "MiniMax's": (200, lambda name, words: {"base_resp": {"status_code": 2013, "status_msg": words}}),
}
"""In what a service says it."""


def has(value: Any, name: str) -> bool:
    if isinstance(value, dict):
        return name in value or any(has(each, name) for each in value.values())
    return isinstance(value, list) and any(has(each, name) for each in value)


ANSWERS: Final = {
    "chat": chat({"content": "Hello."}),
    "messages": sse(*said({"type": "text", "text": "Hello."})),
    "gemini": sse(generated({"text": "Hello."})),
}


def refusing(form: str, *names: str, status: int = 400, say: Callable[[str], Any]) -> Callable[[RecordedRequest], Any]:
    """A service that refuses requests for the first of *names* that they have."""

    def answer(recorded: RecordedRequest) -> Script | None:
        if recorded.operation != FORMS[form].operation:
            return None
        for name in names:
            if has(json.loads(recorded.body), name):
                told = say(name)
                body = told.encode() if isinstance(told, str) else json.dumps(told).encode()
                return (Head(status=status, content_type="application/json"), RawBytes(body))
        return (Head(content_type="text/event-stream"), RawBytes(ANSWERS[form]))

    return answer


def asking(client: str, form: str, **more: Any) -> Exchange:
    path, document = CLIENTS[client]
    path = path or f"/v1beta/models/{FORMS[form].model}:generateContent"
    return post(path, {**document, "model": FORMS[form].model, **more})


async def asked(form: str, exchange: Exchange, app: Any, sim: Any) -> tuple[int, int]:
    """The status of the answer, and how often the service was asked."""
    before = len(sim.requests)
    done = await exchange.run(app)
    return done.status, sum(each.operation == FORMS[form].operation for each in sim.requests[before:])


@pytest.mark.parametrize("case", DOCUMENTS)
async def test_a_refusal_is_read_in_whatever_document(case, gateway, service, sim):
    """It costs one request, and is remembered for the model of the service."""
    status, say = DOCUMENTS[case]
    words = "Unsupported parameter: new_field"
    sim.answer_with(refusing("chat", "new_field", status=status, say=lambda name: say(name, words)))
    app = gateway(**slices(service, FORMS["chat"]), fresh=True)
    found = [await asked("chat", asking("openai_chat", "chat", new_field=1), app, sim) for _ in range(2)]
    sim.answer_with(None)

    assert found == [(200, 2), (200, 1)]


CROSSING: Final = {"chat": "openai_chat", "messages": "anthropic", "gemini": "gemini"}


@pytest.mark.parametrize("form", CROSSING)
async def test_a_refusal_is_read_in_whatever_words(form, gateway, service, sim):
    """Of each service, what the client of its API has sent and nobody here knows."""
    name = "newField" if form == "gemini" else "new_field"
    for words in WORDS:
        told = words.format(name)
        say = {"error": {"message": told, "type": "invalid_request_error", "status": "INVALID_ARGUMENT", "code": 400}}
        sim.answer_with(refusing(form, name, say=lambda _, say=say: say))
        app = gateway(**slices(service, FORMS[form]), fresh=True)
        assert await asked(form, asking(CROSSING[form], form, **{name: 1}), app, sim) == (200, 2), told
    sim.answer_with(None)


async def test_a_service_that_knows_neither_name_of_the_limit(gateway, service, sim):
    """No name is tried twice, and the gateway keeps the limit itself."""
    both = ("max_tokens", "max_completion_tokens")
    sim.answer_with(refusing("chat", *both, say=lambda name: chat_refused(f"Unknown field {name}")))
    exchange = asking("openai_chat", "chat", max_tokens=1)
    done = await exchange.run(gateway(**slices(service, FORMS["chat"]), fresh=True))
    sim.answer_with(None)

    assert done.status == 200
    assert done.json()["choices"][0]["finish_reason"] == "length"
    assert not has(json.loads(sim.requests[-1].body), both[0])


@pytest.mark.parametrize("name", ["thinking", "display", "effort", "output_config", "temperature", "top_p"])
async def test_a_server_that_lacks_what_it_can_answer_without(name, gateway, service, sim):
    """Servers that copy the Messages API know no thinking, or no way to show it: they are asked without."""
    told = {"type": "invalid_request_error", "message": f"{name}: Extra inputs are not permitted"}
    sim.answer_with(refusing("messages", name, say=lambda _: {"type": "error", "error": told}))
    app = gateway(**slices(service, FORMS["messages"]), fresh=True)
    sampled = name in ("temperature", "top_p")
    asks = {name: 0.5} if sampled else {"reasoning_effort": "high", "model": "anthropic/claude-sonnet-4-6"}
    found = [await asked("messages", asking("openai_chat", "messages", **asks), app, sim) for _ in range(2)]
    sim.answer_with(None)

    assert found == [(200, 2), (200, 1)]


MARKED: Final = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
"""A mark for the service's cache, as the client's API has it."""


@pytest.mark.parametrize(
    ("path", "asks_needed"),
    [("messages.0.content.0.text.cache_control", 2), ("tools.0.cache_control.ephemeral.ttl", 3)],
)
async def test_a_server_that_takes_no_marks(path, asks_needed, gateway, service, sim):
    """Servers that copy the Messages API: a mark changes what an answer costs, and not what it says.

    A member of the mark goes first, and the mark where it is refused without that, too.
    """
    tool = {"name": "look", "input_schema": {"type": "object"}, **MARKED}
    text = {"type": "text", "text": "hi", **MARKED}
    asks = {"tools": [tool], "system": [text], "messages": [{"role": "user", "content": [text]}]}
    told = {"type": "invalid_request_error", "message": f"{path}: Extra inputs are not permitted"}
    sim.answer_with(refusing("messages", "cache_control", say=lambda _: {"type": "error", "error": told}))
    app = gateway(**slices(service, FORMS["messages"]), fresh=True)
    found = [await asked("messages", asking("anthropic", "messages", **asks), app, sim) for _ in range(2)]
    sim.answer_with(None)

    assert found == [(200, asks_needed), (200, 1)]


async def test_marks_that_the_operator_keeps_back(gateway, service, sim):
    """They are never sent, and nothing has to be refused."""
    text = {"type": "text", "text": "hi", **MARKED}
    asks = {"system": [text], "messages": [{"role": "user", "content": [text]}]}
    sim.answer_with(refusing("messages", "cache_control", say=chat_refused))
    settings = slices(service, FORMS["messages"])
    settings["anthropic"] = {**settings["anthropic"], "withheld": ["cache_control"]}
    found = await asked("messages", asking("anthropic", "messages", **asks), gateway(**settings, fresh=True), sim)
    sim.answer_with(None)

    assert found == (200, 1)
