"""What is told about a request: to its client on demand, and to the operator where the service calls it invalid."""

from __future__ import annotations

import pytest

from kiro_asgi.asgi.exchange.reports import rules_header
from kiro_asgi.model.notes import Note
from kiro_asgi.simulator import answer, refusal, text
from tests.asgi.answers import DIALECTS, text_of
from tests.asgi.driver import Exchange, ask, post

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
HEADER = "x-kiro-asgi-rules"


def curious(exchange: Exchange, value: bytes = b"1") -> Exchange:
    exchange.scope["headers"].append((HEADER.encode(), value))
    return exchange


@EACH_DIALECT
@EACH_MODE
async def test_the_rules_that_were_applied_are_told_on_demand(dialect, stream, gateway):
    """Only who asks is told, by name, in both modes."""
    asked = await curious(ask(dialect, "hi", stream=stream, temperature=0.5)).run(gateway())
    declined = await curious(ask(dialect, "hi", stream=stream, temperature=0.5), b"0").run(gateway())
    silent = await ask(dialect, "hi", stream=stream, temperature=0.5).run(gateway())

    assert 'sampling.ignored;at="temperature"' in asked.headers[HEADER].split(", ")
    assert HEADER not in declined.headers
    assert HEADER not in silent.headers


@pytest.mark.parametrize(
    ("notes", "value"),
    [
        pytest.param((), b"", id="nothing"),
        pytest.param((Note("turns.merged"),), b"turns.merged", id="name"),
        pytest.param(
            (Note("turns.merged", 2, "messages[3].content[0]"), Note("a.b")),
            b'turns.merged;n=2;at="messages[3].content[0]", a.b',
            id="times-and-place",
        ),
        pytest.param((Note("a.b", 1, 'x"\r\nset-cookie: y'),), b'a.b;at="x___set-cookie__y"', id="R27-foreign"),
    ],
)
def test_rules_become_a_list(notes, value):
    """A list of RFC 9651 whose parameters say how often and where first; nothing can break out of the header (R27)."""
    assert rules_header(notes) == (b"x-kiro-asgi-rules", value)


def test_the_list_is_bounded():
    """However much had to be adapted, servers accept the header."""
    _, value = rules_header([Note(f"rule.r{n}", n, "messages[0]" * 50) for n in range(1000)])

    assert len(value) < 8000


REFUSED = refusal(400, "Improperly formed request.", error_type="ValidationException")


@EACH_DIALECT
async def test_a_refused_request_is_written_down_without_its_words(dialect, gateway, sim, caplog):
    """F069-F071, R28: status, its words, its error type, what was adapted and the sizes; no word of the prompt."""
    sim.enqueue(REFUSED)
    await ask(dialect, "canary-7f3", stream=True, temperature=0.5).run(gateway(kiro={"tool_history": "native"}))
    (line,) = [each.getMessage() for each in caplog.records if "upstream answered" in each.getMessage()]

    assert "400 Bad Request" in line and "Improperly formed request." in line
    assert "x-amzn-errortype=ValidationException" in line
    assert "sampling.ignored" in line
    assert {"bytes=", "messages=", "tools=", "tool_results="} <= {part.partition("=")[0] + "=" for part in line.split()}
    assert "canary" not in caplog.text


@pytest.mark.parametrize(("wanted", "times"), [(False, 0), (True, 1)])
async def test_bodies_are_logged_on_demand_only(wanted, times, gateway, caplog):
    """F376: off, no words; on, the words that the service is sent, without secrets and images."""
    caplog.set_level("DEBUG", "kiro_asgi")
    prompt = f"canary-7f3 ksk_{'s3cret' * 4} {'A' * 2000}"
    await ask("openai", prompt, stream=True).run(gateway(kiro={"log_bodies": wanted}))
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("kiro_asgi"))

    assert logged.count("canary-7f3") == times
    assert logged.count("[redacted]") == times
    assert "s3cret" not in logged


TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}
AFTER_A_CALL = {
    "model": "claude-sonnet-4.5",
    "max_tokens": 99,
    "tools": [TOOL],
    "messages": [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "x"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "nothing there"}]},
    ],
}


def after_a_call() -> Exchange:
    return post("/v1/messages", AFTER_A_CALL)


async def test_an_improperly_formed_request_is_told_as_text_once(gateway, sim):
    """F073: native structures first; on that refusal the same conversation as text, once, without waiting."""
    sim.enqueue(REFUSED, answer(*text("fine")))
    exchange = await curious(after_a_call()).run(gateway(retry={"base": 60.0}))
    first, second = sim.requests

    assert text_of("anthropic", exchange) == "fine"
    assert b"toolResults" in first.body and b"toolResults" not in second.body and b"nothing there" in second.body
    assert "adapted.as_text" in exchange.headers[HEADER]


@pytest.mark.parametrize("history", ["native", "text"])
async def test_the_fallback_has_to_be_wanted(history, gateway, sim):
    """F074: who asked for one form gets the refusal of that form."""
    sim.enqueue(REFUSED)
    exchange = await after_a_call().run(gateway(kiro={"tool_history": history}))

    assert exchange.status == 400
    assert len(sim.requests) == 1


async def test_a_failure_of_the_fallback_is_told(gateway, sim):
    """F075, F072: the second refusal is the answer, and there is no third call."""
    sim.enqueue(REFUSED, refusal(400, "Improperly formed request, again.", error_type="ValidationException"))
    exchange = await after_a_call().run(gateway())

    assert exchange.status == 400
    assert "again" in exchange.json()["error"]["message"]
    assert len(sim.requests) == 2


@EACH_DIALECT
async def test_a_refusal_is_no_client_that_left(dialect, gateway, sim, caplog):
    """In the access log a status in the place of an answer is a refusal."""
    sim.enqueue(refusal(400, "Improperly formed request."))
    with caplog.at_level("INFO", "kiro_asgi.access"):
        exchange = await ask(dialect, "hi", stream=True).run(gateway())

    (line,) = (record.getMessage() for record in caplog.records if record.name == "kiro_asgi.access")
    assert exchange.status == 400
    assert line.split()[2:4] == ["400", "refused"]
