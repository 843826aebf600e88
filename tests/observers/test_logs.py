"""Access lines, as text and as JSON."""

from __future__ import annotations

import json
import logging
import sys
from logging.handlers import QueueHandler
from queue import SimpleQueue

import pytest
from attrs import evolve

from kiro_asgi.errors import UpstreamThrottled
from kiro_asgi.observers.logs import AccessLog, JsonFormatter
from tests.observers.facts import CALL, END, refused

RESTS = [("kiro.api_key", UpstreamThrottled("slow down"), 12.4)]


@pytest.fixture(autouse=True)
def wanted(caplog):
    caplog.set_level(logging.INFO, "kiro_asgi.access")


def test_a_line_as_text(caplog):
    """Every fact has its word, and every word its place."""
    AccessLog(lambda: RESTS).ended(CALL, END)

    assert caplog.records[0].getMessage() == (
        "POST /v1/messages 200 complete model=sonnet upstream=kiro principal=alice error=- notices=call.cut"
        " tokens=100+21 input=context"
        " output=upstream cache=upstream credits=0.25 first=750ms per_token=50.0ms"
        " resting=kiro.api_key:UpstreamThrottled:12s 2500 ms req_1"
    )


def test_a_line_as_json(caplog):
    """The same facts by name, and more of them; also where a queue stands between logger and handler."""
    AccessLog(lambda: RESTS).ended(CALL, END)
    queue: SimpleQueue[logging.LogRecord] = SimpleQueue()
    QueueHandler(queue).handle(caplog.records[0])

    direct, queued = (json.loads(JsonFormatter().format(record)) for record in (caplog.records[0], queue.get()))
    assert direct == queued
    assert direct.pop("time").endswith("Z")
    assert direct == {
        "level": "info",
        "logger": "kiro_asgi.access",
        "request_id": "req_1",
        "method": "POST",
        "path": "/v1/messages",
        "route": "/v1/messages",
        "api": "anthropic",
        "status": 200,
        "outcome": "complete",
        "principal": "alice",
        "model": "sonnet",
        "upstream": "kiro",
        "attempts": 2,
        "upstream_model": "claude-sonnet-4.5",
        "credential": "kiro.api_key",
        "streamed": True,
        "rules": "turns.merged,sampling.ignored",
        "input_tokens": 100,
        "input_source": "context",
        "output_tokens": 21,
        "output_source": "upstream",
        "thinking_tokens": 0,
        "cache_read_tokens": 7,
        "cache_write_tokens": 0,
        "credits": 0.25,
        "finish": "end",
        "notices": "call.cut:1",
        "first_ms": 750.0,
        "per_token_ms": 50.0,
        "duration_ms": 2500.0,
        "preparation_ms": 250.0,
        "resting": "kiro.api_key:UpstreamThrottled:12s",
    }


def test_what_is_not_known_is_left_out(caplog):
    """A request that was refused has no tokens, which is not the same as none."""
    AccessLog(tuple).ended(evolve(CALL, principal="", route=""), refused())

    line = json.loads(JsonFormatter().format(caplog.records[0]))
    assert (line["status"], line["outcome"], line["error"], line["attempts"]) == (401, "refused", "Unauthorized", 0)
    assert not line.keys() & {"principal", "route", "input_tokens", "first_ms", "upstream_model", "resting", "code"}
    assert " tokens=- " in caplog.records[0].getMessage()


@pytest.mark.parametrize("form", [logging.Formatter("%(message)s"), JsonFormatter()], ids=["text", "json"])
def test_nothing_breaks_out_of_a_line(form, caplog):
    """R28, R29: one printable line of bounded length, whatever a client sends; never its key."""
    hostile = "\n\r\x1b[31m\x00\u2028\ud800é" * 1000
    call = evolve(CALL, path=hostile, method=hostile, principal=hostile)
    AccessLog(tuple).ended(call, evolve(END, model=hostile, code=hostile))

    line = form.format(caplog.records[0])
    assert line.isascii() and line.isprintable()
    assert len(line) < 16_000
    assert "canary" not in line


def test_a_name_is_one_word_of_a_line(caplog):
    """A host's user may be called anything, and forges no field by it."""
    call = evolve(CALL, principal="host:a b principal=root error=-")
    AccessLog(tuple).ended(call, evolve(END, model="m upstream=x"))

    line = caplog.messages[0]
    assert r"principal=host:a\x20b\x20principal=root\x20error=- error=" in line
    assert r"model=m\x20upstream=x upstream=" in line


def test_any_record_is_one_object():
    """What other loggers say, with traceback and the call that it is about."""
    try:
        raise LookupError("lost")
    except LookupError:
        record = logging.getLogger("other").makeRecord(
            "other", logging.ERROR, "file", 1, "bad\n%s", ("news",), sys.exc_info()
        )
    record.request_id = "req_2"

    line = json.loads(JsonFormatter().format(record))
    assert (line["level"], line["logger"], line["message"], line["request_id"]) == (
        "error",
        "other",
        "bad\nnews",
        "req_2",
    )
    assert line["exception"].startswith("Traceback") and line["exception"].endswith("LookupError: lost")
