"""OpenAI's Agents SDK: its class for each of OpenAI's APIs."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    responses_websocket_session,
    set_tracing_disabled,
)
from asking import CALL, DESCRIBE, GIVEN, OPENAI_BASE, PARALLEL, City, get_weather, report
from openai import AsyncOpenAI
from openai.types.shared import Reasoning

CLIENT = AsyncOpenAI(base_url=OPENAI_BASE, api_key=GIVEN["key"])
MODELS = {
    "chat": lambda name: OpenAIChatCompletionsModel(name, CLIENT),
    "responses": lambda name: OpenAIResponsesModel(name, CLIENT),
}
TOOLS = [function_tool(get_weather)]


def seen(run: Any) -> list[Any]:
    """What the tools returned, and the last text."""
    return [[item.output for item in run.new_items if item.type == "tool_call_output_item"], run.final_output]


async def streamed(agent: Any, question: str) -> Any:
    run = Runner.run_streamed(agent, question)
    kinds = [event.data.type async for event in run.stream_events() if event.type == "raw_response_event"]
    assert kinds.count("response.output_text.delta") > 4, kinds
    return seen(run)


async def collected(agent: Any, question: str) -> Any:
    return seen(await Runner.run(agent, question))


WAYS = {"streamed": streamed, "collected": collected}


async def structured(agent: Any, way: str) -> Any:
    if way == "collected":
        return (await Runner.run(agent, DESCRIBE)).final_output.model_dump()
    run = Runner.run_streamed(agent, DESCRIBE)
    async for _ in run.stream_events():
        pass
    return run.final_output.model_dump()


async def handoff(model: Any, way: str) -> Any:
    """The second agent answers, and says who it is."""
    other = Agent("Greeter", model=model)
    first = Agent("Porter", model=model, handoffs=[other])
    question = "sim:tool=transfer_to_greeter {}"
    if way == "collected":
        run = await Runner.run(first, question)
    else:
        run = Runner.run_streamed(first, question)
        async for _ in run.stream_events():
            pass
    return [run.last_agent.name, run.final_output]


async def thinking(agent: Any) -> Any:
    """Thinking before a call is handed back with its result."""
    run = await Runner.run(agent, "sim:thinking-tool=get_weather")
    item = next(item.raw_item for item in run.new_items if item.type == "reasoning_item")
    return [*seen(run), "".join(part.text for part in (item.summary or item.content))]


async def over_websocket(name: str) -> Any:
    """A tool loop, and a run that goes on with its last response, over one connection."""
    model_ids: Any = {"openai_prefix_mode": "model_id", "unknown_prefix_mode": "model_id"}
    async with responses_websocket_session(api_key=GIVEN["key"], base_url=OPENAI_BASE, **model_ids) as session:
        agent = Agent("Assistant", model=name, tools=TOOLS)
        first = await session.run(agent, CALL)
        second = session.run_streamed(agent, "sim:text", previous_response_id=first.last_response_id)
        async for _ in second.stream_events():
            pass
    return [seen(first), seen(second)]


async def in_conversation(name: str) -> Any:
    """Two runs in a conversation that the gateway keeps, what is in it, and that it can be cleared."""
    session = OpenAIConversationsSession(openai_client=CLIENT)
    agent = Agent("Assistant", model=MODELS["responses"](name), tools=TOOLS)
    runs = [seen(await Runner.run(agent, question, session=session)) for question in (CALL, "sim:text")]
    kinds = [item.get("type", "message") for item in await session.get_items()]
    await session.clear_session()
    return [runs, kinds]


async def ask(name: str) -> None:
    for api, make in MODELS.items():
        model = make(name)
        agent = Agent("Assistant", model=model, tools=TOOLS)
        settings = ModelSettings(reasoning=Reasoning(effort="low", summary="auto"))
        for way, run in WAYS.items():
            await report(f"{name} {api} {way} text", run(Agent("Assistant", model=model), "sim:text"))
            await report(f"{name} {api} {way} tool", run(agent, CALL))
            await report(f"{name} {api} {way} parallel", run(agent, PARALLEL))
            formed = Agent("Assistant", model=model, output_type=City)
            await report(f"{name} {api} structured {way}", structured(formed, way))
            await report(f"{name} {api} handoff {way}", handoff(model, way))
        thoughtful = Agent("Assistant", model=model, tools=TOOLS, model_settings=settings)
        await report(f"{name} {api} thinking", thinking(thoughtful))
    await report(f"{name} responses websocket", over_websocket(name))
    await report(f"{name} responses conversation", in_conversation(name))


async def fail(name: str) -> None:
    """Meet failures with the tries that the library makes by itself."""
    for api, make in MODELS.items():
        agent = Agent("Assistant", model=make(name))
        for failure in GIVEN["failures"]:
            for way, run in WAYS.items():
                await report(f"{api} {way} {failure}", run(agent, f"sim:{failure} {api} {way} openai_agents"))


async def main() -> None:
    set_tracing_disabled(True)
    for name in GIVEN["models"]:
        await ask(name)
    await fail(GIVEN["failing"])


asyncio.run(main())
