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
from tests.conformance.conftest import Gateway, anthropic_client, openai_client
from tests.conformance.gateways import KEY, watched
from tests.conformance.troubles import TROUBLES, Trouble

EACH = pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: each.name)


@EACH
def test_61_chat(gateway: Gateway, impatient: Gateway, trouble: Trouble) -> None:
    """Class, status, type, code and request id; and whether a client should try again."""
    with openai_client(impatient if trouble.impatient else gateway, key=trouble.key) as client:
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
def test_61_messages(gateway: Gateway, impatient: Gateway, trouble: Trouble) -> None:
    """Class, status, type and request id; and whether a client should try again."""
    with anthropic_client(impatient if trouble.impatient else gateway, key=trouble.key) as client:
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
def test_61_words_that_clients_look_for(gateway: Gateway, name: str, words: str) -> None:
    """Agents act on phrases in messages."""
    (trouble,) = (each for each in TROUBLES if each.name == name)
    with anthropic_client(gateway, key=trouble.key) as client, pytest.raises(anthropic.APIStatusError, match=words):
        client.messages.create(model=trouble.model, max_tokens=99, messages=user(trouble.content))


@pytest.mark.parametrize(
    ("status", "method", "path"),
    [(404, "POST", "/nothing"), (405, "GET", "/chat/completions"), (404, "POST", "/responses")],
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
def test_61_routes_of_messages(
    messages: anthropic.Anthropic, status: int, method: str, path: str, kind: str
) -> None:
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


def test_61_gateway_at_its_limit(tmp_path: Path) -> None:
    """One connection and no queue: who comes second is told 503, as its client's class for it, and can come again."""
    limits = {"KIRO_ASGI__LIMITS__CONNECTIONS": "1", "KIRO_ASGI__LIMITS__QUEUE": "0"}
    with watched(tmp_path, **limits) as crowded, openai_client(crowded) as chat, anthropic_client(crowded) as messages:
        slow = chat.chat.completions.create(model=MODEL, messages=user("sim:count=99 sim:slow=0.05"), stream=True)
        with slow as stream:
            next(stream)
            with pytest.raises(openai.InternalServerError) as second:
                chat.chat.completions.create(model=MODEL, messages=user("sim:text"))
            with pytest.raises(anthropic.ServiceUnavailableError) as third:
                messages.messages.create(model=MODEL, max_tokens=9, messages=user("sim:text"))
        assert crowded.service is not None
        assert crowded.service.wait_until(lambda: crowded.service.connections_open == 0)  # type: ignore[union-attr]
        after = messages.messages.create(model=MODEL, max_tokens=99, messages=user("sim:text"))

    assert (second.value.status_code, second.value.code) == (503, "server_is_overloaded")
    assert (third.value.status_code, third.value.type) == (503, "overloaded_error")
    assert after.content[0].text == SENTENCE  # type: ignore[union-attr]


BROKEN = (
    pytest.param("reset", "overloaded_error", id="reset"),
    pytest.param("exception", "api_error", id="exception"),
    pytest.param("exception=ThrottlingException", "rate_limit_error", id="throttled"),
    pytest.param("torn", "api_error", id="torn"),
    pytest.param("bad-crc", "api_error", id="checksum"),
)
"""What breaks an answer in the middle, and the type of error in the stream."""


@pytest.mark.parametrize(("marker", "kind"), [*BROKEN, pytest.param("stall-mid", "timeout_error", id="silence")])
def test_24_broken_off(impatient: Gateway, marker: str, kind: str) -> None:
    """F025, R31: what was said before arrives; then the client raises, with words, and nothing looks like an end."""
    received = []
    with openai_client(impatient) as client, pytest.raises(openai.APIError) as caught:
        with client.chat.completions.create(model=MODEL, messages=user(f"sim:{marker}"), stream=True) as stream:
            received.extend(stream)  # pragma: no branch
    choices = [choice for chunk in received for choice in chunk.choices]

    assert SENTENCE.startswith("".join(choice.delta.content or "" for choice in choices))
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == []
    assert (caught.value.type, caught.value.code) == (kind, "stream_error")
    assert caught.value.message


@pytest.mark.parametrize(("marker", "kind"), [*BROKEN, pytest.param("stall-mid", "timeout_error", id="silence")])
def test_62_broken_off(impatient: Gateway, marker: str, kind: str) -> None:
    """F087, F291, R31: the same for Messages, raw and through the helper; no end of the message is made up."""
    received: list[Any] = []
    with anthropic_client(impatient) as client:
        asked: Any = {"model": MODEL, "max_tokens": 99, "messages": user(f"sim:{marker}")}
        with pytest.raises(anthropic.APIStatusError) as caught, client.messages.create(**asked, stream=True) as raw:
            received.extend(raw)  # pragma: no branch
        with pytest.raises(anthropic.APIStatusError) as folded, client.messages.stream(**asked) as stream:
            stream.get_final_message()

    assert [each.type for each in received][-1] == "content_block_stop"
    assert (caught.value.type, caught.value.status_code) == (kind, 200)
    assert (folded.value.type, folded.value.status_code) == (kind, 200)
    assert (caught.value.request_id or "").startswith("req_")


@pytest.mark.parametrize("marker", ["stall", "stall-headers"])
def test_62_silence_after_an_early_head(impatient: Gateway, marker: str) -> None:
    """The head went out while the service was silent, so the timeout is told within the stream."""
    with anthropic_client(impatient) as client, pytest.raises(anthropic.APIStatusError) as caught:
        with client.messages.stream(model=MODEL, max_tokens=99, messages=user(f"sim:{marker}")) as stream:
            stream.get_final_message()
    with openai_client(impatient) as client, pytest.raises(openai.APIError) as other:
        with client.chat.completions.stream(model=MODEL, messages=user(f"sim:{marker}")) as stream:
            stream.get_final_completion()

    assert (caught.value.type, caught.value.status_code) == ("timeout_error", 200)
    assert (other.value.type, other.value.code) == ("timeout_error", "stream_error")


def test_61_one_key_space(gateway: Gateway) -> None:
    """Both families take the same keys, and a key of nobody opens neither."""
    with openai_client(gateway, key=KEY) as chat, anthropic_client(gateway, key=KEY) as messages:
        assert chat.models.list().data[0].id == messages.models.list().data[0].id
