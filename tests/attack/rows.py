"""The rows of the attack: what is sent, and what has to come back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from attrs import define, field, frozen
from websockets.asyncio.client import ClientConnection, connect

from tests.attack.client import PATHS, Client, Reply, read, reset
from tests.attack.gateway import SECRET, Gateway
from tests.attack.shapes import DIGITS, MIB, SCHEMAS, nested_text
from tests.websocket import ENDS

__all__ = ["ROWS", "Attack", "Row"]

KIRO: Final = "kiro/claude-sonnet-4.5"
HOSTILE: Final = "hostile/m"
MODELS: Final = (KIRO, "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash", HOSTILE)
"""One model of each kind of service."""

TYPED: Final = (200, 400, 413, 422, 429, 502, 503, 504)


@define
class Attack:
    """What one row does, and has seen."""

    gateway: Gateway
    client: Client = field(init=False)
    seen: dict[str, int] = field(init=False, factory=dict)
    """What came back, and how often."""

    complaints: list[str] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.client = Client(self.gateway.port)

    def note(self, what: object) -> None:
        """Remember what came back."""
        self.seen[str(what)] = self.seen.get(str(what), 0) + 1

    def want(self, condition: object, complaint: str) -> None:
        """Complain unless *condition* holds."""
        if not condition and complaint not in self.complaints:
            self.complaints.append(complaint)

    def typed(self, reply: Reply, *statuses: int) -> Reply:
        """A reply that has one of these statuses and a proper end; refusals in an envelope."""
        self.note(reply)
        wanted = statuses or TYPED
        self.want(reply.status in wanted, f"status {reply.status or 'missing'}, not {' or '.join(map(str, wanted))}")
        self.want(reply.ended, "no proper end")
        self.want(reply.status < 400 or reply.error, f"{reply.status} without an envelope")
        return reply

    async def ask(self, api: str, prompt: str, *statuses: int, **more: Any) -> Reply:
        """Ask, and judge the reply as `typed` does."""
        return self.typed(await self.client.ask(api, prompt, **more), *statuses)


@frozen
class Row:
    """One way to do harm."""

    name: str
    sends: str
    wants: str
    run: Callable[[Attack], Awaitable[None]]
    gateway: str = "usual"
    seconds: float = 15.0
    """After which it is given up."""

    health: float = 0.05
    """Seconds that ``/health`` may take meanwhile."""

    growth: int = 64 * MIB
    """Bytes by which the gateway may grow meanwhile; what it may keep is the same for all rows."""

    beside: bool = True
    """Whether the healthy clients are to notice nothing."""

    refuses: bool = False
    """Whether a healthy client may be refused a new connection meanwhile."""


ROWS: Final[list[Row]] = []


def row(sends: str, wants: str, **more: Any) -> Callable[[Callable[[Attack], Awaitable[None]]], Any]:
    def add(run: Callable[[Attack], Awaitable[None]]) -> Callable[[Attack], Awaitable[None]]:
        ROWS.append(Row(run.__name__.replace("_", "-"), sends, wants, run, **more))
        return run

    return add


def _tool(api: str, schema: Any) -> list[dict[str, Any]]:
    if api == "messages":
        return [{"name": "get_weather", "input_schema": schema}]
    function = {"name": "get_weather", "parameters": schema}
    return [{"type": "function", **function}] if api == "responses" else [{"type": "function", "function": function}]


def _structured(api: str, schema: Any) -> dict[str, Any]:
    named = {"name": "n", "schema": schema}
    if api == "responses":
        return {"text": {"format": {"type": "json_schema", **named}}}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


# What a client sends.


async def _structured_row(attack: Attack, shape: str, value: str) -> None:
    more = _structured("chat", SCHEMAS[shape]())
    await attack.ask("chat", f"attack:value={value}", **more)


@row("json_schema, $defs doubled 14 times by allOf and $ref", "checked, or passed with a notice")
async def schema_doubling_14(attack: Attack) -> None:
    await _structured_row(attack, "doubling-14", "empty")


@row("the same, 40 times", "checked, or passed with a notice", seconds=8)
async def schema_doubling_40(attack: Attack) -> None:
    await _structured_row(attack, "doubling-40", "empty")


@row("json_schema with uniqueItems, 3,000 objects", "checked, or passed with a notice", seconds=8)
async def schema_unique_items(attack: Attack) -> None:
    await _structured_row(attack, "unique", "unique")


@row("json_schema, 20,000 items of an enum of 20,000", "checked, or passed with a notice", seconds=8)
async def schema_enum(attack: Attack) -> None:
    await _structured_row(attack, "choices", "choices")


@row("metadata.user_id: _session_ repeated, 36 and 99 kB", "an answer or 400", seconds=10)
async def session_id(attack: Attack) -> None:
    for size in (36_000, 99_000):
        user = "_session_" * (size // 9) + "!"
        await attack.ask("messages", "attack:words", 200, 400, metadata={"user_id": user})


@row("one stop sequence of 2 MB", "400 with the place", seconds=10)
async def long_stop(attack: Attack) -> None:
    for api, name in (("chat", "stop"), ("messages", "stop_sequences")):
        reply = await attack.ask(api, "attack:text=1", 400, **{name: ["x" * 2_000_000]})
        attack.want(reply.status != 400 or name in reply.text, "the place is not named")


@row("50,000 stop sequences", "400 with the place", seconds=10)
async def many_stops(attack: Attack) -> None:
    for api, name in (("chat", "stop"), ("messages", "stop_sequences")):
        reply = await attack.ask(api, "attack:text=1", 400, **{name: [f"s{number}" for number in range(50_000)]})
        attack.want(reply.status != 400 or name in reply.text, "the place is not named")


async def _branches(attack: Attack, keyword: str) -> None:
    schema = SCHEMAS[keyword]()
    for api, model in zip((*PATHS, "chat"), MODELS, strict=True):
        await attack.ask(api, "attack:words", 200, 400, model=model, tools=_tool(api, schema))


@row("tool schema with 20,000 anyOf branches, to each service", "an answer or 400", seconds=10)
async def tool_any_of(attack: Attack) -> None:
    await _branches(attack, "anyOf")


@row("the same with allOf", "an answer or 400", seconds=10)
async def tool_all_of(attack: Attack) -> None:
    await _branches(attack, "allOf")


@row("60 tools, the $defs of each doubled 40 times, to each service", "an answer or 400", seconds=20)
async def tools_doubled(attack: Attack) -> None:
    schema = SCHEMAS["doubling-40"]()
    for api, model in zip((*PATHS, "chat"), MODELS, strict=True):
        (tool,) = _tool(api, schema)
        tools = [json.loads(json.dumps(tool).replace("get_weather", f"tool_{number}")) for number in range(60)]
        await attack.ask(api, "attack:words", 200, 400, model=model, tools=tools)


async def _large(attack: Attack, size: int) -> None:
    for api, model in zip((*PATHS, "chat"), MODELS, strict=True):
        name = "input" if api == "responses" else "messages"
        more = {"store": False} if api == "responses" else {}  # else it is what `state.bytes` is for
        turns = [{"role": "user", "content": "attack:words"}, {"role": "assistant", "content": "x"}]
        await attack.ask(api, "", 200, 400, 413, model=model, **more, **{name: turns * (size // 90)})
        await attack.ask(api, "attack:words " + "x" * size, 200, 400, 413, model=model, **more)


@row("requests of 2 MB: many small messages, and one long text", "an answer or 4xx", seconds=25)
async def large_requests(attack: Attack) -> None:
    await _large(attack, 2 * MIB)


@row(
    "histories of 400 kB, all different, of one message and of 4,000, each sent twice, and once with another end",
    "an answer or 4xx",
    seconds=60,
)
async def histories(attack: Attack) -> None:
    roles = ("user", "assistant")
    for api in PATHS:
        name, more = ("input", {"store": False}) if api == "responses" else ("messages", {})
        for number in range(3):
            for count, size in ((1, 400_000), (4001, 80)):
                text = f"attack:words {number} " + "x" * size
                turns = [{"role": roles[at % 2], "content": text} for at in range(count)]
                for last in (text, text, f"{text}."):
                    turns[-1]["content"] = last
                    await attack.ask(api, "", 200, 400, model=KIRO, **more, **{name: turns})


@row("tool schema: chain of 200 and 2,000 anyOf with $ref, and a call of it", "an answer or 400")
async def schema_chain(attack: Attack) -> None:
    for shape in ("chain-200", "chain-2000"):
        for api in PATHS:
            for model in (KIRO, HOSTILE, MODELS[2]):
                await attack.ask(api, "attack:call=city", 200, 400, model=model, tools=_tool(api, SCHEMAS[shape]()))


@row("schema, input and arguments nested 2,000 and 20,000 deep", "400 with the place")
async def nested_deep(attack: Attack) -> None:
    for depth in (2_000, 20_000):
        for api in PATHS:
            body = attack.client.asking(api, "attack:words", tools=_tool(api, "@")).partition(b"\r\n\r\n")[2]
            data = body.replace(b'"@"', nested_text(depth))
            attack.typed(await attack.client.send(attack.client.request(PATHS[api], data)), 400)
        arguments = '{"a":' * depth + "1" + "}" * depth
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        turns = [
            {"role": "user", "content": "attack:words"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "x"},
        ]
        await attack.ask("chat", "", 200, 400, messages=turns)
        item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
        output = {"type": "function_call_output", "call_id": "c", "output": "x"}
        await attack.ask("responses", "", 200, 400, input=[turns[0], item, output])


OWN: Final = (("messages", MODELS[1]), ("chat", HOSTILE))
"""APIs, each with a model of a service of the same API, which gets what nobody here understands."""


@row(
    "10,000 members that nobody knows, a long one and deep ones, in a translated request",
    "an answer or 4xx",
    seconds=25,
)
async def unknown_members(attack: Attack) -> None:
    deep: Any = "end"
    for _ in range(100):
        deep = {"x": deep}
    for more in (
        {f"x_{number}": {"of": number} for number in range(50_000)},
        {"x": "y" * 2 * MIB},
        {"x": [deep] * 100},
    ):
        for api, model in OWN:
            tools = _tool(api, {"type": "object", "properties": {}})
            await attack.ask(api, "attack:words", 200, 400, 413, model=model, tools=tools, **more)


@row("members that nobody knows, nested 2,000 and 20,000 deep", "400 with the place")
async def unknown_members_deep(attack: Attack) -> None:
    for depth in (2_000, 20_000):
        for api, model in OWN:
            body = attack.client.asking(api, "attack:words", model=model, x="@").partition(b"\r\n\r\n")[2]
            data = body.replace(b'"@"', nested_text(depth))
            attack.typed(await attack.client.send(attack.client.request(PATHS[api], data)), 400)


@row("5,000 blocks, and as many tools, of kinds that nobody knows", "an answer or 4xx", seconds=25)
async def opaque_blocks(attack: Attack) -> None:
    blocks = [{"type": f"hologram_{number}", "of": number} for number in range(5_000)]
    said = {"role": "user", "content": [{"type": "text", "text": "attack:words"}, *blocks]}
    for api, model in OWN:
        for more in ({"messages": [said]}, {"tools": blocks}):
            await attack.ask(api, "attack:words", 200, 400, 413, model=model, **more)


@row("2,000 pairs of metadata, and an end user's id of 1 MB, to each service", "an answer or 400", seconds=20)
async def handling(attack: Attack) -> None:
    labels = {f"key {number}": "\u00e9\n" * 50 for number in range(2_000)}
    for model in (*MODELS, HOSTILE):
        await attack.ask("chat", "attack:words", 200, 400, model=model, metadata=labels)
        await attack.ask("chat", "attack:words", 200, 400, model=model, user="u" * MIB, service_tier="x" * MIB)


@row("ten bodies as large as may be, half sent", "503 with retry-after", gateway="small", seconds=12)
async def half_sent_bodies(attack: Attack) -> None:
    size = 8 * MIB - 1024
    data = attack.client.request(PATHS["chat"], b'{"messages": "' + b"x" * (size - 64), length=size)
    replies = [Reply() for _ in range(10)]
    given = [asyncio.create_task(_give(attack.client, data, reply)) for reply in replies]
    await asyncio.wait(given, timeout=5)
    for reply in replies:
        attack.note(reply if reply.size else reply.broken or "still waiting")
        if reply.status == 503:
            attack.want("retry-after" in reply.text.lower(), "503 without retry-after")
    attack.want(any(reply.status == 503 for reply in replies), "none was refused")
    for task in given:
        task.cancel()
    await asyncio.wait(given)


async def _give(client: Client, data: bytes, reply: Reply) -> None:
    """Send *data* piece by piece, and read what comes meanwhile: a server that refuses it closes the connection."""
    reader, writer = await client.open(b"")
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read(reader, reply))
            for start in range(0, len(data), 64 * 1024):
                writer.write(data[start : start + 64 * 1024])
                with contextlib.suppress(OSError):
                    await writer.drain()
                if reply.size or reply.broken:
                    break
                await asyncio.sleep(0.01)
    finally:
        reset(writer)


@row("another key stores far more than there is room for", "the first key's are still there", gateway="small")
async def stored_responses(attack: Attack) -> None:
    first = await attack.ask("responses", "attack:words", 200)
    previous = json.loads(first.text.partition("\r\n\r\n")[2])["id"] if first.status == 200 else ""
    other = Client(attack.gateway.port, "second")
    data = other.asking("responses", "attack:words " + "x" * MIB, model=HOSTILE)
    for _ in range(40):
        reply = await other.send(data)
        attack.want(reply.status == 200, f"status {reply.status} for one that is stored")
    await attack.ask("responses", "attack:words", 200, previous_response_id=previous)


@row("200 clients that leave before the head", "nothing in the log")
async def gone_before_head(attack: Attack) -> None:
    logged = len(attack.gateway.log())
    data = attack.client.asking("chat", "attack:drip-head", model=HOSTILE, stream=True)
    for _ in range(200):
        _, writer = await attack.client.open(data)
        await asyncio.sleep(0.02)
        reset(writer)
    await asyncio.sleep(0.5)
    await attack.ask("chat", "attack:words", 200, model=HOSTILE)
    attack.want(not attack.gateway.log()[logged:].strip(), "the log complains")


@row("two clients that never read, where there are two connections", "a third is answered", gateway="narrow")
async def stalled_readers(attack: Attack) -> None:
    await _stalled(attack, 2, "attack:endless", 8)


@row(
    "512 clients that never read, 200 more each second, where there are 64 connections",
    "another is answered; 512 open requests may take 128 MiB meanwhile; more is asked for than one core can do, so a "
    "short request waits in some ten turns",
    gateway="hasty",
    seconds=75,
    health=0.15,
    growth=128 * MIB,
)
async def stalled_crowd(attack: Attack) -> None:
    """Endless answers would be a trial of who makes them, which is one process here: 2 MiB are more than is held.

    They leave one by one, as they came; `leaving_crowd` looks at what it takes when they do not.
    """
    await _stalled(attack, 512, "attack:text=2", 50, apart=0.005)


@row(
    "256 clients that leave in the same moment, each in the middle of an answer",
    "each is let go of, which takes 1 ms, most of it the server's; a short request waits for all; on trio all that end "
    "at once have their exceptions at once",
    gateway="hasty",
    seconds=20,
    health=0.5,
    growth=96 * MIB,
)
async def leaving_crowd(attack: Attack) -> None:
    data = attack.client.asking("chat", "attack:endless", model=HOSTILE, stream=True)
    opened = []
    for _ in range(256):
        opened.append(await attack.client.open(data, 4096))
        await asyncio.sleep(0.01)
    for _, writer in opened:
        reset(writer)
    await attack.ask("chat", "attack:words", 200, model=HOSTILE)


async def _stalled(attack: Attack, count: int, prompt: str, seconds: float, apart: float = 0.0) -> None:
    data = attack.client.asking("chat", prompt, model=HOSTILE, stream=True)
    opened = []
    for _ in range(count):  # not all at once: what is looked at is that they stay, not that they come
        opened.append(await attack.client.open(data, 4096))
        await asyncio.sleep(0.01)
    try:
        await _answered(attack, seconds)
    finally:
        for _, writer in opened:
            reset(writer)
            await asyncio.sleep(apart)


async def _answered(attack: Attack, seconds: float) -> None:
    """Ask beside those that are stalled."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            await attack.ask("chat", "attack:words", 200, model=HOSTILE)
            attack.note(f"after {time.monotonic() - began:.1f} s")
    except TimeoutError:
        attack.want(False, f"no answer in {seconds:.0f} s")


@row("WebSockets: frames that are none, one 20,000 deep, 200 requests at once", "errors with codes")
async def websocket_frames(attack: Attack) -> None:
    deep = "[" * 20_000
    for frames, wanted in (
        (["no JSON"] * 5, {"invalid_json"}),
        ([f'{{"type":"response.create","input":{deep}'], {"invalid_json"}),
        ([create_event("attack:words")] * 200, {"", "rate_limit_exceeded"}),
    ):
        async with _websocket(attack) as connection:
            for frame in frames:
                await connection.send(frame)
            codes = {await _end(connection) for _ in frames}
        attack.note(" ".join(sorted(codes)) or "answered")
        attack.want(codes <= wanted, f"{codes - wanted}")


@row(
    "a frame of 16 MiB over WebSocket: the server unmasks and decodes it without letting go of the interpreter",
    "an answer",
    health=0.2,
    growth=5 * 32 * MIB,
)
async def largest_frame(attack: Attack) -> None:
    async with _websocket(attack) as connection:
        await connection.send(create_event("x" * (16 * MIB)))
        code = await _end(connection)
    attack.note(code or "answered")
    attack.want(not code, code)


@row("two WebSockets that never read, where there are two connections", "a third is answered", gateway="narrow")
async def stalled_websockets(attack: Attack) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            connection = await stack.enter_async_context(_websocket(attack))
            stack.callback(connection.transport.abort)
            await connection.send(create_event("attack:endless"))
        await _answered(attack, 8)


def _websocket(attack: Attack) -> connect:
    headers = {"authorization": f"Bearer {attack.client.key}"}
    url = f"ws://127.0.0.1:{attack.client.port}/v1/responses"
    return connect(url, additional_headers=headers, proxy=None, compression=None, ping_interval=None)


def create_event(content: str) -> str:
    """A request over WebSocket."""
    return json.dumps({"type": "response.create", "model": HOSTILE, "input": content, "store": False})


async def _end(connection: ClientConnection) -> str:
    """The code of an answer's error; empty for none."""
    while (frame := json.loads(await connection.recv()))["type"] not in ENDS:
        pass
    error = frame.get("error") or frame["response"]["error"] or {}
    return str(error.get("code", ""))


@row(
    "400 connections, where there are 96 descriptors",
    "the stream goes on; few lines in the log; hypercorn on trio notices after 20 s that they are gone",
    gateway="few-files",
    refuses=True,
    seconds=35,
)
async def out_of_descriptors(attack: Attack) -> None:
    logged = len(attack.gateway.log())
    opened = await asyncio.gather(*(attack.client.open(b"") for _ in range(400)), return_exceptions=True)
    await asyncio.sleep(3)
    for pair in opened:
        if not isinstance(pair, BaseException):
            reset(pair[1])
    await asyncio.sleep(1.5)
    await attack.ask("chat", "attack:words", 200, model=HOSTILE)
    lines = attack.gateway.log()[logged:].count("\n")
    attack.note(f"{lines} lines in the log")
    attack.want(lines <= 60, f"{lines} lines in the log in 5 s")


@row("the state file is locked by another process", "the final event does not wait", gateway="state")
async def locked_state(attack: Attack) -> None:
    await attack.ask("responses", "attack:words", 200)
    with _locked(attack.gateway):
        began = time.monotonic()
        await attack.ask("responses", "attack:words", 200, stream=True)
        taken = time.monotonic() - began
    attack.note(f"after {taken:.1f} s")
    attack.want(taken < 1, f"an answer took {taken:.1f} s")


@contextlib.contextmanager
def _locked(gateway: Gateway) -> Iterator[None]:
    database = sqlite3.connect(gateway.folder / "state.db", isolation_level=None)
    try:
        database.execute("BEGIN EXCLUSIVE")
        yield
        database.execute("ROLLBACK")
    finally:
        database.close()


# What a service sends.


LATE: Final = (("chat", HOSTILE, True), ("chat", KIRO, True), ("messages", KIRO, False), ("responses", HOSTILE, True))
"""API, model, and whether a stream is asked for; a whole document may take as long as a whole answer."""


async def _late(attack: Attack, name: str, asked: Sequence[tuple[str, str, bool]] = LATE) -> None:
    for api, model, stream in asked:
        try:
            async with asyncio.timeout(4):
                await attack.ask(api, f"attack:{name}", 502, 504, model=model, stream=stream)
        except TimeoutError:
            attack.want(False, f"the limit of 2 s does not hold for {model} in {api}")
            return


@row("a service's head comes a line at a time, for ever", "502 or 504 in time")
async def dripping_head(attack: Attack) -> None:
    await _late(attack, "drip-head")


@row("status 103 for ever", "502 or 504 in time")
async def early_hints(attack: Attack) -> None:
    await _late(attack, "early-hints")


@row("a head, then comments for ever", "502 or 504 in time")
async def only_comments(attack: Attack) -> None:
    await _late(attack, "comments", [each for each in LATE if each[1] == HOSTILE])


async def _bounded(attack: Attack, api: str, prompt: str, **more: Any) -> None:
    """An answer that is too much has a typed end: an error, or that it was cut."""
    more |= {} if api == "responses" else {"max_tokens": 10**9}
    reply = attack.typed(await attack.client.ask(api, prompt, **more))
    attack.want(reply.error or CUT.search(reply.tail), f"no typed end in {api}")


CUT: Final = re.compile(rb'"(?:finish_reason|stop_reason|status)": ?"(?:length|max_tokens|incomplete)"')
"""What says that an answer was cut."""


@row(
    "2,000 blocks, events and members of as many kinds that nobody knows, streamed and collected, to clients of the "
    "service's API and of others",
    "an answer, or a typed end; bounded memory",
    gateway="large",
    seconds=60,
)
async def strange_answers(attack: Attack) -> None:
    for _, model in OWN:
        for api in PATHS:
            more = {"store": False} if api == "responses" else {"max_tokens": 1000}
            for stream in (False, True):
                tools = _tool(api, {"type": "object", "properties": {}})
                await attack.ask(api, "attack:strange=2000", model=model, tools=tools, stream=stream, **more)


@row("a call after 20 MiB of thinking, 5 times", "an answer; what is kept is bounded", gateway="large", seconds=60)
async def thought_calls(attack: Attack) -> None:
    tools = _tool("chat", {"type": "object", "properties": {"city": {"type": "string"}}})
    for _ in range(5):
        await attack.ask("chat", "attack:thought-call=20", 200, model=HOSTILE, tools=tools, stream=True)


@row("100 MB of answer text, collected, in each API", "a typed end; bounded memory", gateway="large", seconds=30)
async def large_text_collected(attack: Attack) -> None:
    for api, model in zip(PATHS, (KIRO, HOSTILE, KIRO), strict=True):
        await _bounded(attack, api, "attack:text=100", model=model)


@row("100 MB of answer text, streamed on /v1/responses", "a typed end; bounded memory", gateway="large", seconds=20)
async def large_text_responses(attack: Attack) -> None:
    await _bounded(attack, "responses", "attack:text=100", stream=True)


@row("200 MB of thinking, streamed on /v1/responses", "a typed end; bounded memory", gateway="large", seconds=20)
async def large_thinking_responses(attack: Attack) -> None:
    await _bounded(attack, "responses", "attack:thinking=200", stream=True)


@row("40 open calls of 15 MiB each, in each API", "a typed end; bounded memory", gateway="large", seconds=25)
async def open_calls(attack: Attack) -> None:
    for api in PATHS:
        tools = _tool(api, {"type": "object", "properties": {"city": {"type": "string"}}})
        await _bounded(attack, api, "attack:open-calls=15", stream=True, tools=tools)


@row("a million calls, in each API", "a typed end; bounded memory", gateway="large", seconds=20)
async def a_million_calls(attack: Attack) -> None:
    for api in PATHS:
        tools = _tool(api, {"type": "object", "properties": {"city": {"type": "string"}}})
        await _bounded(attack, api, "attack:calls=1000000", stream=True, tools=tools)


@row(
    "as much text, and as many calls, as one answer may have, in each API; collected it is there as text and as JSON",
    "an answer",
    gateway="large",
    seconds=60,
    growth=3 * 32 * MIB,
)
async def largest_answers(attack: Attack) -> None:
    for api in PATHS:
        tools = _tool(api, {"type": "object", "properties": {"city": {"type": "string"}}})
        more = {"store": False} if api == "responses" else {"max_tokens": 10**9}  # else it is what `state.bytes` is for
        for stream in (False, True):
            calls = 40_000 if stream and api != "responses" else 20_000  # a stream that repeats nothing keeps less
            for prompt in ("attack:text=30", f"attack:calls={calls}"):
                await attack.ask(api, prompt, 200, tools=tools, stream=stream, **more)


@row(
    "one call with arguments of 15 MiB, and 15 MiB of text in one event, in each API: JSON that cannot be cut holds "
    "the interpreter for 0.06 s at a time, and is there as bytes, as text and as the value",
    "an answer",
    gateway="large",
    seconds=60,
    health=0.2,
    growth=4 * 32 * MIB,
)
async def largest_parts(attack: Attack) -> None:
    """Neither can be cut: arguments are one JSON text, an event is one."""
    for api in PATHS:
        tools = _tool(api, {"type": "object", "properties": {"city": {"type": "string"}}})
        more = {"store": False} if api == "responses" else {"max_tokens": 10**9}
        for stream in (False, True):
            for prompt in ("attack:one-call=15", "attack:one-event=15"):
                await attack.ask(api, prompt, 200, tools=tools, stream=stream, **more)


@row("300 MB of redacted thinking behind an open call", "a proper end; bounded memory", gateway="large", seconds=20)
async def redacted_thinking(attack: Attack) -> None:
    tools = _tool("messages", {"type": "object", "properties": {"city": {"type": "string"}}})
    await attack.ask("messages", "attack:redacted=300", 200, stream=True, tools=tools, max_tokens=10**9)


@row("token counts of 400 and 4,300 digits, each service in each API", "an answer")
async def usage_digits(attack: Attack) -> None:
    for digits in DIGITS:
        for api in PATHS:
            for model in MODELS:
                for stream in (True, False):
                    await attack.ask(api, f"attack:digits={digits}", 200, model=model, stream=stream)


@row("text and a torn frame in one read", "never two answers mixed")
async def torn_frame(attack: Attack) -> None:
    for api in PATHS:
        reply = await attack.ask(api, "attack:torn", 200, stream=True)
        count = reply.text.count('"half an answer"')
        attack.want(count == 1, f"{count} times the text in {api}")
        attack.want(reply.error, f"no error in {api}")


@row("a sign-in error that quotes the key", "the key is in no answer, and not in the log")
async def quoted_secret(attack: Attack) -> None:
    for api in PATHS:
        reply = await attack.ask(api, "attack:words", 401, 403, 500, 502, 503, model="echo/m")
        attack.want(SECRET not in reply.text, "the key is in the answer")
        attack.want(SECRET[::-1] not in reply.text, "the key is in the answer, backwards")
    attack.want(SECRET not in attack.gateway.log(), "the key is in the log")


@row(
    "requests of 30 MB: the parser holds the interpreter for 0.1 s, and a body costs five times its size meanwhile",
    "an answer or 4xx",
    seconds=25,
    health=0.2,
    growth=5 * 32 * MIB,
)
async def largest_requests(attack: Attack) -> None:
    await _large(attack, 30 * MIB)


@row("SIGTERM while streams go on", "an in-band error, a proper end, and exit in time", gateway="leaving", beside=False)
async def leaving(attack: Attack) -> None:
    asked = [asyncio.create_task(attack.client.ask(api, "attack:slow", model=HOSTILE, stream=True)) for api in PATHS]
    await asyncio.sleep(1)
    began = time.monotonic()
    attack.gateway.terminate()
    for api, reply in zip(PATHS, await asyncio.gather(*asked), strict=True):
        attack.typed(reply, 200)
        attack.want(reply.error, f"no error in {api}")
    while attack.gateway.process.poll() is None and time.monotonic() - began < 8:  # noqa: ASYNC110 - a process
        await asyncio.sleep(0.05)
    taken = time.monotonic() - began
    attack.note(f"exit {attack.gateway.process.poll()} after {taken:.1f} s")
    attack.want(attack.gateway.process.poll() == 0, f"exit status {attack.gateway.process.poll()}")
    attack.want(taken < 5, f"exit took {taken:.1f} s")
