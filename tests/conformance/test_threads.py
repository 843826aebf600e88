"""Threads: conversations that a server holds, as the tool runners and ``thread()`` of both official SDKs use them.

Whichever service answers, the model must get the whole conversation: from the service that holds it, or because the
client is told at once that nobody does, and sends it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import anthropic
import pytest

from kiro_asgi.simulator import RecordedRequest
from tests.conformance.asked import EACH_WAY
from tests.conformance.asking import MODEL
from tests.conformance.clients import Clients
from tests.conformance.gateways import EVERY_SERVICE, KEY, Gateway, watched
from tests.conformance.node import Seen, install, run

SERVICES: Final = {
    "kiro": MODEL,
    "gemini": "gemini/gemini-2.5-flash",
    "openai": "openai/gpt-4o",
    "responses": "openai/gpt-5-pro",
    "custom": "copy/gpt-4o",
    "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "anthropic": "anthropic/claude-haiku-4-5",
}
HOLDS: Final = "anthropic"
"""The service that has threads."""

EACH_SERVICE: Final = pytest.mark.parametrize("service", SERVICES)
EACH_SDK: Final = pytest.mark.parametrize("sdk", ["python", pytest.param("javascript", marks=pytest.mark.js)])
CALLED: Final = "sim:tool=now {}"
FIRST: Final = "The first thing that is said"
SECOND: Final = "The second thing"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that hands requests on where it can."""
    settings = {
        **EVERY_SERVICE,
        "KIRO_ASGI__STREAM__RELAY": "auto",
        "KIRO_ASGI__BEDROCK__API_KEY": "key",
        "KIRO_ASGI__BEDROCK__REGION": "us-east-1",
        "KIRO_ASGI__BEDROCK__ENDPOINT": "{service}",
        "KIRO_ASGI__CUSTOM__COPY__API": "chat",
        "KIRO_ASGI__CUSTOM__COPY__API_KEY": "key",
        "KIRO_ASGI__CUSTOM__COPY__ENDPOINT": "{service}/v1",
    }
    with watched(tmp_path_factory.mktemp("threads"), **settings) as running:
        yield running


def asked(gateway: Gateway, *words: str) -> list[RecordedRequest]:
    """Requests that were answered, and have all of *words*."""
    assert gateway.service is not None
    answers = [request for request in gateway.service.requests if request.operation.endswith(_ANSWERS)]
    return [it for it in answers if it.status == 200 and all(word.encode() in it.body for word in words)]


_ANSWERS: Final = ("chat", "GenerateAssistantResponse")


class Python:
    """What the SDK for Python makes of it."""

    def __init__(self, clients: Clients, gateway: Gateway, model: str) -> None:
        self.messages = clients.anthropic(gateway).beta.messages
        self.common: dict[str, Any] = {"model": model, "max_tokens": 1000}

    def runs_tools(self, *, stream: bool) -> str:
        """The last text of a tool runner."""

        @anthropic.beta_tool
        def now() -> str:
            """Tell the time."""
            return "noon"

        said: list[Any] = [{"role": "user", "content": CALLED}]
        runner = self.messages.tool_runner(**self.common, tools=[now], messages=said, stream=stream)
        return _text(runner.until_done())

    def talks(self, *, stream: bool) -> str:
        """The last text of a thread."""
        thread = self.messages.thread(**self.common, unsupported_request_behavior="continue_unthreaded")
        last: Any = None
        for said in (FIRST, SECOND):
            turn: Any = {"role": "user", "content": said}
            if stream:
                with thread.stream(turn) as events:
                    last = events.get_final_message()
            else:
                last = thread.send(turn)
        return _text(last)

    def is_told(self) -> tuple[int, Any]:
        """Status and details of the error for a thread that goes on with nothing else."""
        with pytest.raises(anthropic.BadRequestError) as caught:
            self.messages.thread(**self.common).send({"role": "user", "content": FIRST})
        return caught.value.status_code, json.loads(caught.value.response.content)["error"]["details"]


class JavaScript:
    """What the SDK for JavaScript makes of it."""

    def __init__(self, clients: Clients, gateway: Gateway, model: str) -> None:
        self.given = {
            "gateway": gateway.base, "key": KEY, "model": model, "called": CALLED, "first": FIRST, "second": SECOND
        }  # fmt: skip

    def _report(self, name: str) -> Seen:
        return run("threads.mjs", install(), {**self.given, "question": name})[name]

    def runs_tools(self, *, stream: bool) -> str:
        """The last text of a tool runner."""
        return _value(self._report(f"runner {stream}".lower()))

    def talks(self, *, stream: bool) -> str:
        """The last text of a thread."""
        return _value(self._report(f"thread {stream}".lower()))

    def is_told(self) -> tuple[int, Any]:
        """Status and details of the error for a thread that goes on with nothing else."""
        thrown = self._report("told").value
        return thrown["status"], thrown["details"]


def _value(seen: Seen) -> str:
    assert seen.thrown is None, seen.thrown
    return str(seen.value)


def _text(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


SDKS: Final[dict[str, type[Python] | type[JavaScript]]] = {"python": Python, "javascript": JavaScript}


@EACH_WAY
@EACH_SDK
@EACH_SERVICE
def test_a_tool_runner_keeps_the_conversation(
    clients: Clients, gateway: Gateway, service: str, sdk: str, stream: bool
) -> None:
    """The model is asked with the result and what it belongs to, or its service holds that."""
    assert gateway.service is not None
    gateway.service.forget()
    said = SDKS[sdk](clients, gateway, SERVICES[service]).runs_tools(stream=stream)

    assert said == "The tool says: noon"
    assert len(asked(gateway)) == 2
    whole = asked(gateway, CALLED.split()[0], "noon")
    held = asked(gateway, '"continue"', "noon")
    assert (len(whole), len(held)) == ((0, 1) if service == HOLDS else (1, 0))


@EACH_WAY
@EACH_SDK
@EACH_SERVICE
def test_a_thread_keeps_the_conversation(
    clients: Clients, gateway: Gateway, service: str, sdk: str, stream: bool
) -> None:
    """The same for what is said without tools."""
    assert gateway.service is not None
    gateway.service.forget()
    SDKS[sdk](clients, gateway, SERVICES[service]).talks(stream=stream)

    assert len(asked(gateway)) == 2
    whole, held = asked(gateway, FIRST, SECOND), asked(gateway, '"continue"', SECOND)
    assert (len(whole), len(held)) == ((0, 1) if service == HOLDS else (1, 0))


@EACH_SDK
@pytest.mark.parametrize("service", sorted(SERVICES.keys() - {HOLDS}))
def test_who_wants_a_thread_is_told_that_there_is_none(
    clients: Clients, gateway: Gateway, service: str, sdk: str
) -> None:
    """A client that has not said what to do instead gets the API's own error."""
    told = SDKS[sdk](clients, gateway, SERVICES[service]).is_told()

    assert told == (400, {"error_code": "thread_unsupported_request", "unsupported": ["thread"]})


@EACH_WAY
def test_a_thread_that_the_service_has_lost(clients: Clients, gateway: Gateway, stream: bool) -> None:
    """The service's own word for it reaches the client, which sends everything again."""
    messages = clients.anthropic(gateway).beta.messages
    thread = messages.thread(model=SERVICES[HOLDS], max_tokens=1000)
    thread.send({"role": "user", "content": FIRST})
    assert gateway.service is not None
    gateway.service.forget()
    lost: Any = {"type": "continue", "previous_message_id": "msg_lost"}
    with pytest.raises(anthropic.APIStatusError) as caught:
        messages.create(model=SERVICES[HOLDS], max_tokens=9, messages=[], thread=lost, stream=stream)

    assert caught.value.error_code == "thread_not_found"
    assert caught.value.response.headers["x-should-retry"] == "false"
