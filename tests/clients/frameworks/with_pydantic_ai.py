"""Pydantic AI: its class for each API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Any

from asking import CALL, DESCRIBE, GIVEN, OPENAI_BASE, PARALLEL, City, get_weather, report
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.messages import PartDeltaEvent, TextPartDelta, ThinkingPart, ToolReturnPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

OPENAI = OpenAIProvider(base_url=OPENAI_BASE, api_key=GIVEN["key"])
ANTHROPIC = AnthropicProvider(base_url=GIVEN["base"], api_key=GIVEN["key"])
KNOWN = {"supports_json_schema_output": True}
"""What it does not know of models that it does not know by name."""

MODELS = {
    "chat": lambda name: OpenAIChatModel(name, provider=OPENAI),
    "responses": lambda name: OpenAIResponsesModel(name, provider=OPENAI),
    "messages": lambda name: AnthropicModel(name, provider=ANTHROPIC, profile=KNOWN),
}
THINKING = {"thinking": "low", "openai_reasoning_summary": "auto"}
OUTPUTS = {"tool": ToolOutput, "native": NativeOutput, "prompted": PromptedOutput}


def seen(run: Any, text: str) -> list[Any]:
    """What the tools returned, and the last text."""
    parts = [part for message in run.all_messages() for part in message.parts]
    return [[part.content for part in parts if isinstance(part, ToolReturnPart)], text]


async def streamed(agent: Any, question: str) -> Any:
    """The same; the text of its answers has to come in pieces."""
    pieces: list[str] = []

    async def note(_: Any, events: AsyncIterable[Any]) -> None:
        pieces.extend([event.delta.content_delta async for event in events if _is_text(event)])

    run = await agent.run(question, event_stream_handler=note)
    assert len(pieces) > 4, pieces
    return seen(run, run.output)


def _is_text(event: Any) -> bool:
    return isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta)


async def collected(agent: Any, question: str) -> Any:
    run = await agent.run(question)
    return seen(run, run.output)


WAYS = {"streamed": streamed, "collected": collected}


async def thinking(agent: Any) -> Any:
    """Thinking before a call is handed back with its result."""
    run = await agent.run("sim:thinking-tool=get_weather")
    parts = [part for message in run.all_messages() for part in message.parts]
    return [*seen(run, run.output), next(part.content for part in parts if isinstance(part, ThinkingPart))]


async def structured(model: Any, output: Any) -> Any:
    return (await Agent(model, output_type=output(City)).run(DESCRIBE)).output.model_dump()


async def structured_stream(model: Any) -> Any:
    async with Agent(model, output_type=NativeOutput(City)).run_stream(DESCRIBE) as run:
        return (await run.get_output()).model_dump()


async def structured_agent(model: Any) -> Any:
    """A call of a tool, and then the form."""
    run = await Agent(model, tools=[get_weather], output_type=City).run(CALL)
    return [*seen(run, "")[0], run.output.model_dump()]


async def ask(name: str) -> None:
    for api, make in MODELS.items():
        model = make(name)
        agent = Agent(model, tools=[get_weather])
        for way, run in WAYS.items():
            await report(f"{name} {api} {way} text", run(Agent(model), "sim:text"))
            await report(f"{name} {api} {way} tool", run(agent, CALL))
            await report(f"{name} {api} {way} parallel", run(agent, PARALLEL))
        for kind, output in OUTPUTS.items():
            await report(f"{name} {api} structured {kind}", structured(model, output))
        await report(f"{name} {api} structured stream", structured_stream(model))
        await report(f"{name} {api} structured agent", structured_agent(model))
        thoughtful = Agent(model, tools=[get_weather], model_settings=THINKING)
        await report(f"{name} {api} thinking", thinking(thoughtful))


async def fail(name: str) -> None:
    """Meet failures with the tries that the library makes by itself."""
    for api, make in MODELS.items():
        for failure in GIVEN["failures"]:
            for way, run in WAYS.items():
                question = f"sim:{failure} {api} {way} pydantic_ai"
                await report(f"{api} {way} {failure}", run(Agent(make(name)), question))


async def main() -> None:
    for name in GIVEN["models"]:
        await ask(name)
    await fail(GIVEN["failing"])


asyncio.run(main())
