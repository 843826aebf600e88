"""What a service ran, and shows, on the way to an answer: every kind of part, of each service, to clients of each API.

A client of the service's own API gets it in that API's form; others get what they can be shown, and a notice names the
rest.  An answer with nothing else is never an empty success.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import frozen

from kiro_asgi import create_app
from tests.asgi.conftest import settings_for
from tests.asgi.test_observers import Recorder
from tests.asgi.test_served_tiers import objects_in
from tests.asgi.test_unknown_answers import (
    ASKED,
    CLIENTS,
    FAILED,
    FORMS,
    MODES,
    SAME,
    answering,
    asking,
    chat,
    responded,
    said,
    slices,
    streamed,
)
from tests.upstreams.test_ends import body, frames, sse

pytestmark = pytest.mark.anyio

PIXEL = "iVBO"


@pytest.fixture(autouse=True)
def _responses_are_legal(_responses_judged: list[str]) -> Iterator[None]:
    """But for items of the service's own, of which the checker of our answers knows few, and those in part."""
    _responses_judged.clear()
    yield
    _responses_judged.clear()


@frozen
class Answer:
    """Parts of an answer of one service."""

    service: str
    """Form of `FORMS`."""

    parts: tuple[Any, ...]
    """All that it has, as clients of the API are to get it."""

    shown: str = ""
    """What others get; empty for nothing."""

    notices: tuple[str, ...] = ()
    """Those that name what they do not get."""


CODE = "\n```python\n1+1\n```\n"
OUTPUT = "\n```\n2\n```\n"
IMAGE = f"![image](data:image/png;base64,{PIXEL})"

ANSWERS = {
    "gemini-code": Answer(
        "gemini",
        (
            {"executableCode": {"language": "PYTHON", "code": "1+1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        ),
        CODE + OUTPUT,
    ),
    "gemini-image": Answer("gemini", ({"inlineData": {"mimeType": "image/png", "data": PIXEL}},), IMAGE),
    "gemini-sound": Answer(
        "gemini",
        ({"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AAAA"}},),
        "[file](data:audio/L16;rate=24000;base64,AAAA)",
    ),
    "gemini-file": Answer(
        "gemini",
        ({"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}},),
        "![image](https://example.org/a.png)",
    ),
    "gemini-tool": Answer(
        "gemini",
        ({"toolCall": {"id": "c", "name": "mcp"}}, {"toolResponse": {"id": "c", "output": "2"}}),
        notices=("content.unknown:toolCall", "content.unknown:toolResponse"),
    ),
    "messages-code": Answer(
        "messages",
        (
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "1+1"}},
            {
                "type": "code_execution_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {
                    "type": "code_execution_result",
                    "stdout": "2\n",
                    "stderr": "",
                    "return_code": 0,
                    "content": [],
                },
            },
        ),
        CODE + OUTPUT,
    ),
    "messages-bash": Answer(
        "messages",
        (
            {
                "type": "server_tool_use",
                "id": "srvtoolu_1",
                "name": "bash_code_execution",
                "input": {"command": "ls x"},
            },
            {
                "type": "bash_code_execution_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {
                    "type": "bash_code_execution_result",
                    "stdout": "",
                    "stderr": "no x",
                    "return_code": 2,
                    "content": [],
                },
            },
        ),
        "\n```bash\nls x\n```\n\n```\nexit code 2\nno x\n```\n",
    ),
    "messages-fetch": Answer(
        "messages",
        (
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_fetch", "input": {"url": "https://a"}},
            {
                "type": "web_fetch_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {"type": "web_fetch_result", "url": "https://a", "content": {}},
            },
        ),
        notices=("block.unknown:web_fetch", "block.unknown:web_fetch_tool_result"),
    ),
    "messages-mcp": Answer(
        "messages",
        (
            {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "s", "input": {"a": 1}},
            {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []},
        ),
        notices=("block.unknown:echo", "block.unknown:mcp_tool_result"),
    ),
    "messages-image": Answer(
        "messages",
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},),
        IMAGE,
    ),
    "responses-code": Answer(
        "responses",
        (
            {
                "type": "code_interpreter_call",
                "status": "completed",
                "container_id": "cntr_1",
                "code": "1+1",
                "outputs": [{"type": "logs", "logs": "2"}, {"type": "image", "url": "https://example.org/a.png"}],
            },
        ),
        CODE + OUTPUT + "![image](https://example.org/a.png)",
    ),
    "responses-image": Answer(
        "responses", ({"type": "image_generation_call", "status": "completed", "result": PIXEL},), IMAGE
    ),
    "responses-shell": Answer(
        "responses",
        (
            {"type": "shell_call", "status": "completed", "call_id": "c", "action": {"commands": ["ls x"]}},
            {
                "type": "shell_call_output",
                "status": "completed",
                "call_id": "c",
                "output": [{"stdout": "", "stderr": "no x", "outcome": {"type": "exit", "exit_code": 2}}],
            },
        ),
        "\n```bash\nls x\n```\n\n```\nexit code 2\nno x\n```\n",
    ),
    "responses-mcp": Answer(
        "responses",
        ({"type": "mcp_call", "status": "completed", "server_label": "s", "name": "f", "arguments": "{}"},),
        notices=("item.unknown:mcp_call",),
    ),
    "responses-files": Answer(
        "responses",
        ({"type": "file_search_call", "status": "completed", "queries": ["x"], "results": None},),
        notices=("item.unknown:file_search_call",),
    ),
    "responses-patch": Answer(
        "responses",
        ({"type": "apply_patch_call", "status": "completed", "call_id": "c", "operation": {"type": "delete_file"}},),
        notices=("item.unknown:apply_patch_call",),
    ),
    "responses-local": Answer(
        "responses",
        ({"type": "local_shell_call", "status": "completed", "call_id": "c", "action": {"type": "exec"}},),
        notices=("item.unknown:local_shell_call",),
    ),
    "chat-images": Answer(
        "chat",
        ({"images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]},),
        IMAGE,
    ),
    "chat-audio": Answer(
        "chat", ({"audio": {"id": "a", "data": "AAAA", "transcript": "Hi"}},), "Hi", ("content.unknown:audio",)
    ),
    "chat-tools": Answer(
        "chat",
        ({"executed_tools": [{"type": "python", "output": "2"}]},),
        notices=("content.unknown:executed_tools",),
    ),
    "converse-code": Answer(
        "converse",
        (
            {"toolUse": {"name": "nova_code_interpreter", "type": "server_tool_use", "input": {"code": "1+1"}}},
            {
                "toolResult": {
                    "type": "nova_code_interpreter_result",
                    "content": [{"text": '{"stdOut":"2","stdErr":"","exitCode":0,"isError":false}'}],
                }
            },
        ),
        CODE + OUTPUT,
    ),
    "converse-search": Answer(
        "converse",
        (
            {"toolUse": {"name": "nova_grounding", "type": "server_tool_use", "input": {}}},
            {"toolResult": {"type": "nova_grounding_result", "content": [{"text": "pages"}]}},
        ),
        notices=("block.unknown:server_tool_use_nova_grounding", "block.unknown:toolResult"),
    ),
}


def converse_events(parts: tuple[Any, ...]) -> bytes:
    """The parts as Converse streams them: arguments as pieces of JSON, results as a list."""
    events: list[tuple[str, dict[str, Any]]] = []
    for index, part in enumerate(parts):
        place = {"contentBlockIndex": index}
        [(kind, fields)] = part.items()
        about = {name: value for name, value in fields.items() if name not in ("input", "content")}
        piece = {"input": json.dumps(fields["input"])} if kind == "toolUse" else fields.get("content")
        events += (
            ("contentBlockStart", {**place, "start": {kind: {"toolUseId": "t", **about}}}),
            ("contentBlockDelta", {**place, "delta": {kind: piece}}),
            ("contentBlockStop", place),
        )
    return frames(*events, ("messageStop", {"stopReason": "end_turn"}))


def written(answer: Answer) -> bytes:
    """The service's bytes."""
    match answer.service:
        case "gemini":
            content = {"parts": [*answer.parts], "role": "model"}
            return sse({"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}]})
        case "messages":
            return sse(*said(*answer.parts))
        case "responses":
            return streamed(responded(*answer.parts))
        case "chat":
            return chat(*answer.parts)
        case _:
            return converse_events(answer.parts)


def has(value: Any, wanted: Any) -> bool:
    """Whether *wanted*, or an object with all of its members, stands anywhere in *value*."""
    if value == wanted or (type(value) is dict and type(wanted) is dict and wanted.items() <= value.items()):
        return True
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(has(each, wanted) for each in within)


def text_in(value: Any) -> str:
    """All text of an answer, each once: that of a response is in its end, too."""
    if isinstance(value, list):
        return "".join(map(text_in, value))
    if not isinstance(value, dict) or value.get("type") in ("response.completed", "response.output_text.done"):
        return ""
    if value.get("type") in ("response.output_item.done", "response.content_part.done"):
        return ""
    own = next((value[name] for name in ("text", "content") if type(value.get(name)) is str), "")
    if value.get("type") == "response.output_text.delta":
        own = value["delta"]
    return own + "".join(text_in(each) for each in value.values() if isinstance(each, dict | list))


@MODES
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_each_part_is_shown_or_named(client, name, stream, service, sim):
    """Alone, so that an answer that lost it would have nothing."""
    answer, recorder = ANSWERS[name], Recorder()
    each, is_own = FORMS[answer.service], SAME.get(answer.service) == client
    app = create_app(settings_for(service.url, slices(service, each)), observers=[recorder])
    sim.answer_with(answering(each, written(answer)))
    exchange = await asking(client, each.model, stream).run(app)
    sim.answer_with(None)
    await app.aclose()
    objects = list(objects_in(exchange))

    if is_own:
        assert exchange.status == 200
        assert [part for part in answer.parts if not has(objects, part)] == []
        assert text_in(objects).strip() == ""
        assert not [notice for notice in recorder.end.notices if notice in answer.notices]
    elif answer.shown:
        assert exchange.status == 200
        assert text_in(objects) == answer.shown
        assert {*answer.notices} == {notice for notice in recorder.end.notices if ".unknown" in notice}
    else:
        assert exchange.status in FAILED
        assert answer.notices[0].partition(":")[2] in exchange.content.decode().replace(" ", "_")


@MODES
@pytest.mark.parametrize("name", [name for name, answer in ANSWERS.items() if not answer.shown])
async def test_what_is_not_shown_is_named_beside_a_text(name, stream, service, sim):
    """The answer is one all the same, and whoever looks at it sees what is missing."""
    answer, recorder = ANSWERS[name], Recorder()
    text = {
        "gemini": {"text": "Hi"},
        "messages": {"type": "text", "text": "Hi"},
        "chat": {"content": "Hi"},
        "responses": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
    }
    each = FORMS[answer.service]
    client = "anthropic" if answer.service != "messages" else "openai_chat"
    app = create_app(settings_for(service.url, slices(service, each)), observers=[recorder])
    data = written(Answer(answer.service, (*answer.parts, *filter(None, [text.get(answer.service)]))))
    if answer.service == "converse":
        place = {"contentBlockIndex": 9}
        hi = frames(("contentBlockDelta", {**place, "delta": {"text": "Hi"}}), ("contentBlockStop", place))
        data = hi + data
    sim.answer_with(answering(each, data))
    exchange = await asking(client, each.model, stream).run(app)
    sim.answer_with(None)
    await app.aclose()

    assert exchange.status == 200
    assert b"Hi" in exchange.content
    assert [notice for notice in answer.notices if not recorder.end.notices[notice]] == []


@pytest.mark.parametrize("client", CLIENTS)
async def test_code_that_a_whole_answer_of_converse_ran(client, service, sim):
    """A document has the result in another form than a stream."""
    answer, each = ANSWERS["converse-code"], FORMS["converse.whole"]
    app = create_app(settings_for(service.url, slices(service, each)))
    message = {"role": "assistant", "content": [*answer.parts, {"text": "So 2."}]}
    sim.answer_with(answering(each, body({"output": {"message": message}, "stopReason": "end_turn"})))
    exchange = await asking(client, each.model, False).run(app)
    sim.answer_with(None)
    await app.aclose()

    assert text_in(list(objects_in(exchange))).endswith(OUTPUT + "So 2.")


OWN = [name for name, answer in ANSWERS.items() if answer.service in SAME]
BACK = {
    "gemini": lambda found: {"contents": [*ASKED_OF_GEMINI, found["candidates"][0]["content"], *ASKED_OF_GEMINI]},
    "anthropic": lambda found: {"messages": [*ASKED, {"role": "assistant", "content": found["content"]}, *ASKED]},
    "openai_chat": lambda found: {"messages": [*ASKED, found["choices"][0]["message"], *ASKED]},
    "openai_responses": lambda found: {"input": [*ASKED, *found["output"], *ASKED]},
}
"""A client's API to the members of a request that goes on with an answer."""

AS_CALLS = {
    "messages-code": "stdout",
    "messages-bash": "no x",
    "messages-fetch": "web_fetch_result",
    "messages-mcp": "mcptoolu_1",
    "responses-shell": "no x",
    "responses-patch": "apply_patch",
    "responses-local": "local_shell",
}
"""Those that are read as calls and their results, as any service takes them; something of each."""

ASKED_OF_GEMINI = CLIENTS["gemini"][1]["contents"]


@pytest.mark.parametrize("name", OWN)
async def test_an_answer_with_it_can_be_sent_back(name, gateway, service, sim):
    """The service gets its own parts as it gave them."""
    answer = ANSWERS[name]
    each, client = FORMS[answer.service], SAME[answer.service]
    app, asked = gateway(**slices(service, each)), list[Any]()

    def reply(recorded: Any) -> Any:
        if recorded.operation == each.operation:
            asked.append(json.loads(recorded.body))
        return answering(each, written(answer))(recorded)

    sim.answer_with(reply)
    first = (await asking(client, each.model, False).run(app)).json()
    exchange = asking(client, each.model, False)
    document = json.loads(exchange.body[0])
    exchange.body[:] = [json.dumps({**document, **BACK[client](first)}).encode()]
    exchange.scope["headers"] = [it for it in exchange.scope["headers"] if it[0] != b"content-length"]
    await exchange.run(app)
    sim.answer_with(None)

    assert exchange.status == 200, exchange.content
    if name in AS_CALLS:
        assert AS_CALLS[name] in json.dumps(asked[1])
    else:
        assert [part for part in answer.parts if not has(asked[1], part)] == []


@pytest.mark.parametrize("name", [name for name in OWN if ANSWERS[name].shown])
async def test_a_history_with_it_goes_on_elsewhere(name, gateway, service, sim):
    """Another service takes it, with whatever it can be given of that."""
    answer = ANSWERS[name]
    each, client = FORMS[answer.service], SAME[answer.service]
    other = FORMS["messages" if client != "anthropic" else "chat"]
    sim.answer_with(answering(each, written(answer)))
    first = (await asking(client, each.model, False).run(gateway(**slices(service, each)))).json()
    sim.answer_with(None)
    exchange = asking(client, other.model, False)
    document = json.loads(exchange.body[0])
    exchange.body[:] = [json.dumps({**document, **BACK[client](first)}).encode()]
    exchange.scope["headers"] = [it for it in exchange.scope["headers"] if it[0] != b"content-length"]
    await exchange.run(gateway(**slices(service, other)))

    assert exchange.status == 200, exchange.content
