"""What users write, checked by mypy in strict mode and never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, assert_type

import asgiref.typing
from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable
from attrs import evolve

import kiro_asgi
from kiro_asgi import App, ServerTool, Settings, ToolOutput, create_app, mount, simulator
from kiro_asgi.config import KiroSettings, SettingRow, describe
from kiro_asgi.errors import KiroAsgiError, UpstreamError
from kiro_asgi.model.events import Delta, TextDelta
from kiro_asgi.stages.base import Pipeline, Stage
from kiro_asgi.streaming import (
    Frame,
    FrameDecoder,
    SseDecoder,
    collect_openai_response,
    parse_kiro_stream,
    stream_kiro_to_anthropic,
    stream_kiro_to_openai,
)


def settings_come_from_anywhere(environ: Mapping[str, str], file: Path) -> Settings:
    assert_type(Settings.from_env(environ), Settings)
    assert_type(Settings.from_toml(file), Settings)
    settings = Settings.from_mapping({"kiro": {"region": "us-east-1"}})
    assert_type(settings.kiro.first_token_timeout, float)
    assert_type(settings.client.api_keys, tuple[str, ...])
    assert_type(describe(settings), tuple[SettingRow, ...])
    return evolve(settings, kiro=KiroSettings(region="eu-central-1"))


async def host(scope: MutableMapping[str, Any], receive: Callable[[], Awaitable[Any]], send: Any) -> None:
    pass


def the_gateway_is_mounted() -> None:
    gateway = create_app()
    assert_type(gateway, App)
    assert_type(create_app(Settings()), App)
    assert_type(create_app({"client": {"allow_anonymous": True}}), App)
    mounted = mount(host, "/llm", gateway)
    mount(mounted, "/again", create_app(Settings(), inner=mounted))


async def the_host_has_types_of_its_own(
    site: ASGI3Application, scope: asgiref.typing.Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
) -> None:
    """As Quart's and Litestar's."""
    gateway = create_app()
    mount(site, "/llm", gateway)
    create_app(Settings(), inner=site)
    await gateway(scope, receive, send)


async def the_gateway_is_closed(gateway: App) -> None:
    assert_type(await gateway.aclose(), None)


def errors_carry_facts(error: KiroAsgiError) -> float | None:
    assert_type(error.status, int)
    assert_type(error.retry_safe, bool)
    if isinstance(error, UpstreamError):
        return error.retry_after
    return None


class Shout:
    """A user's own stage."""

    def feed(self, items: Any, /) -> Any:
        return (TextDelta(item.text.upper()) if isinstance(item, TextDelta) else item for item in items)

    def flush(self) -> Any:
        return iter(())


def stages_are_joined(shout: Stage[Delta, Delta]) -> None:
    pipeline: Pipeline[Delta, Delta] = Pipeline(shout, Shout())
    assert_type([*pipeline.feed([TextDelta("a")]), *pipeline.flush()], list[Delta])


class Weather:
    """A user's own tool."""

    kind = "weather"
    names = ("get_weather",)

    async def call(self, arguments: Mapping[str, Any], options: Mapping[str, Any], /) -> ToolOutput:
        return ToolOutput(text=f"It is sunny in {arguments['city']}.")


def tools_are_registered(settings: Settings) -> None:
    tool: ServerTool = Weather()
    assert_type(create_app(settings, server_tools=[tool, Weather()]), App)


def frames_are_cut(data: bytes) -> None:
    for frame in FrameDecoder().feed([data]):
        assert_type(frame, Frame)
        assert_type(frame.payload, bytes)
    for event in SseDecoder().feed([data]):
        assert_type(event.data, str)


async def streams_are_translated(chunks: AsyncIterator[bytes]) -> None:
    async for piece in stream_kiro_to_openai(chunks, model="claude-sonnet-4.5"):
        assert_type(piece, bytes)
    async for piece in stream_kiro_to_anthropic(chunks, model="claude-sonnet-4.5"):
        assert_type(piece, bytes)
    async for delta in parse_kiro_stream(chunks):
        assert_type(delta, Delta)
    assert_type(await collect_openai_response(chunks, model="claude-sonnet-4.5"), dict[str, Any])


async def the_simulator_runs_in_a_thread_or_in_the_loop() -> None:
    with simulator.running() as here:
        assert_type(here.url, str)
    async with simulator.serve(port=0) as there:
        assert_type(there.url, str)


assert_type(kiro_asgi.__version__, str)
