"""A gateway whose state cannot be used: it says so, does what needs none, and its clients learn no more than that."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from tests.asgi.driver import Exchange, get, post
from tests.asgi.test_named_conversations import PATH as CONVERSATIONS
from tests.asgi.test_named_conversations import delete
from tests.asgi.test_stored_responses import PATH, asking
from tests.state.test_trouble import LIMIT
from tests.valkey_server import free_port, needs_server, running

pytestmark = pytest.mark.anyio

NEEDING: Final[Mapping[str, Callable[[], Exchange]]] = {
    "show": lambda: get(f"{PATH}/resp_1"),
    "stream": lambda: get(f"{PATH}/resp_1", query_string=b"stream=true"),
    "list": lambda: get(f"{PATH}/resp_1/input_items"),
    "cancel": lambda: post(f"{PATH}/resp_1/cancel", {}),
    "forget": lambda: delete(f"{PATH}/resp_1"),
    "go on": lambda: asking("Go on.", previous_response_id="resp_1"),
    "count": lambda: post(f"{PATH}/input_tokens", {"model": "m", "input": "x", "previous_response_id": "resp_1"}),
    "refer": lambda: asking([{"type": "item_reference", "id": "msg_1_0"}]),
    "make": lambda: post(CONVERSATIONS, {}),
    "look": lambda: get(f"{CONVERSATIONS}/conv_1"),
    "items": lambda: get(f"{CONVERSATIONS}/conv_1/items"),
    "add": lambda: post(f"{CONVERSATIONS}/conv_1/items", {"items": [{"role": "user", "content": "x"}]}),
    "delete": lambda: delete(f"{CONVERSATIONS}/conv_1"),
    "in it": lambda: asking("Go on.", conversation="conv_1"),
}
"""Every operation that takes up what was stored."""


def damaged(path: Path) -> None:
    path.write_bytes(b"this is no database " * 1_000)


def another_programs(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (theirs TEXT)")
    connection.close()


def taken(path: Path) -> None:
    """Something else takes the name later: at the start that is an error of the settings."""
    path.mkdir()


FAULTS: Final = {"damaged": damaged, "another program's": another_programs, "taken": taken}


async def begin(app: Any) -> None:
    """The start of its lifespan, and then its end."""
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        assert message["type"].endswith("complete")

    await app({"type": "lifespan"}, receive, send)


def hidden(answers: list[Exchange], *words: str) -> bool:
    """Whether no client reads one of *words*."""
    told = b"".join(each.content for each in answers).decode().lower()
    return not [word for word in words if word.lower() in told]


async def ready(app: Any) -> list[str]:
    found = (await get("/ready").run(app)).json()
    assert found["ready"] is True
    return list(found["degraded"])


@pytest.mark.parametrize("running_already", [False, True], ids=["at the start", "while it runs"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_file_that_cannot_be_used(gateway, tmp_path, caplog, fault, running_already):
    """What needs it is 503 within its limit, in every operation; the start and ``/ready`` say so; the rest goes on."""
    path = tmp_path / "state.db"
    if not running_already and fault != "taken":
        FAULTS[fault](path)
    app = gateway(fresh=True, state={"engine": "sqlite", "path": str(path), "seal_key": "a-key-of-ours"})
    if running_already:
        assert await ready(app) == []
    if running_already or fault == "taken":
        FAULTS[fault](path)
    await app.check_state()
    assert await ready(app) == ["store"]
    assert "answered with 503" in caplog.text

    answers = []
    for name, exchange in NEEDING.items():
        started = time.monotonic()
        answers.append(await exchange().run(app))
        assert time.monotonic() - started < LIMIT, name
        assert (answers[-1].status, "retry-after" in dict(answers[-1].headers)) == (503, True), name
    assert hidden(answers, str(tmp_path), "state.db", "database", "sqlite3", "file", "folder", "Error:")
    assert (await asking("One.").run(app)).status == 200
    await app.aclose()


async def test_a_start_looks_at_the_state(gateway, tmp_path, caplog):
    """The lifespan of an application, and that of the host that it is mounted in."""
    path = tmp_path / "state.db"
    damaged(path)
    app = gateway(fresh=True, state={"engine": "sqlite", "path": str(path), "seal_key": "a-key-of-ours"})
    await begin(app)

    assert "answered with 503" in caplog.text


@needs_server
async def test_a_server_that_is_away(gateway):
    """Clients do not read its address, nor what the client library says; then it is used again."""
    port = free_port()
    app = gateway(fresh=True, state={"engine": "valkey", "url": f"valkey://127.0.0.1:{port}", "seal_key": "ours"})
    answers = []
    for name, exchange in NEEDING.items():
        answers.append(await exchange().run(app))
        assert answers[-1].status == 503, name
    assert await ready(app) == ["store"]
    assert hidden(answers, "127.0.0.1", str(port), "Connection", "refused", "Error:")
    with running(port), anyio.fail_after(20):
        while (await get(f"{PATH}/resp_1").run(app)).status != 404:  # noqa: ASYNC110 - it is another process
            await anyio.sleep(0.1)
        assert await ready(app) == []
    await app.aclose()
