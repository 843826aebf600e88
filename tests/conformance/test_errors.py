"""Every refusal becomes the exception that the official Python clients have for it.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.conformance.asking import MODEL, SENTENCE, user
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway, watched
from tests.conformance.troubles import TROUBLES, Trouble

EACH = pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: each.name)


@EACH
def test_61_chat(clients: Clients, gateway: Gateway, impatient: Gateway, trouble: Trouble) -> None:
    """Class, status, type, code and request id; and whether a client should try again."""
    client = clients.openai(impatient if trouble.impatient else gateway, key=trouble.key)
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model=trouble.model, messages=user(trouble.content))
    error = caught.value

    assert (type(error).__name__, error.type, error.code) == trouble.chat
    assert error.status_code == trouble.status
    assert error.response.headers.get("x-should-retry", "") == trouble.retry
    assert set(error.body or ()) == {"message", "type", "param", "code"}
    assert (error.request_id or "").startswith("req_")
    assert _mute(trouble, error.message)


@EACH
def test_61_messages(clients: Clients, gateway: Gateway, impatient: Gateway, trouble: Trouble) -> None:
    """Class, status, type and request id; and whether a client should try again."""
    client = clients.anthropic(impatient if trouble.impatient else gateway, key=trouble.key)
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(model=trouble.model, max_tokens=99, messages=user(trouble.content))
    error = caught.value
    body: Any = error.body

    assert (type(error).__name__, error.type) == trouble.messages
    assert error.status_code == trouble.status_of_messages
    assert error.response.headers.get("x-should-retry", "") == trouble.retry
    assert list(body) == ["type", "error", "request_id"]
    assert list(body["error"]) == ["type", "message"]
    assert body["request_id"] == error.request_id == error.response.headers["x-request-id"]
    assert _mute(trouble, body["error"]["message"])


def _mute(trouble: Trouble, message: str) -> bool:
    """There are words, and neither the question nor the key is in them."""
    return bool(message) and trouble.content not in message and (trouble.key not in message or trouble.key == "wrong")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("bad-key", "invalid x-api-key", id="key"),
        pytest.param("too-long", "prompt is too long", id="context"),
        pytest.param("unknown-model", "model: no-such-model", id="model"),
        pytest.param("suspicious", "suspicious activity", id="verbatim"),
    ],
)
def test_61_words_that_clients_look_for(clients: Clients, gateway: Gateway, name: str, words: str) -> None:
    """Agents act on phrases in messages."""
    (trouble,) = (each for each in TROUBLES if each.name == name)
    client = clients.anthropic(gateway, key=trouble.key)
    with pytest.raises(anthropic.APIStatusError, match=words):
        client.messages.create(model=trouble.model, max_tokens=99, messages=user(trouble.content))


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        pytest.param("too-long", "context_length_exceeded", "This model's maximum context length", id="context"),
        pytest.param("unknown-model", "model_not_found", "The model 'no-such-model' does not exist", id="listed"),
        pytest.param("bad-model", "model_not_found", f"The model '{MODEL}' does not exist", id="refused"),
        pytest.param(
            "token-invalid", "upstream_credential_refused", "Your key is fine; the gateway's own", id="credential"
        ),
    ],
)
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_61_words_of_openai(clients: Clients, gateway: Gateway, api: str, name: str, code: str, words: str) -> None:
    """On OpenAI's routes the phrases are OpenAI's, whatever the service says."""
    (trouble,) = (each for each in TROUBLES if each.name == name)
    client = clients.openai(gateway)
    with pytest.raises(openai.APIStatusError, match=words) as caught:
        if api == "chat":
            client.chat.completions.create(model=trouble.model, messages=user(trouble.content))
        else:
            client.responses.create(model=trouble.model, input=trouble.content)

    assert caught.value.code == code


def test_61_base_urls_that_are_not_quite_right(clients: Clients, gateway: Gateway) -> None:
    """The official clients append paths of their own; what they then ask for is told, in their own envelope."""
    twice = clients.anthropic(gateway).with_options(base_url=f"{gateway.base}/v1")
    with pytest.raises(anthropic.NotFoundError, match="nothing at POST /v1/v1/messages; take one /v1") as one:
        twice.messages.create(model=MODEL, max_tokens=9, messages=user("Hello"))
    never = clients.openai(gateway).with_options(base_url=gateway.base)
    with pytest.raises(openai.NotFoundError, match="nothing at POST /chat/completions; did you mean /v1/chat") as other:
        never.chat.completions.create(model=MODEL, messages=user("Hello"))

    assert (one.value.type, other.value.type) == ("not_found_error", "invalid_request_error")


@pytest.mark.parametrize(
    ("status", "method", "path"),
    [(404, "POST", "/nothing"), (405, "GET", "/chat/completions"), (405, "GET", "/completions")],
)
def test_61_routes_of_chat(chat: openai.OpenAI, status: int, method: str, path: str) -> None:
    """Unknown paths and methods are told in the envelope of the family."""
    with pytest.raises(openai.APIStatusError) as caught:
        getattr(chat, method.lower())(path, cast_to=object)

    assert (caught.value.status_code, caught.value.type) == (status, "invalid_request_error")
    assert (caught.value.request_id or "").startswith("req_")


@pytest.mark.parametrize(
    ("status", "method", "path", "kind"),
    [
        (404, "POST", "/v1/messages/nothing", "not_found_error"),
        (405, "GET", "/v1/messages", "invalid_request_error"),
    ],
)
def test_61_routes_of_messages(messages: anthropic.Anthropic, status: int, method: str, path: str, kind: str) -> None:
    """Unknown paths and methods are told in the envelope of the family."""
    with pytest.raises(anthropic.APIStatusError) as caught:
        getattr(messages, method.lower())(path, cast_to=object)

    assert (caught.value.status_code, caught.value.type) == (status, kind)


@pytest.mark.parametrize("missing", ["model", "max_tokens", "messages"])
def test_61_missing_fields(messages: anthropic.Anthropic, missing: str) -> None:
    """What is missing is named, and it is a 400."""
    asked: dict[str, Any] = {"model": MODEL, "max_tokens": 9, "messages": user("Hello")}
    body = {name: value for name, value in asked.items() if name != missing}
    with pytest.raises(anthropic.BadRequestError, match=f"{missing}: Field required"):
        messages.post("/v1/messages", body=body, cast_to=object)


def test_61_gateway_at_its_limit(clients: Clients, tmp_path: Path) -> None:
    """One connection and no queue: who comes second is told 503, as its client's class for it, and can come again."""
    limits = {"KIRO_ASGI__LIMITS__CONNECTIONS": "1", "KIRO_ASGI__LIMITS__QUEUE": "0"}
    with watched(tmp_path, **limits) as crowded:
        chat, messages = clients.openai(crowded), clients.anthropic(crowded)
        slow = chat.chat.completions.create(model=MODEL, messages=user("sim:count=99 sim:slow=0.05"), stream=True)
        with slow as stream:
            next(stream)
            with pytest.raises(openai.InternalServerError) as second:
                chat.chat.completions.create(model=MODEL, messages=user("sim:text"))
            with pytest.raises(anthropic.ServiceUnavailableError) as third:
                messages.messages.create(model=MODEL, max_tokens=9, messages=user("sim:text"))
        released = crowded.observed(lambda service: service.connections_open == 0)
        after = messages.messages.create(model=MODEL, max_tokens=99, messages=user("sim:text"))

    assert (second.value.status_code, second.value.code) == (503, "server_is_overloaded")
    assert (third.value.status_code, third.value.type) == (503, "overloaded_error")
    assert released
    assert after.content[0].text == SENTENCE  # type: ignore[union-attr]


BROKEN = pytest.mark.parametrize(
    ("marker", "kind"),
    [
        pytest.param("reset", "overloaded_error", id="reset"),
        pytest.param("exception", "api_error", id="exception"),
        pytest.param("exception=ThrottlingException", "rate_limit_error", id="throttled"),
        pytest.param("torn", "api_error", id="torn"),
        pytest.param("bad-crc", "api_error", id="checksum"),
        pytest.param("stall-mid", "timeout_error", id="silence"),
    ],
)
"""What breaks an answer in the middle, and the type of error in the stream."""


@BROKEN
def test_24_broken_off(clients: Clients, impatient: Gateway, marker: str, kind: str) -> None:
    """F025, R31: what was said before arrives; then the client raises, with words, and nothing looks like an end."""
    received = []
    asked = clients.openai(impatient).chat.completions.create(model=MODEL, messages=user(f"sim:{marker}"), stream=True)
    with asked as stream, pytest.raises(openai.APIError) as caught:
        received.extend(stream)
    choices = [choice for chunk in received for choice in chunk.choices]

    assert SENTENCE.startswith("".join(choice.delta.content or "" for choice in choices))
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == []
    assert (caught.value.type, caught.value.code) == (kind, "stream_error")
    assert caught.value.message


@BROKEN
def test_62_broken_off(clients: Clients, impatient: Gateway, marker: str, kind: str) -> None:
    """F087, F291, R31: the same for Messages; the open block is closed, but no end of the message is made up."""
    received: list[Any] = []
    asked = clients.anthropic(impatient).messages.create(
        model=MODEL, max_tokens=99, messages=user(f"sim:{marker}"), stream=True
    )
    with asked as stream, pytest.raises(anthropic.APIStatusError) as caught:
        received.extend(stream)

    assert [each.type for each in received][-1] == "content_block_stop"
    assert (caught.value.type, caught.value.status_code) == (kind, 200)
    assert (caught.value.request_id or "").startswith("req_")


@BROKEN
def test_62_broken_off_in_the_helper(clients: Clients, impatient: Gateway, marker: str, kind: str) -> None:
    """The helper raises instead of handing out half a message."""
    asked = clients.anthropic(impatient).messages.stream(model=MODEL, max_tokens=99, messages=user(f"sim:{marker}"))
    with asked as stream, pytest.raises(anthropic.APIStatusError) as caught:
        stream.get_final_message()

    assert (caught.value.type, caught.value.status_code) == (kind, 200)


def test_24_silence_after_an_early_head(clients: Clients, impatient: Gateway) -> None:
    """The head went out while the service was silent, so the timeout is told within the stream."""
    asked = clients.openai(impatient).chat.completions.stream(model=MODEL, messages=user("sim:stall"))
    with pytest.raises(openai.APIError) as caught, asked as stream:
        stream.get_final_completion()

    assert (caught.value.type, caught.value.code) == ("timeout_error", "stream_error")


def test_62_silence_after_an_early_head(clients: Clients, impatient: Gateway) -> None:
    """The same for Messages."""
    asked = clients.anthropic(impatient).messages.stream(model=MODEL, max_tokens=99, messages=user("sim:stall-headers"))
    with pytest.raises(anthropic.APIStatusError) as caught, asked as stream:
        stream.get_final_message()

    assert (caught.value.type, caught.value.status_code) == ("timeout_error", 200)
