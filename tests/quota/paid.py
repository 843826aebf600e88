"""Random endings of answers at two gateways that share their counts, and what budgets and ledger say of them then."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

import anyio
from attrs import define, evolve, field, frozen
from hypothesis import strategies as st

from kiro_asgi import App, Settings, create_app, simulator
from kiro_asgi.asgi.kept.usage import new_ledger
from kiro_asgi.quota.base import Counters
from kiro_asgi.quota.claims import Budget, Cost, claims
from kiro_asgi.quota.settings import Allowance
from kiro_asgi.simulator import CloseEarly, ExceptionFrame, Head, Reset, Script, Stall, Trailers, answer, text
from kiro_asgi.simulator.kiro.hosts import CHAT
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import json_answer
from kiro_asgi.state.base import owner_of, scoped
from tests.asgi.driver import get, post

__all__ = ["ENDINGS", "Ending", "differences", "gateways", "play"]

PLENTY: Final = {"tokens_per_day": 10**12, "credits_per_day": 10**9, "cost_per_day": 10**9}
"""Limits of everybody, which nothing reaches."""

CLIENTS: Final = ("alice", "bob")
GROUP: Final = "team"

MODELS: Final = {
    "kiro": "kiro/claude-sonnet-4.5",
    "openai": "openai/gpt-4o",
    "anthropic": "anthropic/claude-haiku-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "custom": "copy/gpt-4o",
}
CREDENTIALS: Final = {"copy" if name == "custom" else name: name for name in MODELS}
"""Upstream to the table of its only credential."""

SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
_FUNCTION: Final = {"name": "get_weather", "parameters": {"type": "object"}}

FAULTS: Final = ("none", "uncounted", "cut", "closed", "error", "silent", "silent-at-once", "refused", "busy", "html")
WISHES: Final = ("text", "tools", "schema", "call")
APIS: Final = ("chat", "messages", "responses", "gemini", "background", "embeddings")

WORDS: Final = 40


@frozen
class Ending:
    """One request, and how its answer ends."""

    api: str
    service: str
    wish: str
    faults: tuple[str, ...]
    """Of the first attempts; those after them have none."""

    words: int
    """Of the answer that come before the fault."""

    streamed: bool
    leaves: int | None
    """Messages after which the client leaves; ``None``: it stays."""

    worker: int
    client: str


ENDINGS: Final = st.builds(
    Ending,
    api=st.sampled_from(APIS),
    service=st.sampled_from(tuple(MODELS)),
    wish=st.sampled_from(WISHES),
    faults=st.lists(st.sampled_from(FAULTS), max_size=2).map(tuple),
    words=st.integers(0, WORDS),
    streamed=st.booleans(),
    leaves=st.none() | st.integers(0, WORDS // 2),
    worker=st.integers(0, 1),
    client=st.sampled_from(CLIENTS),
)


def request_of(ending: Ending, name: str) -> tuple[str, dict[str, Any]]:
    """Path and body."""
    model, prompt = MODELS[ending.service], f"paid:{name}:"
    match ending.api:
        case "embeddings":
            model = "openai/text-embedding-3-small"
            return "/v1/embeddings", {"model": model, "input": [prompt, prompt]}
        case "gemini":
            verb = "streamGenerateContent" if ending.streamed else "generateContent"
            wishes = {
                "tools": {"tools": [{"functionDeclarations": [{"name": "get_weather"}]}]},
                "schema": {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
                "call": {
                    "tools": [{"functionDeclarations": [{"name": "get_weather"}]}],
                    "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
                },
            }
            body = {"contents": [{"role": "user", "parts": [{"text": prompt}]}], **wishes.get(ending.wish, {})}
            return f"/v1beta/models/{model}:{verb}", body
        case "messages":
            tool = {"name": "get_weather", "input_schema": {"type": "object"}}
            wishes = {
                "tools": {"tools": [tool]},
                "schema": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
                "call": {"tools": [tool], "tool_choice": {"type": "any"}},
            }
            said: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 100}
            path = "/v1/messages"
        case "chat":
            function = {"type": "function", "function": _FUNCTION}
            form = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
            wishes = {
                "tools": {"tools": [function]},
                "schema": {"response_format": form},
                "call": {"tools": [function], "tool_choice": "required"},
            }
            said, path = {"messages": [{"role": "user", "content": prompt}]}, "/v1/chat/completions"
        case _:
            function = {"type": "function", **_FUNCTION}
            wishes = {
                "tools": {"tools": [function]},
                "schema": {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
                "call": {"tools": [function], "tool_choice": "required"},
            }
            said, path = {"input": prompt, "background": ending.api == "background"}, "/v1/responses"
    return path, {"model": model, "stream": ending.streamed, **said, **wishes.get(ending.wish, {})}


def script_of(fault: str, words: int) -> Script:
    """What the service does."""
    said = text(*["word "] * words)
    match fault:
        case "none":
            return answer(*text(*["word "] * WORDS))
        case "uncounted":
            return answer(*said, trailers=Trailers(input_tokens=None, credits=None))
        case "cut":
            return (Head(), *said, Reset())
        case "closed":
            return (Head(), *said, CloseEarly())
        case "error":
            return (Head(), *said, ExceptionFrame("InternalServerException", "no"))
        case "silent":
            return (Head(), *said, Stall())
        case "silent-at-once":
            return (Stall(),)
        case "refused":
            return json_answer(400, {"message": "no", "error": {"message": "no", "code": 400, "status": "INVALID"}})
        case "busy":
            return json_answer(429, {"message": "busy", "error": {"message": "busy", "code": 429, "status": "BUSY"}})
        case _:
            return (Head(content_type="text/html"), simulator.RawBytes(b"<html>hello</html>"))


@define
class Played:
    """Plays the services: each attempt at a request has its own fault."""

    _endings: dict[str, Ending] = field(factory=dict)
    _attempts: defaultdict[str, int] = field(factory=lambda: defaultdict(int))

    def script(self, request: RecordedRequest) -> Script | None:
        """The next script for the request's prompt."""
        found = re.search(rb"paid:(\w+):", request.body)
        if found is None or not (request.operation == CHAT or request.operation.endswith(".chat")):
            return None
        name = found[1].decode()
        ending, attempt = self._endings[name], self._attempts[name]
        self._attempts[name] += 1
        return script_of(ending.faults[attempt] if attempt < len(ending.faults) else "none", ending.words)

    def add(self, name: str, ending: Ending) -> None:
        """Play *ending* for the prompt of this *name*."""
        self._endings[name] = ending


def hash_of(key: str) -> str:
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def settings_of(url: str, state: Mapping[str, Any]) -> Settings:
    """Two clients of one group, and limits of everybody and of each credential."""
    direct = {"api_key": "k", "first_token_timeout": 0.3, "thinking_first_token_timeout": 0.3, "models_ttl": 0.0}
    named = {"kiro": "kiro.api_key", "custom": "custom.copy.api_key"}
    return Settings.from_mapping(
        {
            "state": {"usage": True, **state},
            "keys": {each: {"hash": hash_of(each), "group": GROUP, **PLENTY} for each in CLIENTS},
            "groups": {GROUP: PLENTY},
            "credentials": {each: {"credential": named.get(each, f"{each}.api_key"), **PLENTY} for each in MODELS},
            "prices": {"models": ["text-embedding*=1/0", "*=2/10"], "credits": ["kiro/*=0.5"]},
            "kiro": {**direct, "endpoint": url},
            "openai": {**direct, "endpoint": f"{url}/v1"},
            "anthropic": {**direct, "endpoint": url},
            "gemini": {**direct, "endpoint": url},
            "custom": {"copy": {**direct, "endpoint": f"{url}/v1"}},
            "stream": {"idle_timeout": 0.3, "heartbeat": 0.0},
            "retry": dict.fromkeys(("base", "rate_base", "capacity_base", "jitter", "refused_base", "suspicion"), 0.0),
            "quotas": {"on_store_failure": "closed"},
        }
    )


@define
class Gateways:
    """Two workers, and the services behind them."""

    settings: Settings
    workers: tuple[App, App]
    played: Played
    _number: int = 0

    async def play(self, ending: Ending) -> None:
        """Send the request of *ending*, and wait until nothing of it goes on."""
        self._number += 1
        name = f"x{self._number}"
        self.played.add(name, ending)
        path, body = request_of(ending, name)
        exchange, app = post(path, body, key=ending.client), self.workers[ending.worker]
        left = ending.leaves

        async def count(_: object) -> None:
            if left is not None and len(exchange.messages) >= left:
                exchange.leave.set()

        exchange.on_send = count
        if left == 0 and ending.api != "background":
            exchange.leave.set()
        await exchange.run(app)
        if ending.api == "background" and exchange.content.startswith(b"{"):
            await self._ended(app, exchange.json(), ending)

    async def _ended(self, app: App, response: Any, ending: Ending) -> None:
        if "id" not in response:
            return
        path = f"/v1/responses/{response['id']}"
        if ending.leaves is not None:
            await post(f"{path}/cancel", {}, key=ending.client).run(app)
        with anyio.fail_after(30):
            while (await get(path, key=ending.client).run(app)).json()["status"] in ("queued", "in_progress"):  # noqa: ASYNC110 - a poll
                await anyio.sleep(0.01)
            await app.idle()

    async def aclose(self) -> None:
        """End both; all is written then."""
        for worker in self.workers:
            await worker.aclose()


@contextlib.asynccontextmanager
async def gateways(state: Mapping[str, Any]) -> AsyncIterator[Gateways]:
    """Both, with nothing counted yet."""
    async with simulator.serve() as service:
        settings, played = settings_of(service.url, state), Played()
        service.answer_with(played.script)
        yield Gateways(settings, (create_app(settings), create_app(settings)), played)


async def play(state: Mapping[str, Any], endings: Iterable[Ending], at_once: int) -> tuple[Settings, list[str]]:
    """Play *endings*, several at once; where budgets and ledger differ then."""
    async with gateways(state) as pair:
        limiter = anyio.CapacityLimiter(at_once)

        async def one(ending: Ending) -> None:
            async with limiter:
                await pair.play(ending)

        async with anyio.create_task_group() as group:
            for ending in endings:
                group.start_soon(one, ending)
        await pair.aclose()
        return pair.settings, await differences(pair.settings)


def counters_of(settings: Settings) -> Counters:
    from kiro_asgi.asgi.exchange.admission import new_reservations
    from kiro_asgi.net.clocks import Clocks

    return new_reservations(settings, (), Clocks())._counters


async def taken(settings: Settings, owner: str) -> Cost:
    """What was taken from the budgets of *owner*."""
    allowance, counters = Allowance(**PLENTY), counters_of(settings)
    made = claims(owner_of(scoped(owner, "quota", "")), allowance, Cost(), "", datetime.now(UTC))
    budgets = [evolve(claim, amount=0.0) for claim in made if isinstance(claim, Budget)]
    granted: Any = await counters.take(budgets)
    await counters.aclose()
    used = {
        claim.key.partition("|")[2].partition("/")[0]: each.limit - each.remaining
        for claim, each in zip(budgets, granted.standings, strict=True)
    }
    return Cost(round(used["tokens"]), used["credits"], used["cost"])


def booked(settings: Settings) -> dict[str, Cost]:
    """What the ledger has, by the owners of budgets."""
    ledger = new_ledger(settings)
    sums: defaultdict[str, Cost] = defaultdict(Cost)
    today = datetime.now(UTC).date().isoformat()
    for row in ledger.rows(today, today):
        tokens = sum(
            amount for name, amount in row.amounts.items() if name.endswith("_tokens") and name != "thinking_tokens"
        )
        amounts = defaultdict(float, row.amounts)
        credits, cost = amounts["credits"] + amounts["estimated_credits"], amounts["cost"] + amounts["estimated_cost"]
        credential = named_credential(settings, row.key.upstream)
        for owner in (row.key.principal, f"group:{row.key.group}", f"credential:{credential}"):
            before = sums[owner]
            sums[owner] = Cost(before.tokens + round(tokens), before.credits + credits, before.money + cost)
    ledger.close()
    return sums


def named_credential(settings: Settings, upstream: str) -> str:
    return settings.credentials[CREDENTIALS[upstream]].credential


async def differences(settings: Settings) -> list[str]:
    """Owners of whose budgets something else was taken than the ledger has."""
    ledger, found = booked(settings), list[str]()
    credentials = (f"credential:{named_credential(settings, each)}" for each in CREDENTIALS)
    for owner in (*CLIENTS, f"group:{GROUP}", *credentials):
        budget, entry = await taken(settings, owner), ledger[owner]
        close = abs(budget.credits - entry.credits) < 1e-3 and abs(budget.money - entry.money) < 1e-3
        if budget.tokens != entry.tokens or not close:
            found.append(f"{owner}: budget {budget}, ledger {entry}")
    return found
