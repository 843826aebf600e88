"""Tools that the gateway runs: the toolbox alone, and whole answers in front of a simulated service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import define, evolve, field

from kiro_asgi import App, create_app
from kiro_asgi.asgi.kept.server_tools import Toolbox
from kiro_asgi.errors import RequestError, UpstreamFault, UpstreamThrottled, UpstreamTimeout
from kiro_asgi.model.events import SearchHit, ServerCall, ToolOutput
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.simulator import Head, Stall, json_answer, plain_answer, refusal
from kiro_asgi.simulator.server import Simulator
from kiro_asgi.testing.grammar import messages as grammar
from tests.asgi.answers import DIALECTS, PINGS, text_of
from tests.asgi.conftest import Gateway, settings_for
from tests.asgi.driver import ask

pytestmark = pytest.mark.anyio

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
WEATHER = {"name": "get_weather", "description": "d", "input_schema": {"type": "object", "properties": {}}}
HOSTED: dict[str, dict[str, Any]] = {"anthropic": {"tools": [SEARCH]}, "openai": {"web_search_options": {}}}
"""How each dialect asks for the web search."""


@define
class Scripted:
    """A tool that does what a test says."""

    answer: Callable[[Mapping[str, Any]], ToolOutput]
    kind: str = "web_search"
    names: Sequence[str] = ()
    asked: list[Mapping[str, Any]] = field(init=False, factory=list)

    async def call(self, arguments: Mapping[str, Any], options: Mapping[str, Any], /) -> ToolOutput:
        self.asked.append(arguments)
        return self.answer(arguments)


def pages(*urls: str) -> ToolOutput:
    return ToolOutput(tuple(SearchHit("t", url) for url in urls))


def failing(error: Exception) -> Callable[[Mapping[str, Any]], ToolOutput]:
    def answer(_: Mapping[str, Any]) -> ToolOutput:
        raise error

    return answer


def prompt_with(**options: Any) -> Prompt:
    return Prompt("m", tools=(Tool("web_search", "Search.", hosted="web_search", options=options), Tool("f")))


def calls(count: int = 1) -> list[ServerCall]:
    return [ServerCall(f"s{number}", "web_search", "web_search", {"query": str(number)}) for number in range(count)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(lambda _: ToolOutput(text="sunny"), ToolOutput(text="sunny"), id="text"),
        pytest.param(
            failing(RequestError("no such thing")),
            ToolOutput(text="The tool web_search failed: no such thing", error_code="invalid_tool_input"),
            id="its-input",
        ),
        pytest.param(
            failing(UpstreamThrottled("slower")),
            ToolOutput(text="The tool web_search failed: slower", error_code="too_many_requests"),
            id="throttled",
        ),
        pytest.param(
            failing(UpstreamFault("oops")),
            ToolOutput(text="The tool web_search failed: oops", error_code="unavailable"),
            id="fault",
        ),
        pytest.param(
            failing(UpstreamTimeout("silent")),
            ToolOutput(text="The tool web_search took longer than 5 seconds.", error_code="unavailable"),
            id="time-out-of-its-own",
        ),
        pytest.param(
            failing(ZeroDivisionError("secret")),
            ToolOutput(text="The tool web_search failed.", error_code="unavailable"),
            id="bug",
        ),
        pytest.param(
            lambda _: "no output", ToolOutput(text="The tool web_search failed.", error_code="unavailable"), id="type"
        ),
    ],
)
async def test_every_call_has_a_result(answer: Any, expected: ToolOutput) -> None:
    """5.49: what a tool gives is passed on, and whatever goes wrong becomes an error result."""
    (result,) = await Toolbox((Scripted(answer),), 5.0).run(calls(), prompt_with())

    assert (result.call, result.output) == (calls()[0], expected)


async def test_a_slow_tool_is_given_up() -> None:
    """5.49: a call that takes too long is an error result, too."""

    class Slow(Scripted):
        async def call(self, arguments: Mapping[str, Any], options: Mapping[str, Any], /) -> ToolOutput:
            await anyio.sleep_forever()
            raise AssertionError

    (result,) = await Toolbox((Slow(lambda _: pages()),), 0.02).run(calls(), prompt_with())

    assert result.output == ToolOutput(
        text="The tool web_search took longer than 0.02 seconds.", error_code="unavailable"
    )


async def test_results_are_in_the_order_of_the_calls() -> None:
    """Calls run side by side, and those beyond the client's limit are not made."""
    tool = Scripted(lambda arguments: ToolOutput(text=arguments["query"]))
    results = await Toolbox((tool,)).run(calls(4), prompt_with(max_uses=3))

    assert [(result.call.call_id, result.output.told) for result in results] == [
        ("s0", "0"),
        ("s1", "1"),
        ("s2", "2"),
        ("s3", "The tool web_search may be used 3 times."),
    ]
    assert results[-1].output.error_code == "max_uses_exceeded"
    assert len(tool.asked) == 3

    results = await Toolbox((tool,)).run(calls(3), evolve(prompt_with(max_uses=3), max_tool_calls=2))

    assert results[-1].output.told == "Tools may be used 2 times in one answer."
    assert len(tool.asked) == 3 + 2


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        pytest.param({}, 5, id="none"),
        pytest.param({"allowed_domains": ("example.org",)}, [0, 1, 2], id="allowed-and-below"),
        pytest.param({"allowed_domains": ("EXAMPLE.org/blog/",)}, [1], id="allowed-path"),
        pytest.param({"allowed_domains": ("www.example.org", "other.net")}, [2, 4], id="allowed-two"),
        pytest.param({"blocked_domains": ("example.org",)}, [3, 4], id="blocked"),
        pytest.param({"blocked_domains": ("example.org/blog",)}, [0, 2, 3, 4], id="blocked-path"),
    ],
)
async def test_domains(options: dict[str, Any], kept: Any) -> None:
    """Pages come from where the client wants them from, whoever found them."""
    urls = (
        "https://example.org/",
        "http://example.org:80/blog/x?q=other.net",
        "https://u:p@www.example.org#blog",
        "https://badexample.org/example.org/blog",
        "https://other.net",
    )
    (result,) = await Toolbox((Scripted(lambda _: pages(*urls)),)).run(calls(), prompt_with(**options))
    expected = urls[:kept] if isinstance(kept, int) else tuple(urls[place] for place in kept)

    assert tuple(hit.url for hit in result.output.hits) == expected


async def test_which_tools_are_ours() -> None:
    """Hosted ones always, a client's own where a tool asks for its name; the first of a name counts."""
    tools = (
        Tool("web_search"),
        Tool("run", hosted="code_execution"),
        Tool("webSearch"),
        Tool("web_search", hosted="x"),
    )
    prompt = Prompt("m", tools=tools)

    assert Toolbox().kinds(prompt) == {"run": "code_execution"}
    assert Toolbox((Scripted(lambda _: pages(), "mine", ["webSearch"]),)).kinds(prompt) == {
        "run": "code_execution",
        "webSearch": "mine",
    }


ABSENT = (Tool("web_search", hosted="web_search", place="tools[0]"), Tool("x", hosted="mcp", place="tools[2]"))


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        pytest.param(ToolChoice(), ["f"], id="auto"),
        pytest.param(ToolChoice(ToolChoiceMode.REQUIRED), ["f"], id="another-one"),
        pytest.param(ToolChoice(ToolChoiceMode.NAMED, "f"), ["f"], id="named"),
        pytest.param(ToolChoice(ToolChoiceMode.NONE), ["f"], id="none"),
    ],
)
async def test_a_hosted_tool_that_nobody_runs_is_left_out(choice: ToolChoice, names: list[str]) -> None:
    """With a note of the first place; a tool that somebody runs is offered as it is."""
    asked = Prompt("m", tools=(*ABSENT, Tool("f")), tool_choice=choice)
    offered, notes = Toolbox().offered(asked)
    elsewhere = Toolbox((), 60.0, {"web_search", "mcp"})

    assert [tool.name for tool in offered.tools] == names
    assert notes == (Note("tools.hosted_dropped", 2, "tools[0]"),)
    assert elsewhere.offered(asked) == (asked, ())
    assert Toolbox((Scripted(lambda _: pages()),)).offered(prompt_with()) == (prompt_with(), ())


@pytest.mark.parametrize(
    ("choice", "tools", "named"),
    [
        pytest.param(ToolChoice(ToolChoiceMode.NAMED, "x"), (*ABSENT, Tool("f")), "mcp (tools[2])", id="named"),
        pytest.param(
            ToolChoice(ToolChoiceMode.REQUIRED), ABSENT, "web_search (tools[0]), mcp (tools[2])", id="nothing-else"
        ),
        pytest.param(ToolChoice(ToolChoiceMode.REQUIRED), ABSENT * 100, "web_search (tools[0]), mcp", id="very-many"),
    ],
)
async def test_a_hosted_tool_that_nobody_runs_cannot_be_demanded(
    choice: ToolChoice, tools: tuple[Tool, ...], named: str
) -> None:
    """The error names it and its place, and is short however many there are."""
    with pytest.raises(RequestError) as caught:
        Toolbox().offered(Prompt("m", tools=tools, tool_choice=choice))

    assert named in caught.value.message
    assert len(caught.value.message) < 400
    assert caught.value.param == ("tools[2]" if choice.name else "tools[0]")


# Whole answers.


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_web_search(dialect: str, stream: bool, sim: Simulator, gateway: Gateway) -> None:
    """F214, F215: the model's call is run by the service's own search, and the client reads what was found."""
    exchange = await ask(dialect, "sim:tool=web_search fjords", stream=stream, **HOSTED[dialect]).run(gateway())

    assert text_of(dialect, exchange).endswith(
        "About sim:tool=web_search fjords (2025-06-15)\nhttps://example.org/simulated\n"
        "A simulated page about sim:tool=web_search fjords."
    )
    assert [request.operation for request in sim.requests][-2:] == ["GenerateAssistantResponse", "InvokeMCP"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_stream_of_a_whole_answer(dialect: str, sim: Simulator, gateway: Gateway) -> None:
    """F391: an answer that is played when it is complete holds what was found, too."""
    app = gateway(stream={"synthetic": True})
    exchange = await ask(dialect, "sim:tool=web_search", stream=True, **HOSTED[dialect]).run(app)

    assert "https://example.org/simulated" in text_of(dialect, exchange)


@pytest.mark.parametrize("emission", ["complete", "end", "incremental"])
async def test_only_the_clients_calls_count(emission: str, sim: Simulator, gateway: Gateway) -> None:
    """F216: a call of the client's own beside a search still ends the message as one."""
    app = gateway(stream={"tool_emission": emission})
    both = {"tools": [SEARCH, WEATHER]}
    alone = grammar.check((await ask("anthropic", "sim:tool=web_search", stream=True, **both).run(app)).content)
    beside = grammar.check((await ask("anthropic", "sim:parallel", stream=True, **both).run(app)).content)

    assert (alone["stop_reason"], beside["stop_reason"]) == ("end_turn", "tool_use")
    assert [block["type"] for block in beside["content"] if block["type"] != "text"] == [
        "server_tool_use",
        "tool_use",
        "web_search_tool_result",
    ]


MCP = "InvokeMCP"
EMPTY = {"result": {"content": [{"type": "text", "text": '{"results": []}'}]}}


@pytest.mark.parametrize(
    ("script", "slices", "code", "words"),
    [
        pytest.param(refusal(500, "Oops."), {}, "unavailable", "Oops.", id="http-500"),
        pytest.param(refusal(429, "Slow down."), {}, "too_many_requests", "Slow down.", id="http-429"),
        pytest.param(json_answer(200, {"result": {}}), {}, "unavailable", "unreadable", id="malformed"),
        pytest.param(plain_answer(200, b"<html>", "text/html"), {}, "unavailable", "unreadable", id="web-page"),
        pytest.param(
            (Head(), Stall()), {"server_tool_timeout": 0.1}, "unavailable", "took longer than 0.1 seconds", id="silence"
        ),
    ],
)
async def test_a_failed_search(
    script: Any, slices: dict[str, Any], code: str, words: str, sim: Simulator, gateway: Gateway
) -> None:
    """5.49: the answer stays whole, the result is an error, and its text says why."""
    sim.enqueue(script, operation=MCP)
    exchange = await ask("anthropic", "sim:tool=web_search", stream=True, tools=[SEARCH]).run(gateway(kiro=slices))
    *_, result, text = grammar.check(exchange.content)["content"]

    assert result["content"] == {"type": "web_search_tool_result_error", "error_code": code}
    assert words in text["text"]


async def test_nothing_found_is_said(sim: Simulator, gateway: Gateway) -> None:
    """A search without a hit is a success."""
    sim.enqueue(json_answer(200, EMPTY), operation=MCP)
    exchange = await ask("anthropic", "sim:tool=web_search", stream=False, tools=[SEARCH]).run(gateway())
    *_, result, text = exchange.json()["content"]

    assert (result["content"], text["text"]) == ([], "Nothing was found.")


@pytest.mark.parametrize("tools", [[SEARCH, WEATHER], [WEATHER], []], ids=["both", "no-search-now", "none-now"])
@pytest.mark.parametrize("asked", ["sim:tool=web_search", "sim:parallel=3"], ids=["search-alone", "calls-beside"])
async def test_the_conversation_goes_on(
    asked: str, tools: list[dict[str, Any]], sim: Simulator, gateway: Gateway
) -> None:
    """What came of a search goes back with the history, in a form that the service accepts, and only once."""
    app = gateway()
    first = (await ask("anthropic", asked, stream=False, tools=[SEARCH, WEATHER]).run(app)).json()
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "sunny"}
        for block in first["content"]
        if block["type"] == "tool_use"
    ]
    messages = [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]},
    ]
    second = await ask("anthropic", "", stream=False, tools=tools, messages=messages).run(app)

    assert second.status == 200, second.content
    searches = sum(block["type"] == "server_tool_use" for block in first["content"])
    assert searches == sim.requests[-1].body.count(b"A simulated page about") > 0


@asynccontextmanager
async def app_with(sim: Simulator, *tools: Any, **slices: Any) -> AsyncIterator[App]:
    app = create_app(settings_for(sim.url, slices), server_tools=tools)
    yield app
    await app.aclose()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_tool_of_ones_own(dialect: str, stream: bool, sim: Simulator) -> None:
    """F214: a client's function is run here where a tool was registered for its name, and is no tool call then."""
    tool = Scripted(lambda arguments: ToolOutput(text=f"Sunny in {arguments['city']}."), "weather", ["get_weather"])
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    body = {"name": "get_weather", "description": "d"}
    offered = {
        "anthropic": {**body, "input_schema": schema},
        "openai": {"type": "function", "function": {**body, "parameters": schema}},
    }
    async with app_with(sim, tool) as app:
        exchange = await ask(dialect, "sim:tool=get_weather", stream=stream, tools=[offered[dialect]]).run(app)

    assert text_of(dialect, exchange).removeprefix("Let me check.").strip() == "Sunny in Oslo."
    assert b"tool_use" not in exchange.content
    assert b"tool_calls" not in exchange.content


@pytest.mark.parametrize(
    ("heartbeat", "sign"), [(0, b'"server_tool_use"'), (0.02, PINGS["anthropic"])], ids=["call", "heartbeat"]
)
async def test_the_client_sees_life_while_a_tool_runs(heartbeat: float, sign: bytes, sim: Simulator) -> None:
    """The call is shown before it is run, and heartbeats come until there is a result."""
    go_on = anyio.Event()

    class Waiting(Scripted):
        async def call(self, arguments: Mapping[str, Any], options: Mapping[str, Any], /) -> ToolOutput:
            await go_on.wait()
            return pages()

    async def seen(message: Any) -> None:
        if sign in message.get("body", b""):
            go_on.set()

    exchange = ask("anthropic", "sim:tool=web_search", stream=True, tools=[SEARCH])
    exchange.on_send = seen
    async with app_with(
        sim, Waiting(lambda _: pages()), stream={"heartbeat": heartbeat, "tool_emission": "end"}
    ) as app:
        with anyio.fail_after(5):
            await exchange.run(app)

    assert grammar.check(exchange.content)["stop_reason"] == "end_turn"


async def test_a_client_that_leaves_stops_the_tool(sim: Simulator) -> None:
    """Nobody searches for a client that is gone."""
    stopped = anyio.Event()

    class Leaving(Scripted):
        async def call(self, arguments: Mapping[str, Any], options: Mapping[str, Any], /) -> ToolOutput:
            exchange.leave.set()
            try:
                await anyio.sleep_forever()
            finally:
                stopped.set()
            raise AssertionError

    exchange = ask("anthropic", "sim:tool=web_search", stream=True, tools=[SEARCH])
    async with app_with(sim, Leaving(lambda _: pages())) as app:
        with anyio.fail_after(5):
            await exchange.run(app)

    assert stopped.is_set()
    assert not exchange.complete
