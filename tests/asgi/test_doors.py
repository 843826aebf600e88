"""What a program hands to the application besides settings: a store, tools, an estimator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from kiro_asgi import App, ConfigError, Store, ToolOutput, create_app
from kiro_asgi.simulator import Simulator
from tests.asgi.driver import post
from tests.examples import example

pytestmark = pytest.mark.anyio


def written(sim: Simulator, **slices: Any) -> dict[str, Any]:
    """Settings as a program writes them."""
    return {"client": {"api_keys": ["k", "other"]}, "kiro": {"endpoint": sim.url, "api_key": "ksk_test"}, **slices}


@asynccontextmanager
async def client(app: App, key: str = "k") -> AsyncIterator[openai.AsyncOpenAI]:
    """The official client, in front of *app* itself."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
        yield openai.AsyncOpenAI(base_url="http://gateway/v1", api_key=key, http_client=http, max_retries=0)
    await app.aclose()


async def test_a_store_from_outside_is_where_responses_are_kept(sim: Simulator, tmp_path: Path) -> None:
    """``previous_response_id`` finds them, also in another application with the same folder; other clients do not."""
    folder = tmp_path / "state"

    def app() -> App:
        store: Store = example("folder_store").FolderStore(folder)
        return create_app(written(sim), store=store)

    async with client(app()) as chat:
        first = await chat.responses.create(model="claude-sonnet-4.5", input="sim:echo My name is Ann.")
    assert [oct(file.stat().st_mode)[-3:] for file in folder.iterdir()] == ["600"]
    async with client(app()) as chat:
        second = await chat.responses.create(
            model="claude-sonnet-4.5", input="sim:echo And now?", previous_response_id=first.id, stream=True
        )
        *_, last = [event async for event in second]
        assert last.type == "response.completed"
        assert last.response.previous_response_id == first.id
        assert (await chat.responses.retrieve(first.id)).output_text == first.output_text
    (asked,) = (request.body for request in sim.requests if b"And now?" in request.body)
    assert b"My name is Ann." in asked
    async with client(app(), "other") as chat:
        with pytest.raises(openai.NotFoundError):
            await chat.responses.retrieve(first.id)
    async with client(app()) as chat:
        await chat.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            await chat.responses.retrieve(first.id)


async def test_a_store_that_cannot_be_reached_is_503(
    sim: Simulator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is not kept is no failure of the answer; what cannot be found is one."""
    folder = tmp_path / "state"
    store: Store = example("folder_store").FolderStore(folder)
    async with client(create_app(written(sim), store=store)) as chat:
        folder.rmdir()
        folder.write_text("a file in its place")
        response = await chat.responses.create(model="claude-sonnet-4.5", input="Hi")
        assert response.output_text
        with pytest.raises(openai.InternalServerError) as caught:
            await chat.responses.retrieve(response.id)

    assert caught.value.status_code == 503
    assert "NotADirectoryError" not in caught.value.message, "which is the operator's, as the log is"
    assert "FolderStore: NotADirectoryError: Not a directory" in caplog.text


class Ten:
    """An estimator that knows ten tokens."""

    def estimate_tokens(self, text: str, /) -> float:
        return 10.0 if text else 0.0

    def count(self, text: str, /) -> int:
        return 10


class Measure:
    """A tool of the gateway."""

    kind = "measure"
    names = ("measure",)

    async def call(self, arguments: Mapping[str, Any], options: Mapping[str, Any], /) -> ToolOutput:
        return ToolOutput(text=f"{arguments['where']}: 3 m")


async def test_an_estimator_and_tools_are_handed_over(sim: Simulator) -> None:
    """By `create_app` as by `App`."""
    app = create_app(written(sim), estimator=Ten(), server_tools=[Measure()])
    question = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "Hello " * 1_000}]}
    counted = await post("/v1/messages/count_tokens", question).run(app)
    tool = {"name": "measure", "input_schema": {"type": "object", "properties": {"where": {"type": "string"}}}}
    asked = {"messages": [{"role": "user", "content": 'sim:tool=measure {"where": "bridge"}'}], "tools": [tool]}
    answered = await post("/v1/messages", {**question, **asked, "max_tokens": 99}).run(app)
    await app.aclose()

    assert counted.json()["input_tokens"] < 100
    assert "bridge: 3 m" in answered.content.decode()


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ({"kind": ""}, "kind must be a word"),
        ({"kind": None}, "kind must be a word"),
        ({"kind": 5}, "kind must be a word"),
        ({"names": None}, "names must be a collection of names"),
        ({"names": "measure"}, "names must be a collection of names"),
        ({"names": (5,)}, "names must be a collection of names"),
        ({"call": None}, "there must be a method: async def call("),
    ],
)
def test_a_tool_that_cannot_be_run_is_refused(sim: Simulator, lacking: Any, words: str) -> None:
    """When the app is made, by its place: a call of it would go to the client, or end the answer."""
    broken = type("Broken", (Measure,), lacking)()
    with pytest.raises(ConfigError) as caught:
        create_app(written(sim), server_tools=[Measure(), broken])

    assert caught.value.message.startswith(f"server_tools[1], Broken: {words}")


def test_a_tool_without_a_kind_is_refused(sim: Simulator) -> None:
    """As one with an empty one."""
    with pytest.raises(ConfigError, match=r"server_tools\[0\], object: kind must be a word"):
        create_app(written(sim), server_tools=[object()])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"settings": {"client": {"api_kyes": ["k"]}}},
            "client.api_kyes: no such setting; did you mean client.api_keys?",
        ),
        (
            {"settings": {}, "upstreams": ["river"]},
            "upstreams[0], str: must be a kiro_asgi.Manifest",
        ),
    ],
)
def test_wrong_arguments_are_configuration_errors(arguments: dict[str, Any], words: str) -> None:
    """With the path, and what was probably meant."""
    with pytest.raises(ConfigError) as caught:
        create_app(**arguments)

    assert words in caught.value.message
