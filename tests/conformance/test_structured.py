"""Structured output through the official clients' ``parse`` helpers, in each API and from each service: an instance, or
an error, never an answer that they cannot read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import Any
from uuid import UUID

import anthropic
import openai
import pytest
from pydantic import BaseModel

from kiro_asgi.simulator import Script, answer, refusal, text
from kiro_asgi.simulator.scripts import Trailers, json_answer
from kiro_asgi.simulator.service import CHAT
from tests.conformance.asked import EACH_API, EACH_WAY
from tests.conformance.asking import City, user
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

KIRO = (CHAT, "claude-haiku-4.5")
OPENAI = ("openai.chat", "gpt-4o")
CHECKED = [
    pytest.param(*KIRO, id="kiro"),
    pytest.param("gemini.chat", "gemini-2.5-flash", id="gemini"),
    pytest.param("anthropic.chat", "anthropic/claude-haiku-4-5", id="anthropic"),
]
EACH_SERVICE = pytest.mark.parametrize(("operation", "model"), [*CHECKED, pytest.param(*OPENAI, id="openai")])
EACH_CHECKED = pytest.mark.parametrize(("operation", "model"), CHECKED)

OSLO = City(name="Oslo", population=709_037, sights=["Fram"])
JSON = OSLO.model_dump_json()
WRONG = {
    "prose": "Oslo is a city.",
    "mismatch": '{"name": "Oslo", "population": "many", "sights": []}',
    "list": f"[{JSON}]",
    "two": f"{JSON}\n{JSON}",
    "unfinished": JSON[:-5],
    "nothing": " ",
}
WRAPPED = {
    "bare": JSON,
    "fenced": f"```json\n{JSON}\n```",
    "prefaced": f"Here is {{the}} city:\n\n```json\n{JSON}\n```\n",
    "prefaced-without-fence": f"Here is the city: {JSON}",
    "followed": f"{JSON}\n\nThere is more to say.",
    "blank": f"\n\n  {JSON}\n",
}

Asked = Callable[..., Any]


@pytest.fixture
def asked(clients: Clients, scripted: Gateway) -> Iterator[Asked]:
    """What ``parse``, or the streaming helper, makes of the service's answers, given as texts or scripts."""
    service = scripted.service
    assert service is not None

    def asking(api: str, stream: bool, operation: str, model: str, *said: str | Script, form: Any = City) -> Any:
        service.forget()
        rest = iter([answer(*text(each[:3], each[3:])) if isinstance(each, str) else each for each in said])
        service.answer_with(lambda request: next(rest, None) if request.operation == operation else None)
        return _ASK[api](clients, scripted, stream, {"model": model}, form)

    yield asking
    service.answer_with(None)


def _chat(clients: Clients, gateway: Gateway, stream: bool, params: dict[str, Any], form: Any) -> Any:
    completions = clients.openai(gateway).chat.completions
    params |= {"messages": user("Oslo"), "response_format": form}
    if not stream:
        return completions.parse(**params).choices[0].message.parsed
    with completions.stream(**params) as events:
        return events.get_final_completion().choices[0].message.parsed


def _responses(clients: Clients, gateway: Gateway, stream: bool, params: dict[str, Any], form: Any) -> Any:
    responses = clients.openai(gateway).responses
    params |= {"input": "Oslo", "text_format": form}
    if not stream:
        return responses.parse(**params).output_parsed
    with responses.stream(**params) as events:
        return events.get_final_response().output_parsed


def _messages(clients: Clients, gateway: Gateway, stream: bool, params: dict[str, Any], form: Any) -> Any:
    messages = clients.anthropic(gateway).messages
    params |= {"max_tokens": 4096, "messages": user("Oslo"), "output_format": form}
    if not stream:
        return messages.parse(**params).parsed_output
    with messages.stream(**params) as events:
        return events.get_final_message().parsed_output


_ASK = {"messages": _messages, "chat": _chat, "responses": _responses}


def bodies(gateway: Gateway, operation: str) -> list[bytes]:
    assert gateway.service is not None
    return [request.body for request in gateway.service.requests if request.operation == operation]


@EACH_WAY
@EACH_API
@EACH_CHECKED
@pytest.mark.parametrize("said", WRAPPED.values(), ids=WRAPPED)
def test_what_is_around_the_object_is_left_out(
    asked: Asked, scripted: Gateway, api: str, stream: bool, operation: str, model: str, said: str
) -> None:
    """A fence or a sentence around it costs no second try."""
    assert asked(api, stream, operation, model, said) == OSLO
    assert len(bodies(scripted, operation)) == 1


@EACH_WAY
@EACH_API
@EACH_CHECKED
@pytest.mark.parametrize("said", WRONG.values(), ids=WRONG)
def test_a_wrong_answer_gets_one_more_try(
    asked: Asked, scripted: Gateway, api: str, stream: bool, operation: str, model: str, said: str
) -> None:
    """The model is told what was wrong, and the client has the second answer only."""
    assert asked(api, stream, operation, model, said, JSON) == OSLO
    first, again = bodies(scripted, operation)
    assert b"Your answer was withheld" not in first
    assert b"Your answer was withheld" in again


@EACH_WAY
@EACH_API
@EACH_CHECKED
def test_then_it_is_an_error(
    asked: Asked, scripted: Gateway, api: str, stream: bool, operation: str, model: str
) -> None:
    """Nobody tries a third time, neither the gateway nor the SDK."""
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError), match="not the JSON") as raised:
        asked(api, stream, operation, model, WRONG["mismatch"], WRONG["prose"], JSON)

    assert raised.value.status_code == 502
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert getattr(raised.value, "code", "structured_output_failed") == "structured_output_failed"
    assert len(bodies(scripted, operation)) == 2


class Meeting(BaseModel):
    """A form with types that clients read out of texts."""

    at: datetime
    day: date
    id: UUID


@EACH_WAY
@EACH_API
@EACH_CHECKED
@pytest.mark.parametrize("wrong", [{"at": "tomorrow"}, {"day": "2026-13-01"}, {"id": "first"}], ids=str)
def test_texts_that_clients_read_are_in_their_format(
    asked: Asked, scripted: Gateway, api: str, stream: bool, operation: str, model: str, wrong: Any
) -> None:
    """A text that ``parse`` cannot read as a time or an id is a wrong answer; a time without a zone is none."""
    good = {"at": "2026-11-22T10:00:00", "day": "2026-11-22", "id": "0e7ab8cd-42a4-4c11-a2e3-5cf9d6a5b1ea"}
    said = [json.dumps({**good, **wrong}), json.dumps(good)]

    assert asked(api, stream, operation, model, *said, form=Meeting) == Meeting.model_validate(good)
    assert len(bodies(scripted, operation)) == 2


@EACH_WAY
@EACH_API
@EACH_CHECKED
def test_half_a_pair_of_surrogates_is_no_text(
    asked: Asked, scripted: Gateway, api: str, stream: bool, operation: str, model: str
) -> None:
    """Strict parsers, those behind ``parse`` among them, refuse a document with such an escape."""
    assert asked(api, stream, operation, model, JSON.replace("Oslo", "\\ud83d"), JSON) == OSLO
    assert len(bodies(scripted, operation)) == 2


@EACH_WAY
@EACH_CHECKED
@pytest.mark.parametrize("said", [f"[{JSON}]", f"```json\n[{JSON}]\n```"], ids=["bare", "fenced"])
def test_a_schema_may_want_something_else_than_an_object(
    asked: Asked, scripted: Gateway, stream: bool, operation: str, model: str, said: str
) -> None:
    """The Messages API has no rule that it be one; an object is then as wrong as any other mismatch."""
    assert asked("messages", stream, operation, model, JSON, said, form=list[City]) == [OSLO]
    assert len(bodies(scripted, operation)) == 2


@EACH_API
def test_a_service_that_guarantees_the_form_is_checked_where_it_can_be(
    asked: Asked, scripted: Gateway, api: str
) -> None:
    """Collected, its answers are held to it like all others; streamed, they go out at once."""
    assert asked(api, False, *OPENAI, WRONG["mismatch"], JSON) == OSLO
    assert len(bodies(scripted, OPENAI[0])) == 2
    assert asked(api, True, *OPENAI, JSON) == OSLO


@EACH_WAY
@EACH_API
def test_anthropic_is_held_to_the_schema(asked: Asked, scripted: Gateway, api: str, stream: bool) -> None:
    """By its own means, whichever API the client speaks; the service takes the schema."""
    operation, model = "anthropic.chat", "anthropic/claude-haiku-4-5"
    assert asked(api, stream, operation, model, JSON) == OSLO
    (body,) = map(json.loads, bodies(scripted, operation))
    form = body["output_config"]["format"]

    assert form["type"] == "json_schema"
    assert form["schema"]["additionalProperties"] is False
    assert form["schema"]["properties"].keys() == City.model_fields.keys()


def test_a_service_that_refuses_schemas_is_told_in_words(asked: Asked, scripted: Gateway) -> None:
    """The client has its answer, and the next request to that model is asked in words at once, from every API."""
    operation, model = "anthropic.chat", "anthropic/claude-opus-4-6"
    refused = refusal(400, "'claude-opus-4-6' does not support output format.", "invalid_request_error")
    assert asked("chat", True, operation, model, refused, JSON) == OSLO
    first, again = map(json.loads, bodies(scripted, operation))
    assert "output_config" in first
    assert "output_config" not in again
    for api in _ASK:
        assert asked(api, False, operation, model, JSON) == OSLO
        (later,) = map(json.loads, bodies(scripted, operation))
        assert "output_config" not in later
        assert "JSON Schema" in str(later["system"])


@EACH_WAY
@EACH_SERVICE
def test_an_answer_that_was_cut_says_so(asked: Asked, stream: bool, operation: str, model: str) -> None:
    """It is told as it is, and official helpers have an exception for it."""
    with pytest.raises(openai.LengthFinishReasonError):
        asked("chat", stream, operation, model, answer(*text(JSON[:20]), trailers=Trailers("MAX_TOKENS")))


class Node(BaseModel):
    """A schema that holds itself, which only JSON Schema can say."""

    name: str
    children: list[Node] = []


TREE = Node(name="a", children=[Node(name="b")])


@EACH_WAY
@EACH_API
def test_gemini_is_sent_the_clients_schema(asked: Asked, scripted: Gateway, api: str, stream: bool) -> None:
    """With its references, and without the keywords of the service's own schemas."""
    assert asked(api, stream, "gemini.chat", "gemini-2.5-flash", TREE.model_dump_json(), form=Node) == TREE
    (body,) = bodies(scripted, "gemini.chat")
    config = json.loads(body)["generationConfig"]

    assert config["responseMimeType"] == "application/json" and "responseSchema" not in config
    assert "#/$defs/Node" in json.dumps(config["responseJsonSchema"])


@EACH_WAY
@EACH_API
def test_gemini_refuses_it(asked: Asked, scripted: Gateway, api: str, stream: bool) -> None:
    """Then the schema is projected, and the client has its answer."""
    error = {"code": 400, "status": "INVALID_ARGUMENT", "message": "Request contains an invalid argument."}
    refused = json_answer(400, {"error": error})
    assert asked(api, stream, "gemini.chat", "gemini-2.5-pro", refused, JSON) == OSLO
    first, again = (json.loads(body)["generationConfig"] for body in bodies(scripted, "gemini.chat"))

    assert first.keys() >= {"responseJsonSchema"} and "responseSchema" not in first
    assert again.keys() >= {"responseSchema"} and "responseJsonSchema" not in again
