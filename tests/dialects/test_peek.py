"""The first look at a request that may go on as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import TransparentDialect
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.errors import RequestError

ANTHROPIC, CHAT = AnthropicMessages(), OpenAIChat()
BOTH = pytest.mark.parametrize("dialect", [ANTHROPIC, CHAT], ids=["anthropic", "openai_chat"])

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
values = st.recursive(
    st.none() | st.integers() | names, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner)
)


@BOTH
@given(
    model=names,
    new=names,
    rest=st.dictionaries(names | st.just("model"), values | st.dictionaries(st.just("model"), names), max_size=5),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_only_the_models_name_is_replaced(
    dialect: TransparentDialect, model: str, new: str, rest: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    """The service reads the client's own bytes, all of them where it calls the model by the same name."""
    document = {**rest, "model": model, "stream": True, "more": [{"model": 1, "a": "model"}]}
    body = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    peek = dialect.peek(body)

    assert (peek.model, peek.stream) == (model, True)
    assert peek.renamed(model) is body
    assert json.loads(peek.renamed(new)) == {**document, "model": new}


@BOTH
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"{", "invalid_json", ""),
        (b"[]", "invalid_value", ""),
        (b"{}", "missing_required_parameter", "model"),
        (b'{"model": 1}', "invalid_value", "model"),
        (b'{"model": "m", "stream": "yes", "max_tokens": 9, "messages": []}', "invalid_value", "stream"),
    ],
)
def test_what_cannot_go_anywhere(dialect: TransparentDialect, body: bytes, code: str, param: str) -> None:
    """A request is refused as the dialect refuses it; what does not decide its way is left to the service."""
    with pytest.raises(RequestError) as caught:
        dialect.peek(body)
    with pytest.raises(RequestError) as parsed:
        dialect.parse(body)

    assert (caught.value.code, caught.value.param) == (code, param)
    assert (parsed.value.code, parsed.value.param) == (code, param)


@pytest.mark.parametrize(
    ("dialect", "request_", "tools", "thinking"),
    [
        (
            ANTHROPIC,
            {
                "tools": [{"name": "f", "input_schema": {}}, {"type": "web_search_20250305", "name": "web_search"}, 7],
                "thinking": {"type": "enabled", "budget_tokens": 1024},
            },
            [("f", ""), ("web_search", "web_search")],
            True,
        ),
        (ANTHROPIC, {"tools": None, "thinking": {"type": "disabled"}}, [], False),
        (
            CHAT,
            {
                "tools": [{"type": "function", "function": {"name": "f"}}, {"type": "web_search"}],
                "reasoning_effort": "high",
            },
            [("f", ""), ("None", "web_search")],
            True,
        ),
        (
            CHAT,
            {"tools": {}, "web_search_options": {}, "reasoning_effort": "none"},
            [("web_search", "web_search")],
            False,
        ),
    ],
)
def test_what_decides_the_way(
    dialect: TransparentDialect, request_: dict[str, Any], tools: list[tuple[str, str]], thinking: bool
) -> None:
    """Tools that somebody else may run, and whether the first event may take long."""
    peek = dialect.peek(json.dumps({"model": "m", **request_}).encode())

    assert [(tool.name, tool.hosted) for tool in peek.tools] == tools
    assert (peek.thinking, peek.stream) == (thinking, False)


def test_nothing_of_the_request_is_shown() -> None:
    """What a client wrote is in no representation."""
    peek = CHAT.peek(b'{"model": "m", "messages": [{"role": "user", "content": "secret words"}]}')
    assert "secret" not in repr(peek)
