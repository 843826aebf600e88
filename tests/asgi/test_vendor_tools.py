"""Tools that one vendor alone has: its own service gets them as they are, and elsewhere functions stand for those that
the client runs, and a note names all others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import BrowserToolUseBlock, ComputerToolUseBlock
from pydantic import TypeAdapter

from kiro_asgi.simulator import Head, RawBytes
from tests.asgi.driver import Exchange, post

pytestmark = pytest.mark.anyio

TOOLSETS = [
    {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}},
    {"type": "browser_toolset_20260801"},
    {"type": "mcp_toolset", "mcp_server_name": "files"},
]
CLICK = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "left_click",
    "input": {"coordinate": [3, 4]},
    "toolset_name": "computer",
}
ASKED = {"role": "user", "content": "Click."}


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def clicking(stream: bool) -> tuple[Head, RawBytes]:
    """An answer that calls a tool of a toolset."""
    usage = {"input_tokens": 7, "output_tokens": 5}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None, "usage": usage}
    if not stream:
        whole = {**head, "content": [CLICK], "stop_reason": "tool_use"}
        return Head(content_type="application/json"), RawBytes(json.dumps(whole).encode())
    arguments = {"type": "input_json_delta", "partial_json": json.dumps(CLICK["input"])}
    said = [
        event("message_start", message={**head, "content": [], "stop_reason": None}),
        event("content_block_start", index=0, content_block={**CLICK, "input": {}}),
        event("content_block_delta", index=0, delta=arguments),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 5}),
        event("message_stop"),
    ]
    return Head(content_type="text/event-stream"), RawBytes(b"".join(said))


def ask(path: str, stream: bool = False, **body: Any) -> Exchange:
    return told(post(path, {"max_tokens": 99, "stream": stream, **body}))


def told(exchange: Exchange) -> Exchange:
    """One whose client asks for the names of rules."""
    exchange.scope["headers"] = [*exchange.scope["headers"], (b"x-kiro-asgi-rules", b"1")]
    return exchange


@pytest.fixture
def app(gateway, sim):
    """A gateway that translates what is asked, in front of Anthropic, Gemini and OpenAI."""
    keyed = {"api_key": "sk", "endpoint": sim.url}
    slices = {"anthropic": keyed, "gemini": keyed, "openai": {**keyed, "endpoint": f"{sim.url}/v1"}}
    yield gateway(**slices, stream={"relay": "never"})
    sim.answer_with(None)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
async def test_a_toolset_reaches_its_service_and_its_calls_the_client(app, sim, stream):
    """The client runs the tool, by its own name and the toolset's; both go back with the call."""
    asked: list[Any] = []

    def answer(recorded):
        if recorded.operation != "anthropic.chat":
            return None
        asked.append(json.loads(recorded.body))
        return clicking(stream)

    sim.answer_with(answer)
    body = {"model": "anthropic/claude-haiku-4-5", "tools": TOOLSETS}
    exchange = await ask("/v1/messages", stream, messages=[ASKED], **body).run(app)
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]}
    history = [ASKED, {"role": "assistant", "content": [CLICK]}, result]
    await ask("/v1/messages", stream, messages=history, **body).run(app)

    assert [each["tools"] for each in asked] == [TOOLSETS, TOOLSETS]
    assert asked[1]["messages"][1]["content"] == [CLICK]
    assert "dropped" not in exchange.headers["x-kiro-asgi-rules"]
    if stream:
        assert b'"toolset_name":"computer"' in exchange.content
        assert b'"stop_reason":"tool_use"' in exchange.content
    else:
        assert exchange.json()["content"] == [CLICK]


@pytest.mark.parametrize("model", ["openai/gpt-4o", "gemini/gemini-2.5-pro"])
async def test_a_toolset_that_its_servers_run_is_named_elsewhere(app, sim, model):
    """No other service has it, and the model must not be taken to know it."""
    exchange = await ask("/v1/messages", messages=[ASKED], model=model, tools=TOOLSETS).run(app)

    assert exchange.status == 200
    assert rules_of(exchange)["tools.hosted_dropped"] == "tools[2]"
    assert rules_of(exchange)["tools.as_function"] == "tools[0]"


def rules_of(exchange: Exchange) -> dict[str, str]:
    """The rules of a request, each with the place of the first."""
    named = exchange.headers.get("x-kiro-asgi-rules", "").split(", ")
    return {each.partition(";")[0]: each.partition(';at="')[2].strip('"') for each in named}


ELSEWHERE = {
    "kiro": "claude-sonnet-4.5",
    "gemini": "gemini/gemini-2.5-pro",
    "chat": "openai/gpt-4o",
    "responses": "openai/gpt-4o",
    "converse": "bedrock/amazon.nova-pro-v1:0",
}
"""A model of each service that does not speak the client's API."""

CALLS = {
    "computer": ("left_click", {"coordinate": [3, 4]}),
    "browser": ("form_input", {"target": {"type": "ref", "ref": "ref_7"}, "value": "x"}),
}
"""A call of a member of each toolset."""

OWN = {"name": "computer_wait", "description": "d", "input_schema": {"type": "object", "properties": {}}}
"""A function of the client's, by the name that would stand for a member."""

SDK_CALL: TypeAdapter[Any] = TypeAdapter(ComputerToolUseBlock | BrowserToolUseBlock)


@pytest.fixture
def elsewhere(gateway, sim):
    """Gateways in front of services of other APIs, by their names."""

    def make(service: str):
        keyed = {"api_key": "sk", "endpoint": sim.url}
        openai = {**keyed, "endpoint": f"{sim.url}/v1", "api": "responses" if service == "responses" else "chat"}
        return gateway(gemini=keyed, bedrock={**keyed, "models_ttl": 0.0}, openai=openai)

    return make


def calls_in(exchange: Exchange, stream: bool) -> list[dict[str, Any]]:
    """The calls of an answer."""
    if not stream:
        return [block for block in exchange.json()["content"] if block["type"] == "tool_use"]
    blocks: dict[int, dict[str, Any]] = {}
    pieces: dict[int, str] = {}
    for line in exchange.content.decode().splitlines():
        said = json.loads(line[6:]) if line.startswith("data: ") else {}
        if said.get("type") == "content_block_start" and said["content_block"]["type"] == "tool_use":
            blocks[said["index"]] = said["content_block"]
        elif said.get("type") == "content_block_delta" and said["index"] in blocks:
            pieces[said["index"]] = pieces.get(said["index"], "") + said["delta"]["partial_json"]
    return [{**block, "input": json.loads(pieces[at])} for at, block in blocks.items()]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
@pytest.mark.parametrize("toolset", CALLS)
@pytest.mark.parametrize("place", ELSEWHERE)
async def test_functions_stand_for_the_members_of_a_toolset(elsewhere, sim, place, toolset, stream):
    """A service of another API is offered them; a call is the client's as the API tells it, and so it is on its way
    back."""
    app, (member, given) = elsewhere(place), CALLS[toolset]
    function = f"{toolset}_{member}"
    asked = {"role": "user", "content": f"sim:tool={function} {json.dumps(given)}"}
    body = {"model": ELSEWHERE[place], "tools": [*TOOLSETS[:2], OWN]}
    exchange = await ask("/v1/messages", stream, messages=[asked], **body).run(app)

    assert exchange.status == 200, exchange.content
    (call,) = calls_in(exchange, stream)
    assert (call["name"], call["toolset_name"], call["input"]) == (member, toolset, given)
    read = SDK_CALL.validate_python(call)
    assert (read.name, read.toolset_name) == (member, toolset)
    assert rules_of(exchange)["tools.as_function"] == "tools[0]"
    assert not {"tools.hosted_dropped", "schema.required"} & rules_of(exchange).keys()

    state = {"type": "browser_state", "tabs": [{"tab_id": "tab-9", "title": "Fjords", "url": "", "active": True}]}
    content = [{"type": "text", "text": "done"}, *([state] if toolset == "browser" else [])]
    result = {"type": "tool_result", "tool_use_id": call["id"], "toolset_name": toolset, "content": content}
    history = [asked, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    again = await ask("/v1/messages", stream, messages=history, **body).run(app)

    assert again.status == 200, again.content
    chats = [each.body.decode() for each in sim.requests if function in each.body.decode()]
    assert len(chats) == 2
    assert chats[1].count(f'"{function}"') > chats[0].count(f'"{function}"')  # the call is one of that function
    assert f'"name":"{member}"' not in chats[1]
    assert "done" in chats[1]
    assert ("tab-9" in chats[1]) is (toolset == "browser")
    assert "toolset_name" not in chats[1]
    ignored = {"fields.ignored", "blocks.unknown", "calls.unanswered", "results.orphan_to_text", "tools.stubbed"}
    assert not ignored & rules_of(again).keys()


@pytest.mark.parametrize("place", ELSEWHERE)
async def test_a_member_that_is_off_is_not_offered(elsewhere, sim, place):
    """What the client does not run, the model must not call: disabled ones, and those that are off unless enabled."""
    tools = [TOOLSETS[0], {"type": "browser_toolset_20260801", "configs": {"javascript_exec": {"enabled": True}}}]
    exchange = await ask("/v1/messages", messages=[ASKED], model=ELSEWHERE[place], tools=tools).run(elsewhere(place))

    assert exchange.status == 200
    (sent,) = (each.body.decode() for each in sim.requests if "computer_left_click" in each.body.decode())
    offered = {
        name
        for name in ("computer_zoom", "browser_zoom", "browser_javascript_exec", "browser_file_upload")
        if f'"{name}"' in sent
    }
    assert offered == {"browser_zoom", "browser_javascript_exec"}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
@pytest.mark.parametrize("place", ELSEWHERE)
async def test_a_client_s_own_function_of_such_a_name_stays_its_own(elsewhere, sim, place, stream):
    """Calls of it have no toolset; the member has another name there."""
    body = {"model": ELSEWHERE[place], "tools": [TOOLSETS[0], OWN]}
    for function, told in (("computer_wait", ("computer_wait", None)), ("computer_wait_", ("wait", "computer"))):
        given = {} if told[1] is None else {"duration": 2}
        asked = {"role": "user", "content": f"sim:tool={function} {json.dumps(given)}"}
        exchange = await ask("/v1/messages", stream, messages=[asked], **body).run(elsewhere(place))

        (call,) = calls_in(exchange, stream)
        assert (call["name"], call.get("toolset_name"), call["input"]) == (*told, given)


@pytest.mark.parametrize("name", ["exaAiSearch", "parallelAiSearch", "googleMaps", "futureSearch"])
@pytest.mark.parametrize("settings", [{}, {"apiKey": "k"}])
async def test_a_search_of_another_vendor_s(app, sim, name, settings):
    """An empty object is the request: Gemini gets it as it is, and elsewhere a note names it."""
    body = {"contents": [{"role": "user", "parts": [{"text": "fjords"}]}], "tools": [{name: settings}]}
    there = await told(post("/v1beta/models/gemini/gemini-2.5-pro:generateContent", body)).run(app)
    asked = [json.loads(each.body) for each in sim.requests if each.operation.startswith("gemini.")]
    elsewhere = await told(post("/v1beta/models/openai/gpt-4o:generateContent", body)).run(app)

    assert asked[-1]["tools"] == [{name: settings}]
    assert "hosted_dropped" not in there.headers.get("x-kiro-asgi-rules", "")  # Google's own server may refuse it
    assert "tools.hosted_dropped" in elsewhere.headers["x-kiro-asgi-rules"]
