"""LangChain: its class for each API, alone and in agents."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from asking import CALL, DESCRIBE, GIVEN, OPENAI_BASE, PARALLEL, City, get_weather, report
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

OPENAI = {"base_url": OPENAI_BASE, "api_key": GIVEN["key"]}
ANTHROPIC = {"base_url": GIVEN["base"], "api_key": GIVEN["key"], "max_tokens": 4000}
MODELS = {
    "chat": lambda name: ChatOpenAI(model=name, **OPENAI),
    "responses": lambda name: ChatOpenAI(model=name, use_responses_api=True, **OPENAI),
    "messages": lambda name: ChatAnthropic(model=name, **ANTHROPIC),
}
THINKING = {
    "responses": lambda name: ChatOpenAI(
        model=name, use_responses_api=True, reasoning={"effort": "low", "summary": "auto"}, **OPENAI
    ),
    "messages": lambda name: ChatAnthropic(
        model=name, thinking={"type": "enabled", "budget_tokens": 2000}, **ANTHROPIC
    ),
}
METHODS = {
    "chat": ("function_calling", "json_schema", "json_mode"),
    "responses": ("function_calling", "json_schema", "json_mode"),
    "messages": ("function_calling", "json_schema"),
}


async def streamed(agent: Any, question: str) -> Any:
    """The agent's messages; their text has to come in pieces."""
    pieces, state = 0, None
    async for mode, part in agent.astream({"messages": question}, stream_mode=["messages", "values"]):
        if mode == "values":
            state = part
        else:
            pieces += bool(part[0].text)
    assert pieces > 4, pieces
    return seen(state)


async def collected(agent: Any, question: str) -> Any:
    return seen(await agent.ainvoke({"messages": question}))


WAYS = {"streamed": streamed, "collected": collected}


def seen(state: Any) -> list[Any]:
    """What the tools returned, and the last text."""
    messages = state["messages"]
    return [[each.text for each in messages if each.type == "tool"], messages[-1].text]


def thoughts(state: Any) -> list[str]:
    """Thinking of every message."""
    blocks = [block for each in state["messages"] if each.type == "ai" for block in each.content_blocks]
    return [block.get("reasoning", "") for block in blocks if block["type"] == "reasoning"]


async def thinking(agent: Any) -> Any:
    """Thinking before a call is handed back with its result."""
    state = await agent.ainvoke({"messages": "sim:thinking-tool=get_weather"})
    return [*seen(state), thoughts(state)[0]]


async def structured(model: Any, method: str) -> Any:
    schema = json.dumps(City.model_json_schema())
    question = f"{DESCRIBE} Answer in JSON by this schema: {schema}" if method == "json_mode" else DESCRIBE
    return (await model.with_structured_output(City, method=method).ainvoke(question)).model_dump()


async def structured_stream(model: Any, method: str) -> Any:
    return [it async for it in model.with_structured_output(City, method=method).astream(DESCRIBE)][-1].model_dump()


async def structured_agent(model: Any, strategy: Any) -> Any:
    agent = create_agent(model, tools=[get_weather], response_format=strategy(City))
    return (await agent.ainvoke({"messages": DESCRIBE}))["structured_response"].model_dump()


async def ask(name: str) -> None:
    for api, make in MODELS.items():
        model = make(name)
        agent = create_agent(model, tools=[get_weather])
        for way, run in WAYS.items():
            await report(f"{name} {api} {way} text", run(create_agent(model), "sim:text"))
            await report(f"{name} {api} {way} tool", run(agent, CALL))
            await report(f"{name} {api} {way} parallel", run(agent, PARALLEL))
        for method in METHODS[api]:
            await report(f"{name} {api} structured {method}", structured(model, method))
        await report(f"{name} {api} structured stream", structured_stream(model, "json_schema"))
        for strategy in (ToolStrategy, ProviderStrategy):
            await report(f"{name} {api} structured {strategy.__name__}", structured_agent(model, strategy))
        if api in THINKING:
            thoughtful = create_agent(THINKING[api](name), tools=[get_weather])
            await report(f"{name} {api} thinking", thinking(thoughtful))


async def fail(name: str) -> None:
    """Meet failures with the tries that the library makes by itself."""
    for api, make in MODELS.items():
        agent = create_agent(make(name))
        for failure in GIVEN["failures"]:
            for way, run in WAYS.items():
                await report(f"{api} {way} {failure}", run(agent, f"sim:{failure} {api} {way} langchain"))


async def main() -> None:
    for name in GIVEN["models"]:
        await ask(name)
    await fail(GIVEN["failing"])


asyncio.run(main())
