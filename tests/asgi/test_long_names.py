"""Names and words of a request have limits, which hold before anything is compared with them, in every API.

The members are found in the classes that read requests: a new one is either bounded, or content, and `CONTENT` says so.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import has

import kiro_asgi.dialects
from kiro_asgi.dialects.structure import LONGEST, Raw, Shape, is_worded, members_of
from kiro_asgi.limits import ID_CHARACTERS, KEY_CHARACTERS, MODEL_CHARACTERS, NAME_CHARACTERS
from kiro_asgi.patterns import Pattern
from kiro_asgi.quota.settings import hash_of
from tests.asgi.driver import Exchange, get, post

pytestmark = pytest.mark.anyio

CONTENT = frozenset(
    (
        *("arguments", "content", "context", "data", "description", "encrypted_content", "file_data", "input"),
        *("instructions", "output", "prompt", "refusal", "signature", "source", "stderr", "stdout", "suffix"),
        *("system", "system_instruction", "text", "thinking", "thought_signature"),
        *("title", "filename", "display_name"),  # of a file, handed on beside it
        *("file_uri", "file_url", "image_url", "url"),  # `FETCH_ADDRESS_CHARACTERS` where it is fetched; may hold data
        *("stop", "stop_sequences"),  # `STOP_CHARACTERS`, all together
        *("function_call", "tool_choice"),  # a word is compared with a few that there are; an object has its names
    )
)
"""Members that hold texts, and that are only handed on, or have a limit of their own."""


def shapes() -> Iterator[tuple[str, type]]:
    """Every class that reads an object of a request, with its place."""
    for module in pkgutil.walk_packages(kiro_asgi.dialects.__path__, "kiro_asgi.dialects."):
        made = importlib.import_module(module.name)
        for name, kind in vars(made).items():
            own = isinstance(kind, type) and kind.__module__ == module.name and has(kind) and kind is not Raw
            if own and (issubclass(kind, Shape) or name.endswith("Body")):
                yield f"{module.name}.{name}", kind


def worded() -> dict[str, str]:
    """Members of requests that hold texts, and where each is."""
    return {
        name: f"{place}.{name}" for place, kind in shapes() for name, it in members_of(kind).items() if is_worded(it)
    }


def test_each_text_of_a_request_is_bounded_or_content():
    """A text that is compared, hashed, joined, repeated or stored under has a limit before its first use."""
    found = worded()

    assert len(found) > 60
    assert {place for name, place in found.items() if name not in (*LONGEST, *CONTENT, "model")} == set()
    assert set(LONGEST) & CONTENT == set()
    assert (set(LONGEST) | CONTENT) - set(found) == set()


MODEL = "up/" + "s" * (MODEL_CHARACTERS - 2)
TURN = {"role": "user", "content": "sim:text"}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"model": MODEL, "messages": [TURN]}),
    "completions": ("/v1/completions", {"model": MODEL, "prompt": "sim:text"}),
    "messages": ("/v1/messages", {"model": MODEL, "messages": [TURN], "max_tokens": 9}),
    "tokens": ("/v1/messages/count_tokens", {"model": MODEL, "messages": [TURN]}),
    "responses": ("/v1/responses", {"model": MODEL, "input": "sim:text"}),
    "input-tokens": ("/v1/responses/input_tokens", {"model": MODEL, "input": "sim:text"}),
    "background": ("/v1/responses", {"model": MODEL, "input": "sim:text", "background": True}),
    "compact": ("/v1/responses/compact", {"model": MODEL, "input": "sim:text"}),
    "embeddings": ("/v1/embeddings", {"model": MODEL, "input": "sim:text"}),
    "gemini": (f"/v1beta/models/{MODEL}:generateContent", {"contents": [{"parts": [{"text": "sim:text"}]}]}),
}


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that a pattern was compared with."""
    seen: list[str] = []
    fits = Pattern.fits

    def watched(self: Pattern, name: str) -> bool:
        seen.append(name)
        return fits(self, name)

    monkeypatch.setattr(Pattern, "fits", watched)
    return seen


BOUND = {
    "keys": {"k": {"hash": hash_of(b"named"), "models": ["*s*", "kiro/*"]}},
    "prices": {"models": ["*s*=1/2"]},
    "routing": {"models": ["*s*o=kiro"]},
    "responses": {"background": 1},
}


def refused(reply: Exchange) -> None:
    text = reply.content.decode()
    assert reply.status == 404, text[:300]
    assert "longer than the name of any model" in text
    assert MODEL[:100] in text
    assert len(text) < 600
    assert "s" * 101 not in text


@pytest.mark.parametrize("api", ASKED)
@pytest.mark.parametrize("passing", [False, True], ids=["translated", "relayed"])
async def test_a_long_model_is_refused_before_it_is_matched(gateway, sim, matched, api, passing):
    """404 with the beginning of the name, whichever API and operation has it; no service is asked."""
    direct = {name: {"endpoint": sim.url, "api_key": "x"} for name in ("openai", "anthropic", "gemini")}
    app = gateway(**BOUND, **(direct if passing else {}))
    path, body = ASKED[api]

    refused(await post(path, body, key="named").run(app))
    assert not any(len(name) > MODEL_CHARACTERS for name in matched)
    assert sim.requests == ()


@pytest.mark.parametrize("path", ["/v1/models/", "/v1beta/models/"])
async def test_a_long_model_is_not_looked_up(gateway, sim, matched, path):
    """Of the path, too."""
    refused(await get(path + MODEL, key="named").run(gateway(**BOUND)))
    assert not any(len(name) > MODEL_CHARACTERS for name in matched)


async def test_a_model_as_long_as_may_be_is_asked(gateway, sim, matched):
    """The name reaches the operator's patterns, and the service."""
    path, body = ASKED["chat"]
    await post(path, {**body, "model": "s" * MODEL_CHARACTERS}, key="named").run(gateway(**BOUND))

    assert any(len(name) == MODEL_CHARACTERS for name in matched)


NAMED = "n" * (NAME_CHARACTERS + 1)
LONG_ID = "i" * (ID_CHARACTERS + 1)
CALL = {"role": "assistant", "tool_calls": [{"id": LONG_ID, "type": "function", "function": {"name": "f"}}]}
PLACES = [
    pytest.param("chat", {"tools": [{"type": "function", "function": {"name": NAMED}}]}, "tools[0].function.name"),
    pytest.param("chat", {"messages": [TURN, CALL]}, "messages[1].tool_calls[0].id"),
    pytest.param("chat", {"messages": [{"role": NAMED, "content": "x"}]}, "messages[0].role"),
    pytest.param("chat", {"reasoning_effort": NAMED}, "reasoning_effort"),
    pytest.param("chat", {"user": NAMED}, "user"),
    pytest.param("messages", {"metadata": {"user_id": f"{NAMED}!"}}, "metadata.user_id"),
    pytest.param("messages", {"tools": [{"name": NAMED, "input_schema": {}}]}, "tools[0].name"),
    pytest.param("responses", {"safety_identifier": NAMED}, "safety_identifier"),
    pytest.param("responses", {"include": ["x", NAMED]}, "include"),
    pytest.param("gemini", {"tools": [{"functionDeclarations": [{"name": NAMED}]}]},
                 "tools[0].function_declarations[0].name"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "more", "place"), PLACES)
async def test_a_long_name_is_refused_with_its_place(gateway, sim, api, more, place):
    """400, and the message repeats nothing of it."""
    path, body = ASKED[api]
    body = {**body, **more, **({"model": "claude-sonnet-4.5"} if "model" in body else {})}
    reply = await post(path.replace(MODEL, "claude-sonnet-4.5"), body).run(gateway())
    text = reply.content.decode()

    assert reply.status == 400, text[:300]
    assert place in text
    assert "longer than" in text
    assert len(text) < 600


async def test_a_long_key_is_nobodys(gateway, sim):
    """It is not hashed, nor is the host asked."""
    key = "k" * (KEY_CHARACTERS + 1)
    app = gateway(client={"api_keys": ["k" * KEY_CHARACTERS, key]})
    path, body = ASKED["chat"]

    assert (await post(path, body, key=key).run(app)).status == 401
    assert (await post(path, body, key=key[1:]).run(app)).status == 404
