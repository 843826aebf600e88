"""What the inspector shows of what was recorded, as a browser asks for it."""

from __future__ import annotations

import json
import shlex
from functools import partial
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest
from attrs import field, frozen

from kiro_asgi.inspector.site import Inspector
from kiro_asgi.replay import derive
from kiro_asgi.simulator import CloseEarly, Head, Pause, RawBytes, Reset, refusal, text
from kiro_asgi.simulator.pieces import ExceptionFrame
from kiro_asgi.tapes import read_tape
from tests.asgi.driver import ask, get, post
from tests.inspector.test_site import ON, asked, signed_in
from tests.parts import part_of
from tests.tapes.recording import PATHS, question, services

pytestmark = pytest.mark.anyio


QUESTIONS = ("user", "Where was I?"), ("assistant", "Hi"), ("user", "And now?")


@frozen
class Fault:
    """A way to fail, and what the list says of it."""

    status: int
    outcome: str
    error: str | None
    asked: str = "Hello"
    key: str = "k"
    more: dict[str, Any] = field(factory=dict)
    slices: dict[str, Any] = field(factory=dict)
    reply: str = ""
    leaves: bool = False
    is_read: bool = True

    def __str__(self):
        return f"{self.status}-{self.error or self.outcome}"


FAULTS = (
    Fault(401, "refused", "Unauthorized", key="wrong", is_read=False),
    Fault(413, "refused", "BodyTooLarge", "x" * 5000, slices={"limits": {"body_bytes": 300}}, is_read=False),
    Fault(400, "refused", "RequestError", more={"temperature": "hot"}),
    Fault(429, "refused", "LimitReached", slices={"quotas": {"requests_per_minute": 1}}),
    Fault(400, "refused", "UpstreamRejected", reply="Improperly formed request."),
    Fault(200, "cut", "UpstreamProtocolError", "sim:torn"),
    Fault(200, "disconnected", None, "sim:slow", leaves=True),
)


class Viewer:
    """Somebody who looks at the last call."""

    def __init__(self, app, cookie):
        self.app, self.cookie = app, cookie

    async def last(self):
        return (await asked("/api/calls", cookie=self.cookie).run(self.app)).json()["calls"][-1]

    async def raw(self, view, call=None, **query):
        call = call or (await self.last())["id"]
        target = asked(f"/api/{view}", cookie=self.cookie)
        target.scope["query_string"] = urlencode({"call": call, **query}).encode()
        return await target.run(self.app)

    async def see(self, view, call=None, **query):
        answer = await self.raw(view, call, **query)
        return answer.json() if answer.status == 200 else (answer.status, answer.json()["error"])


@pytest.fixture
async def looking(gateway, sim):
    """A gateway of every service whose calls are looked at."""

    async def look(content="full", **slices):
        app = gateway(inspector={**ON, "content": content}, **services(sim), **slices)
        return app, Viewer(app, await signed_in(app))

    return look


async def test_each_step_has_its_cause(looking):
    """From a frame, whose checksums are shown, to the events that it led to, and what the client was sent."""
    app, viewer = await looking()
    await ask("anthropic", "sim:tool", stream=True).run(app)
    told = await viewer.see("steps")
    rows, stages = told["steps"], told["stages"]
    assert told["derived"] and told["differs"] is None and {row[0] for row in rows} == {"r", "i", "s"}

    (called,) = (at for at, row in enumerate(rows) if row[7].startswith("ToolCallStart"))
    fragment = rows[called][2]
    frame = rows[fragment][2]
    assert stages[rows[frame][3]] == "FrameDecoder" and rows[frame][7].startswith("Frame toolUseEvent")
    read = rows[frame][2]
    assert rows[read][0] == "r" and (rows[read][5], rows[read][6]) == (rows[frame][5], rows[frame][6])
    held = [row for row in rows if row[8] == "ToolCallAssembler"]
    assert held and all(row[7].startswith("ToolCallFragment") for row in held)

    seen = await viewer.see("step", index=frame)
    assert seen["value"]["payload"]["name"] == "get_weather"
    (bounds,) = seen["frames"]
    assert bounds["offset"] == rows[read][5] and bounds["prelude"][0] == bounds["prelude"][1]
    seen = await viewer.see("step", index=read)
    assert seen["frames"] == [bounds] and bytes.fromhex(seen["hex"])[:4] == bounds["size"].to_bytes(4, "big")
    assert await viewer.see("step", index=10_000) == (404, "there is no such step")


async def test_the_answer_as_the_client_sees_it(looking, sim):
    """Thinking, text, calls with what was mended, who said why it ended; of a refusal the service's words."""
    app, viewer = await looking()
    await ask("anthropic", "sim:thinking-tool", stream=True).run(app)
    answer = await viewer.see("answer")
    thinking = answer["blocks"][0]
    assert (thinking["kind"], thinking["sealed"]) == ("thinking", True) and thinking["text"]
    assert answer["blocks"][-1]["input"] == {"city": "Oslo"} and answer["blocks"][-1]["came"] is None
    assert answer["end"]["reason"] == "tool_call" and answer["end"]["said_by"] == "FrameEventDecoder"

    await ask("openai", "sim:once-429", stream=True).run(app)
    answer = await viewer.see("answer")
    first, second = answer["attempts"]
    assert first["status"] == 429 and "USER_REQUEST_RATE_EXCEEDED" in first["words"]
    assert second["outcome"] == "complete" and answer["blocks"][0]["text"]

    sim.enqueue(refusal(400, "ValidationException", "Improperly formed request."))
    await ask("anthropic", "Hello", stream=False).run(app)
    answer = await viewer.see("answer")
    assert "Improperly formed request." in answer["attempts"][0]["words"] and not answer["blocks"]


BREAKS = {
    "reset": ((Head(), *text("some"), Pause(0.05), Reset()), "connection broke"),
    "closed": ((Head(), *text("some"), CloseEarly()), "connection broke"),
    "nothing": ((Reset(),), "connection broke"),
    "half a frame": ((Head(), *text("some"), RawBytes(b"\x00\x00\x00\x50")), "broken stream"),
}


@pytest.mark.parametrize("how", BREAKS)
async def test_nothing_is_put_into_the_mouth_of_a_service(how, looking, sim):
    """Where an answer breaks, the gateway says how, after how much; the service said nothing, and was reached."""
    script, short = BREAKS[how]
    app, viewer = await looking(retry={"attempts": 1})
    sim.enqueue(script)
    exchange = await ask("anthropic", "Hello", stream=True).run(app)
    told, call = await viewer.see("failure"), await viewer.last()
    (attempt,) = told["attempts"]

    assert "words" not in attempt and "message" not in attempt
    assert call["remarks"][0]["words"] == short
    if short == "connection broke":
        assert (
            "the connection broke off" in attempt["found"] and "the connection broke off" in exchange.content.decode()
        )
        assert (attempt["bytes"] > 0) == (how != "nothing")
    assert "ReadError" not in exchange.content.decode()


async def test_what_a_service_says_within_its_answer_is_its_own(looking, sim):
    """An exception of its stream, in its words."""
    app, viewer = await looking(retry={"attempts": 1})
    sim.enqueue((Head(), ExceptionFrame("ThrottlingException", "Slow down, please."), Pause(0.05), *text("more")))
    await ask("anthropic", "Hello", stream=True).run(app)
    (attempt,) = (await viewer.see("failure"))["attempts"]

    assert "Slow down, please." in attempt["message"] and "found" not in attempt


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_what_failed_is_whole(looking, sim, fault):
    """Of each way to fail: what was asked as far as it was read, what services said, what the client was told."""
    app, viewer = await looking(fresh=True, **fault.slices)
    if fault.reply:
        sim.enqueue(refusal(400, "ValidationException", fault.reply))
    for _ in range(1 + bool(fault.slices.get("quotas"))):
        question = {"messages": [{"role": "user", "content": fault.asked}], "max_tokens": 99, "stream": True}
        exchange = post(PATHS["anthropic"], {"model": "claude-sonnet-4.5", **question, **fault.more}, key=fault.key)
        exchange.on_send = partial(leave_at, exchange, fault.leaves)
        await exchange.run(app)

    row = await viewer.last()
    assert (row["status"], row["outcome"], row.get("error")) == (fault.status, fault.outcome, fault.error)
    steps, answer, request = [await viewer.see(view) for view in ("steps", "answer", "request")]
    assert sum(step[6] for step in steps["steps"] if step[0] == "s") == len(exchange.content)
    assert fault.reply in json.dumps(answer["attempts"]) and not answer["passed"]
    assert fault.status == 200 or answer["sent"] == exchange.content.decode()
    if fault.is_read:
        assert request["client"]["messages"][0]["content"] == fault.asked
        assert steps["derived"] == (fault.error != "LimitReached") and not steps.get("differs")
    else:
        assert request == (404, "the request was refused before it was read")
        assert "before its body was read" in answer["why"]


async def leave_at(exchange, leaves, message):
    """Leave with the first bytes of the answer, where that is wanted."""
    if leaves and message.get("body"):
        exchange.leave.set()


async def test_bytes_that_went_through_are_read_too(looking):
    """By the decoder of the service's own API, without a call; steps show that nothing was made of them."""
    app, viewer = await looking(routing={"models": ["mine=kiro/claude-sonnet-4.5"]})
    await question("anthropic", "sim:thinking", "anthropic/claude-sonnet-4-5").run(app)
    assert {row[0] for row in (await viewer.see("steps"))["steps"]} == {"r", "s"}
    answer = await viewer.see("answer")
    assert answer["passed"] and [block["kind"] for block in answer["blocks"]] == ["thinking", "text"]


async def test_requests_before_and_after(looking):
    """With each rule, its place and reason, as ``kiro-asgi explain`` tells them."""
    app, viewer = await looking()
    await ask("anthropic", "Hello", stream=True, top_k=3).run(app)
    told = await viewer.see("request")
    assert told["client"]["messages"][0]["content"] == "Hello"
    (sent,) = told["sent"]
    assert sent["payload"]["conversationState"]["currentMessage"]["userInputMessage"]["content"] == "Hello"
    assert told["explained"]["ok"] and "top_k" in json.dumps(told["explained"]["rules"])


async def test_a_run_with_other_settings_is_compared(looking):
    """With how it was, or with another call; only what names no place or person can be changed."""
    app, viewer = await looking()
    await ask("anthropic", "sim:thinking", stream=True).run(app)
    call = (await viewer.last())["id"]
    assert (await viewer.see("compare", rechunk="1"))["same"]
    told = await viewer.see("compare", set="kiro.fake_reasoning_handling = remove\n")
    assert not told["same"] and told["before"] >= 1
    assert "thinking" in "".join(told["got"]["events"]) and "thinking" not in "".join(told["replay"]["events"])
    paths = {each["path"] for each in (await viewer.see("settings"))["settings"]}
    assert "kiro.fake_reasoning_handling" in paths and not paths & {"kiro.api_key", "kiro.endpoint", "client.api_keys"}
    status, words = await viewer.see("compare", set="kiro.endpoint=http://evil.example")
    assert status == 404 and "switches, numbers and choices" in words
    assert (await viewer.see("compare", set="stream.heartbeat=-1"))[0] == 404
    assert (await viewer.see("compare", rechunk="-1"))[0] == 404

    await ask("anthropic", "sim:tool", stream=True).run(app)
    assert not (await viewer.see("compare", other=call))["same"]


@pytest.mark.parametrize("content", ["full", "masked"])
async def test_a_run_is_compared_with_what_the_client_got(looking, content):
    """Not with another replay: whatever a replay gives, it is never called the same as an answer that was another."""
    app, viewer = await looking(content)
    await ask("anthropic", "sim:text=One two.", stream=True).run(app)
    call = await viewer.last()
    lines = part_of(app, Inspector).calls.find(call["id"]).recording._lines
    assert (await viewer.see("compare"))["same"]

    (head,) = (at for at, line in enumerate(lines) if line[0] == "client.head")
    was, lines[head] = lines[head], (*lines[head][:3], {**lines[head][3], "status": 502})
    told = await viewer.see("compare")
    assert not told["same"] and told["difference"] is None
    assert (told["got"]["status"], told["replay"]["status"]) == (502, 200)

    lines[head] = was
    last = max(at for at, line in enumerate(lines) if line[0] == "client.bytes")
    lines[last] = (*lines[last][:2], lines[last][2] + b"event: more\ndata: {}\n\n", lines[last][3])
    told = await viewer.see("compare")
    assert not told["same"] and told["got"]["bytes"] == told["replay"]["bytes"] + len(b"event: more\ndata: {}\n\n")
    assert "event: more" in told["got"]["events"][-1] or content == "masked"


async def test_what_is_taken_away(looking, gateway):
    """A tape that plays, a command for a shell, an archive: without secrets, and masked without a word."""
    app, viewer = await looking()
    await ask("anthropic", "sim:tool It's $(date)", stream=True).run(app)
    answer = await viewer.raw("tape")
    assert answer.headers["content-disposition"].endswith('.tape.jsonl"')
    tape = read_tape([answer.content])
    played = await anyio.to_thread.run_sync(derive, tape)
    assert played.difference is None and b"ksk_test" not in answer.content
    masked = await viewer.raw("tape", content="masked")
    assert b"date" not in masked.content and read_tape([masked.content]).is_masked
    words = shlex.split((await viewer.see("curl", origin="http://h:1"))["command"])
    assert f"http://h:1{PATHS['anthropic']}" in words and json.loads(words[2])["model"]
    assert len((await viewer.raw("har")).json()["log"]["entries"]) == 2


async def test_why_there_is_nothing(looking, sim):
    """Nothing is kept, it made room, the request never came, or the call goes on."""
    app, viewer = await looking("none")
    await ask("anthropic", "Hello", stream=True).run(app)
    assert "inspector.content is none" in (await viewer.see("steps"))[1]

    app, viewer = await looking(fresh=True)
    await ask("anthropic", "Hello", stream=True).run(app)
    call = (await viewer.last())["id"]
    part_of(app, Inspector).calls._bytes = 20_000
    await ask("anthropic", "Hello", stream=True).run(app)
    assert "made room" in (await viewer.see("answer", call))[1]
    assert "does not keep this call" in (await viewer.see("steps", "nobody"))[1]
    assert (await viewer.see("row", call)) == (404, "there is nothing here")


async def test_masked_content_has_no_words(looking):
    """Of the question or the answer, in any view; steps are the same."""
    app, viewer = await looking("masked")
    await ask("anthropic", "sim:thinking Confidential", stream=True).run(app)
    told = await viewer.see("steps")
    assert told["derived"] and any(row[7] == "ThinkingDelta X" for row in told["steps"])
    for view in ("steps", "answer", "request", "curl"):
        assert "onfidential" not in json.dumps(await viewer.see(view)) and "simulated" not in json.dumps(told)


async def conversation(app, viewer, bodies, api="/v1/messages"):
    """The turns of the conversation of the second of *bodies*: messages, those that are the same, changes."""
    for body in bodies:
        await post(api, {"model": "claude-sonnet-4.5", "max_tokens": 9, **body}).run(app)
    calls = (await asked("/api/calls", cookie=viewer.cookie).run(app)).json()["calls"][-len(bodies) :]
    turns = (await viewer.see("conversation", calls[1]["id"]))["turns"]
    return [(each["messages"], each["same"], each["changed"], each["system_changed"]) for each in turns]


async def test_a_conversation_turn_by_turn(looking):
    """By its user's first message: what each call has in common with the one it goes on from, and what was changed."""
    app, viewer = await looking(fresh=True)
    first, answer, second = ({"role": role, "content": words} for role, words in QUESTIONS)
    said = [[first], [first, answer, second], [first, second], [second]]
    turns = await conversation(app, viewer, [{"messages": messages} for messages in said])
    assert turns == [(1, 0, False, False), (3, 1, False, False), (2, 1, True, False)]
    said = [[second], [second, answer, first], [second, {**answer, "content": "Hm"}, first, answer, first]]
    turns = await conversation(app, viewer, [{"messages": messages} for messages in said])
    assert turns[-1] == (5, 1, True, False)
    await get("/v1/models").run(app)
    assert (await viewer.see("conversation"))[0] == 404


async def test_a_conversation_says_what_each_turn_cost(looking):
    """In the service's credits; of a turn that took none of them nothing is said."""
    app, viewer = await looking(fresh=True)
    first, answer, second = ({"role": role, "content": words} for role, words in QUESTIONS)
    free = {**first, "content": f"sim:no-trailers {first['content']}"}
    await conversation(app, viewer, [{"messages": it} for it in ([first], [first, answer, second])])
    calls = (await asked("/api/calls", cookie=viewer.cookie).run(app)).json()["calls"]
    turns = (await viewer.see("conversation", calls[-1]["id"]))["turns"]
    assert [each["credits"] for each in turns] == [call["usage"]["credits"] for call in calls]
    assert all(each["credits"] > 0 for each in turns)
    await conversation(app, viewer, [{"messages": it} for it in ([free], [free, answer, second])])
    latest = (await asked("/api/calls", cookie=viewer.cookie).run(app)).json()["calls"][-1]["id"]
    assert ["credits" in each for each in (await viewer.see("conversation", latest))["turns"]] == [False, True]


@pytest.mark.parametrize("api", ["/v1/messages", "/v1/chat/completions", "/v1/responses"])
async def test_a_conversation_has_no_false_alarms(api, looking):
    """Marks for the cache that move, a system message with the time, a question aside, and one that is asked twice."""
    app, viewer = await looking(fresh=True)
    member, kind = ("input", "input_text") if "responses" in api else ("messages", "text")
    text = {"type": kind, "text": "Where was I?"}
    marked = {**text, "cache_control": {"type": "ephemeral"}} if "/v1/messages" in api else text
    reply, aside = {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "A title, please."}
    first = {"role": "user", "content": [text]}
    said = [
        [{"role": "user", "content": [marked]}],
        [first, reply, {"role": "user", "content": [marked]}],
        [first, reply, aside],
        [first],
        [first, {**reply, "content": "Ho"}, aside],
    ]
    bodies = [{member: messages} for messages in said]
    has_time = "chat" in api
    if has_time:
        bodies = [{member: [{"role": "system", "content": str(at)}, *told]} for at, told in enumerate(said)]
    turns = await conversation(app, viewer, bodies, api)
    assert [(messages, same) for messages, same, _, _ in turns] == [(1, 0), (3, 1), (3, 2), (1, 1), (3, 1)]
    assert [changed for _, _, changed, _ in turns] == [False] * 5
    assert [changed for *_, changed in turns] == [False, *[has_time] * 4]


async def test_a_call_that_goes_on(looking):
    """What was read and sent so far is there at once."""
    app, viewer = await looking()
    exchange = ask("anthropic", "sim:slow", stream=True)
    seen = {}

    async def look(message):
        if b"content_block_delta" in message.get("body", b"") and not seen:
            seen.update(steps=await viewer.see("steps"), answer=await viewer.see("answer"))
            seen["compare"] = await viewer.see("compare")

    exchange.on_send = look
    await exchange.run(app)
    assert not seen["steps"]["derived"] and {row[0] for row in seen["steps"]["steps"]} >= {"r"}
    assert "the call is under way" in seen["answer"]["why"] and seen["compare"][0] == 404
