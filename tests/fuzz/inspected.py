"""A target that asks the inspector: every view of it, with queries that its own page would never send."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Final
from urllib.parse import quote

from tests.asgi.driver import PATHS, Exchange, ask, http_scope
from tests.fuzz.house import HEAD, MODELS, House, chunks, watched_house
from tests.fuzz.seeds import TOOL, answers
from tests.fuzz.source import Source
from tests.fuzz.target import refuse

__all__ = ["inspected"]

SECRET: Final = "the-secret-of-the-fuzzed-inspector"

ANSWERS: Final = 3
"""Answers of the service that are asked for through each API."""

VIEWS: Final = (
    *("calls", "events", "usage", "usage.csv", "accounts", "session", "pins", "calls/"),
    *("steps", "step", "answer", "request", "compare", "conversation", "settings", "curl", "har", "tape"),
)

METHODS: Final = ("POST", "PUT", "DELETE", "HEAD", "")

DIGITS: Final = "9" * 5000

PARAMETERS: Final = (*("call", "other", "index", "rechunk", "set", "content", "origin", "first", "last", "by", "x"),)

VALUES: Final = (
    *("0", "1", "7", "-1", "999999999", DIGITS, "٣", "", "random:1", "recorded", "masked", "full", "none"),
    *("2026-11-25", "0001-01-01", "9999-12-31", "2026-02-30", "20261125", "2026-W48-3", "day", "day,key", "upstream,x"),
    *("day,key,upstream,model", "stream.heartbeat=0.001", "stream.relay=never", "retry.attempts=0", "tapes.path=/x"),
    *("limits.body_bytes=1", "recovery.enabled=false", "stream.heartbeat=[", "a=b\nc=d", "state.engine=memory"),
)

HEADERS: Final = ("last-event-id", "if-none-match", "sec-fetch-site", "host", "cookie", "origin")

POLICY: Final = "content-security-policy"


@cache
def _watched() -> tuple[House, str, tuple[str, ...]]:
    """An application that has answered through each API, the viewer's cookie, and the ids of the calls."""
    place = watched_house(SECRET)
    head = HEAD.replace(b"%s", b"application/vnd.amazon.eventstream")
    calls = []
    for api, wire in product(PATHS, answers("kiro")[:ANSWERS]):
        place.script = [head, *chunks([wire]), b"0\r\n\r\n"]
        tools = [{"name": "get_weather", "input_schema": TOOL}] if api == "anthropic" else []
        answer = place.run(ask(api, "x", stream=True, model=MODELS["kiro"], tools=tools))
        calls.append(next(value for name, value in answer.headers.items() if name in ("request-id", "x-request-id")))
    shown = Exchange(
        http_scope("POST", "/inspector/api/session", [("host", "localhost")]), [json.dumps({"secret": SECRET}).encode()]
    )
    return place, place.run(shown).headers["set-cookie"].partition(";")[0], tuple(calls)


def _query(source: Source, calls: Sequence[str]) -> bytes:
    if source.below(8) == 7:
        return source.take(80)
    pairs = [f"call={source.pick(calls)}"] if source.below(4) else []
    for _ in range(source.below(5)):
        name = source.pick(PARAMETERS)
        value = source.pick(calls if name in ("call", "other") and source.below(8) else VALUES)
        pairs.append(f"{name}={quote(value if source.below(8) else source.text(), errors='replace')}")
    return "&".join(pairs).encode()


def inspected(data: bytes) -> int:
    """Ask once; the bytes of the question and of its answer."""
    source = Source(data)
    place, cookie, calls = _watched()
    view = source.pick(VIEWS) if source.below(8) else source.text()
    if view == "calls/":
        view += source.pick(calls) if source.below(4) else source.text()
    headers = [("host", "localhost"), ("cookie", cookie)] if source.below(16) != 15 else []
    if source.below(4) == 3:
        value = source.pick((*VALUES, "same-origin", "cross-site", "localhost:1")).encode("latin-1", "replace")
        headers.append((source.pick(HEADERS), value.decode("latin-1")))
    scope = http_scope(source.pick(METHODS) if source.below(4) == 3 else "GET", f"/inspector/api/{view}", headers)
    if scope["method"] == "DELETE" and view != "session":
        scope["method"] = "GET"  # or there would soon be nothing to ask for
    exchange = Exchange({**scope, "query_string": _query(source, calls)}, [source.take(80)])
    exchange.leave.set()
    _check(place.run(exchange))
    size = sum(len(value) for _, value in scope["headers"]) + len(scope["query_string"])
    return size + sum(len(message.get("body", b"")) for message in exchange.messages)


def _check(exchange: Exchange) -> None:
    if exchange.scope["path"].endswith("/events") and exchange.starts == 0:
        return
    assert exchange.starts == 1
    assert exchange.status < 500 or exchange.status == 503, exchange.content
    assert POLICY in exchange.headers, "an answer without the policy"
    kind = exchange.headers.get("content-type", "")
    if kind in ("application/json", "application/jsonl"):
        for line in exchange.content.splitlines() if kind.endswith("l") else [exchange.content]:
            json.loads(line, parse_constant=refuse)
