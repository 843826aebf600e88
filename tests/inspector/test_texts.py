"""What the list says of texts, and finds in them: with full content only, without secrets, and in bounded steps."""

from __future__ import annotations

import json

import pytest

from kiro_asgi.inspector import recordings
from kiro_asgi.inspector.site import _VIEWS, Inspector
from kiro_asgi.inspector.texts import BODY_BYTES, asked_in, documents, shortened, tools_in, words_of
from tests.asgi.driver import ask, post
from tests.inspector.test_recordings import looking
from tests.inspector.test_site import asked
from tests.parts import part_of
from tests.tapes.recording import PATHS, question

__all__ = ["looking"]

pytestmark = pytest.mark.anyio


async def numbers(viewer):
    return ",".join(
        str(call["number"])
        for call in (await asked("/api/calls", cookie=viewer.cookie).run(viewer.app)).json()["calls"]
    )


@pytest.mark.parametrize("api", PATHS)
async def test_a_row_says_what_was_asked(api, looking):
    """In each API: the beginning of the question, and the tools; a search finds words of both sides, though cut."""
    app, viewer = await looking(fresh=True)
    await question(api, "Zebra crossing\n\n ahead? sim:thinking-tool", tools=True).run(app)
    which = await numbers(viewer)
    (glimpse,) = (await viewer.see("glimpses", calls=which))["calls"].values()
    assert glimpse == {"asked": "Zebra crossing ahead? sim:thinking-tool", "tools": ["get_weather"]}
    for text, found in (("zebra CROSSING", True), ("Tells the weather", True), ("oslo", True), ("giraffe", False)):
        told = await viewer.see("search", calls=which, text=text)
        assert (bool(told["found"]), told["looked"]) == (found, [int(which)]), text
    answer = await viewer.see("answer")
    thought = next(block["text"] for block in answer["blocks"] if block["kind"] == "thinking")
    assert (await viewer.see("search", calls=which, text=thought))["found"]


@pytest.mark.parametrize("content", ["none", "masked"])
async def test_no_text_is_ever_shown_that_is_not_kept(content, looking):
    """In no view, list, event or search; of tools only the names, and those only where the shape is kept."""
    app, viewer = await looking(content, fresh=True)
    await question("anthropic", "Confidential zebra sim:cut-tool", tools=True).run(app)
    await question("anthropic", "Confidential zebra sim:tool", tools=True).run(app)
    which = await numbers(viewer)
    calls = (await asked("/api/calls", cookie=viewer.cookie).run(app)).json()["calls"]
    seen = [json.dumps(calls)]
    for call in calls:
        seen.append((await asked(f"/api/calls/{call['id']}", cookie=viewer.cookie).run(app)).content.decode())
        for view in _VIEWS:
            answer = await viewer.raw(view, call["id"], calls=which, text="zebra", index="0")
            seen.append(answer.content.decode("utf-8", "replace"))
    assert not [words for words in seen if "onfidential" in words or "zebra" in words or "Oslo" in words]
    assert (await viewer.raw("search", calls=which, text="zebra")).status == 404
    for kept in part_of(app, Inspector).calls.all():
        assert not kept.asked
        assert kept.tools == (
            ("get_weather",) if content == "masked" and not kept.remarks else () if content == "masked" else None
        )


async def test_no_secret_is_found(looking):
    """Neither the whole nor a beginning of it: whoever searches letter by letter learns nothing."""
    secret = "ksk_test"
    app, viewer = await looking(fresh=True)
    await ask("anthropic", f"Is {secret} a key?", stream=True).run(app)
    which = await numbers(viewer)
    for text, found in (("is ", True), ("a key?", True), (secret, False), (secret[:4], False), (secret[2:], False)):
        assert bool((await viewer.see("search", calls=which, text=text))["found"]) is found, text
    (glimpse,) = (await viewer.see("glimpses", calls=which))["calls"].values()
    assert "ksk" not in glimpse["asked"]


async def test_a_search_takes_bounded_steps(looking, monkeypatch):
    """A step looks at what it has time for, at least at one call, and says at which; a large body is not read."""
    app, viewer = await looking(fresh=True)
    for number in range(4):
        await ask("anthropic", f"zebra {number}", stream=True).run(app)
    which = await numbers(viewer)
    assert (await viewer.see("search", calls=which, text="zebra"))["looked"] == [4, 3, 2, 1]
    assert (await viewer.see("search", calls="1,x,-1,99," + "1" * 20, text="zebra")) == {"found": [1], "looked": [1]}
    monkeypatch.setattr(recordings, "_SEARCH", -1.0)
    assert (await viewer.see("search", calls=which, text="zebra")) == {"found": [4], "looked": [4]}
    assert documents(b"data: 1\n" * (BODY_BYTES // 8 + 1)) == []


async def test_a_failed_call_opens_on_what_failed(looking):
    """What came of a call that was cut, with why; the service's own words where it refused."""
    app, viewer = await looking(retry={"attempts": 1})
    for marker in ("cut-tool", "bad-tool-json"):
        await question("anthropic", f"sim:{marker}", tools=True).run(app)
        told = await viewer.see("failure")
        (partial,) = told["partial"]
        assert partial["name"] == "get_weather" and partial["arguments"].startswith("{") and partial["why"]
        assert partial["bytes"] == len(partial["arguments"]) > 0
        call = (await asked(f"/api/calls/{(await viewer.last())['id']}", cookie=viewer.cookie).run(app)).json()
        assert call["remarks"][0]["cause"] and call["remarks"][0]["advice"]
    await question("anthropic", "sim:tool", tools=True).run(app)
    assert await viewer.see("failure") == {"attempts": [], "partial": []}
    await question("openai", "sim:bad-request").run(app)
    (attempt,) = (await viewer.see("failure"))["attempts"]
    assert attempt["words"] and attempt["error"] == "UpstreamRejected"
    await post("/v1/messages", {"model": "claude-sonnet-4.5"}).run(app)
    assert await viewer.see("failure") == {"attempts": [], "partial": []}


def said(*parts):
    return {"role": "user", "content": list(parts)}


RESULT = {"type": "tool_result", "content": "r"}
ITEM = {"type": "function_call_output", "output": "r"}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "a"),
        ({"messages": [{"role": "user", "content": "a"}, said(RESULT)]}, "a"),
        ({"messages": [said({"text": "<system-reminder>x"}, {"text": "a"}, {"text": "<b>"})]}, "a"),
        ({"messages": [{"role": "user", "content": "<b>"}]}, "<b>"),
        ({"messages": [{"role": "system", "content": "s"}]}, ""),
        ({"input": "a"}, "a"),
        ({"input": [said({"type": "input_text", "text": "a"}), ITEM]}, "a"),
        ({"contents": [{"parts": [{"text": "a"}]}, {"role": "user", "parts": [{"functionResponse": {}}]}]}, "a"),
        ({"prompt": "a"}, "a"),
        ({"messages": [7, None, {"role": "user", "content": 7}, {"role": "user", "content": {"text": "a"}}]}, "a"),
        ({"messages": 7}, ""),
        ([], ""),
        ("a", ""),
    ],
)
def test_what_was_asked(request_, expected):
    """The last text of the user's, whatever else is in the request."""
    assert asked_in(request_) == expected
    assert shortened("a " * 200)[-2:] == "a…"


def test_texts_of_anything():
    """Whatever was sent is read, however deep, in time that grows with it; names of tools are those of calls."""
    deep = {}
    for _ in range(50):
        deep = {"x": [deep, "word"]}
    assert words_of(deep, [deep]).count("word") == 100
    assert tools_in([{"type": "tool_use", "name": "a"}, {"function": {"name": "b"}}, {"name": "c"}]) == ("a", "b")
    assert tools_in([{"type": "tool_use", "name": 7}, {"type": []}]) == ()
    assert len(tools_in([{"type": "tool_use", "name": str(number)} for number in range(50)])) == 10
    for sent in (b"", b"data:", b"data: {", b"\xff", b"nothing", b'{"a": 1}'):
        documents(sent)
