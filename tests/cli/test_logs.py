"""What ``serve`` writes to its log: bounded in what clients can cause, and without secrets whoever logs."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import anyio
import pytest

from kiro_asgi import create_app
from kiro_asgi.asgi.kept.secrets import Secrets, hide_in_logs
from kiro_asgi.cli import logs
from tests.asgi.driver import ask

SECRET = "tok/Secret+0123456789abcdef"

LIBRARIES = (
    "asyncio",
    "botocore.auth",
    "h11",
    "httpcore.connection",
    "httpcore.http11",
    "hypercorn.error",
    "trio",
    "valkey",
)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What is written, with the logging of ``serve`` at level ``debug``."""
    root, access, stream = logging.getLogger(), logging.getLogger("kiro_asgi.access"), io.StringIO()
    levels = root.level, access.level
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr("sys.stderr", stream)
    logs.configure("debug", "text", False)
    yield stream
    root.setLevel(levels[0])
    access.setLevel(levels[1])


@pytest.mark.parametrize("name", LIBRARIES)
def test_no_secret_of_an_app_is_in_what_a_library_logs(name: str, log: io.StringIO) -> None:
    """Be it in the message, in its arguments or in a traceback."""
    held = Secrets(lambda: (SECRET,))
    hide_in_logs(held)
    logger = logging.getLogger(name)
    logger.debug("headers=%r", [(b"x-echo", SECRET.encode())])
    logger.debug("headers=" + SECRET)
    try:
        raise ValueError(SECRET)
    except ValueError:
        logger.exception("failed")

    assert SECRET not in log.getvalue()
    assert log.getvalue().count("[redacted]") == 3


@pytest.mark.parametrize(
    "header",
    ["Authorization", "proxy-authorization", "Cookie", "Set-Cookie", "x-api-key", "X-Goog-Api-Key", "api-key"],
)
def test_no_header_that_is_a_secret_is_in_what_a_library_logs(header: str, log: io.StringIO) -> None:
    """The way that httpcore shows headers: bytes or text, in either quotes."""
    for value in ("of somebody else", "it's"):
        headers = [(b"date", b"now"), (header.encode(), value.encode()), (header, value), (b"server", b"s")]
        logging.getLogger("httpcore.http11").debug("return_value=%r", headers)

    assert "somebody" not in log.getvalue() and "it's" not in log.getvalue()
    assert log.getvalue().count("now") == log.getvalue().count("b'server', b's'") == 2


def test_a_flood_of_one_kind_is_few_lines(log: io.StringIO) -> None:
    """Whatever the arguments: the first ones, then each time that there are twice as many, with their number."""
    for number in range(10_000):
        logging.getLogger("asyncio").warning("client %d is gone", number)
    logging.getLogger("asyncio").warning("another kind")
    lines = log.getvalue().splitlines()

    assert len(lines) == logs.LINES + 9 + 1
    assert "client 8191 is gone (number 8192 of its kind in a minute" in lines[-2]
    assert lines[-1].endswith("another kind")


def test_kinds_that_differ_in_their_text_are_counted_together(log: io.StringIO) -> None:
    """A message that a library has put together is a kind of its own only as long as there are few."""
    for number in range(10_000):
        logging.getLogger("asyncio").warning(f"client {number} is gone")

    assert len(log.getvalue().splitlines()) < 300


def test_a_minute_later_lines_are_written_again() -> None:
    """The counts begin anew."""
    now = 0.0
    bounded = logs.Bounded(lambda: now)
    record = logging.LogRecord("x", logging.WARNING, "", 0, "gone", (), None)
    written = [bounded.filter(record) for _ in range(logs.LINES + 1)]
    now = logs.PERIOD

    assert written == [True] * logs.LINES + [False]
    assert bounded.filter(record)


def test_what_the_operator_asks_for_is_written_whole(log: io.StringIO) -> None:
    """Lines below a warning are as many as there are."""
    for _ in range(1_000):
        logging.getLogger("asyncio").info("a call")

    assert len(log.getvalue().splitlines()) == 1_000


@pytest.mark.anyio
async def test_each_line_about_a_call_names_it(log: io.StringIO, anyio_backend: str) -> None:
    """Of many calls at once, whoever logs: in text, too, nobody must guess whose a warning is."""
    app = create_app({"retry": {"base": 0.01, "capacity_base": 0.01}}, simulate=True)
    log.truncate(0)
    ids: set[str] = set()

    async def call(question: str) -> None:
        exchange = await ask("anthropic", question, stream=True).run(app)
        ids.add(exchange.headers["request-id"])

    async with anyio.create_task_group() as tasks:
        for question in ("sim:cut-tool", "sim:once-503", "sim:torn", "sim:token-invalid", "sim:bad-request", "hi"):
            tasks.start_soon(call, question)
    await app.aclose()
    logging.getLogger("kiro_asgi").warning("about no call")
    lines = [line for line in log.getvalue().splitlines() if " WARNING kiro_asgi:" in line]

    assert len(lines) > 3 and lines[-1].endswith("about no call")
    assert {line.rpartition(" ")[2] for line in lines[:-1]} < ids


@pytest.mark.anyio
async def test_an_access_line_says_what_was_lost(caplog: pytest.LogCaptureFixture, anyio_backend: str) -> None:
    """A call that was cut is no call like others, though the client got an answer with an end."""
    app = create_app({}, simulate=True)
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        for question in ("sim:cut-tool", "hi"):
            await ask("anthropic", question, stream=True).run(app)
    cut, good = [record.getMessage() for record in caplog.records if record.name == "kiro_asgi.access"]

    assert " 200 complete " in cut and " error=- notices=" in cut and "call.cut" in cut
    assert "notices" not in good
