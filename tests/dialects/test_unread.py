"""What no service can be told is named, in each API: rule and place, and nothing where all is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.apis.responses.operations import OwnNotes
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.gemini.dialect import GeminiApi
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.parsing import parse_value
from kiro_asgi.dialects.unread import RULES
from kiro_asgi.model.notes import Note
from tests.growth import assert_linear

CHAT, MESSAGES, RESPONSES, GEMINI = OpenAIChat(), AnthropicMessages(), OpenAIResponses(), GeminiApi("m")
BODIES: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    "openai_responses": {"model": "m", "input": [{"role": "user", "content": "hi"}]},
    "gemini": {"contents": [{"parts": [{"text": "hi"}]}]},
}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
FLAT = {"type": "function", "name": "f", "parameters": {"type": "object"}}
OWN = {"name": "f", "input_schema": {"type": "object"}}
SEARCH_RESULT = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}


def said(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [*content], **more}


def text(words: str = "hi", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def notes(dialect: Dialect, **more: Any) -> list[tuple[str, int, str]]:
    body = json.dumps({**BODIES[dialect.name], **more}).encode()
    return [(note.rule, note.times, note.place) for note in dialect.notes(body, dialect.parse(body))]


HI = said("user", text())
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "index": 0}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [text(), {"type": "tool_reference", "tool_name": "f"}]}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "direct"}}

CASES: list[tuple[str, Dialect, dict[str, Any], list[tuple[str, int, str]]]] = [
    ("chat-plain", CHAT, {"stream": True, "stop": "x", "temperature": 1, "tools": [TOOL]}, []),
    ("chat-logit-bias", CHAT, {"logit_bias": {"50": -100}}, [("fields.ignored", 1, "logit_bias")]),
    ("chat-nothing", CHAT, {"logit_bias": {}, "verbosity": None, "stop": []}, []),
    ("chat-name", CHAT, {"messages": [said("user", text(), name="Eva")]}, [("fields.ignored", 1, "messages[0].name")]),
    ("chat-storage", CHAT, {"store": True, "service_tier": "flex"}, [("fields.no_effect", 1, "store")]),
    (
        "chat-second-tool",
        CHAT,
        {"tools": [TOOL, TOOL], "functions": [{"name": "g"}]},
        [("fields.ignored", 1, "functions")],
    ),
    (
        "chat-not-allowed",
        CHAT,
        {
            "tools": [TOOL, {"type": "function", "function": {"name": "g"}}],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [TOOL]}},
        },
        [("tools.left_out", 1, "tools[1]")],
    ),
    ("chat-extension", CHAT, {"top_k": "many", "seed": -1}, [("values.unknown", 1, "top_k")]),
    (
        "chat-search",
        CHAT,
        {"web_search_options": {"search_context_size": "low"}},
        [("fields.ignored", 1, "web_search_options.search_context_size")],
    ),
    (
        "chat-call",
        CHAT,
        {"messages": [HI, {"role": "assistant", "tool_calls": [CALL], "annotated": {"id": "a"}}]},
        [("fields.ignored", 1, "messages[1].annotated"), ("fields.no_effect", 1, "messages[1].tool_calls[0].index")],
    ),
    (
        "chat-shapes",
        CHAT,
        {
            "tools": [OWN, {"type": "function", "function": OWN}],
            "tool_choice": {"type": "any"},
            "messages": [HI, said("assistant", USE), said("user", {**RESULT, "content": "r"})],
        },
        [
            ("fields.ignored", 1, "messages[1].content[0].caller"),
            ("shapes.messages", 5, "tools[0]"),
        ],
    ),
    (
        "chat-system",
        CHAT,
        {
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "stop_sequences": ["STOP"],
            "messages": [HI],
        },
        [("shapes.messages", 2, "system"), ("fields.ignored", 1, "system[0].cache_control")],
    ),
    (
        "chat-system-of-no-form",
        CHAT,
        {"system": 5, "stop": "HALT", "stop_sequences": ["STOP"], "messages": [HI]},
        [("fields.ignored", 2, "system")],
    ),
    (
        "messages-compacted",
        MESSAGES,
        {"messages": [HI, said("assistant", {"type": "compaction", "content": "So far."}), HI]},
        [("turns.compacted", 1, "messages[0]")],
    ),
    (
        "responses-agents",
        RESPONSES,
        {
            "input": [
                {"type": "agent_message", "author": "/root", "content": [text(), {"type": "encrypted_content"}]},
            ]
        },
        [("fields.ignored", 1, "input[0].author"), ("blocks.unknown", 1, "input[0].content[1]")],
    ),
    (
        "messages-plain",
        MESSAGES,
        {"stream": True, "metadata": {"user_id": "user_a_account_b_session_c"}, "tools": [OWN]},
        [],
    ),
    ("messages-person", MESSAGES, {"metadata": {"user_id": "u"}}, []),
    ("messages-tier", MESSAGES, {"service_tier": "turbo"}, [("values.unknown", 1, "service_tier")]),
    ("chat-tier", CHAT, {"service_tier": ["flex"]}, [("values.unknown", 1, "service_tier")]),
    ("chat-retention", CHAT, {"prompt_cache_retention": "9y"}, [("values.unknown", 1, "prompt_cache_retention")]),
    (
        "messages-roles",
        MESSAGES,
        {"messages": [said("tool", text()), said("user", text())]},
        [("turns.unknown", 1, "messages[0]")],
    ),
    (
        "messages-blocks",
        MESSAGES,
        {"messages": [said("user", text(), {"type": "tool_addition"}, {"type": "fallback"})]},
        [("blocks.unknown", 2, "messages[0].content[1]")],
    ),
    (
        "messages-results",
        MESSAGES,
        {"messages": [HI, said("assistant", USE), said("user", RESULT)]},
        [("fields.no_effect", 1, "messages[1].content[0].caller")],
    ),
    (
        "messages-mcp",
        MESSAGES,
        {
            "messages": [
                HI,
                said(
                    "assistant",
                    text(),
                    {"type": "mcp_tool_use", "id": "m", "name": "n", "input": {}, "server_name": "s"},
                ),
            ],
            "tools": [OWN, {"type": "mcp_toolset", "mcp_server_name": "s"}],
        },
        [
            ("fields.ignored", 2, "messages[1].content[1].server_name"),
        ],
    ),
    (
        "messages-context",
        MESSAGES,
        {"context_management": {"edits": [{"type": "clear_tool_uses"}]}, "compaction": {"x": 1}},
        [("fields.ignored", 2, "context_management")],
    ),
    (
        "messages-cache",
        MESSAGES,
        {"system": [text("x", cache_control={"type": "ephemeral"})]},
        [],
    ),
    (
        "messages-attribution",
        MESSAGES,
        {"system": "x-anthropic-billing-header: a\nBe brief."},
        [("system.attribution", 1, "system")],
    ),
    (
        "messages-words",
        MESSAGES,
        {"thinking": {"type": "sometimes", "budget_tokens": 9}, "output_config": {"effort": "most"}},
        [("values.unknown", 2, "thinking.type"), ("fields.ignored", 1, "thinking.budget_tokens")],
    ),
    (
        "messages-system-midway",
        MESSAGES,
        {"messages": [HI, said("system", text("x"), SEARCH_RESULT, {"type": "thinking", "thinking": "t"})]},
        [("blocks.unreadable", 1, "messages[1].content[2]")],
    ),
    (
        "messages-client-tool",
        MESSAGES,
        {"tools": [{"type": "bash_20250124", "name": "bash", "description": "d"}]},
        [("fields.ignored", 1, "tools[0].description")],
    ),
    ("responses-plain", RESPONSES, {"stream": True, "tools": [FLAT], "include": ["reasoning.encrypted_content"]}, []),
    (
        "responses-items",
        RESPONSES,
        {
            "input": [
                {"role": "user", "content": "hi"},
                {"type": "compaction"},
                {"type": "mcp_list_tools", "id": "m", "server_label": "s", "tools": []},
                {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "q"}},
                {"type": "reasoning", "summary": [], "encrypted_content": "another's"},
            ]
        },
        [
            ("items.unknown", 1, "input[2]"),
            ("items.summarised", 1, "input[3]"),
            ("thinking.sealed_dropped", 1, "input[4]"),
        ],
    ),
    (
        "responses-tools",
        RESPONSES,
        {"tools": [FLAT, FLAT, {"type": "mcp", "server_label": "s"}, {"type": "tool_search"}]},
        [("tools.duplicate_dropped", 1, "tools[1]")],
    ),
    (
        "responses-fields",
        RESPONSES,
        {"top_logprobs": 3, "image": {"a": 1}, "text": {"verbosity": "low"}},
        [("fields.echoed", 1, "top_logprobs"), ("fields.ignored", 1, "image")],
    ),
    (
        "responses-context",
        RESPONSES,
        {"context_management": [{"type": "compaction", "compact_threshold": 9000}, {"type": "clear_tool_uses"}]},
        [("values.unknown", 1, "context_management[1]")],
    ),
    (
        "responses-include",
        RESPONSES,
        {"include": ["message.output_text.logprobs"]},
        [("values.unknown", 1, "include[0]")],
    ),
]


@pytest.mark.parametrize(("dialect", "more", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_what_is_left_out_is_named(dialect: Dialect, more: dict[str, Any], expected: list[Any]) -> None:
    """Issue 11, 24: unknown roles, blocks, items and fields, tools that nobody runs, words without a meaning."""
    assert notes(dialect, **more) == expected


FUNCTIONS = {"functionDeclarations": [{"name": "f"}, {"name": "g"}], "googleSearch": {}}
CHOSEN = {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["f"]}}
SEALED = {"type": "agent_message", "content": [text(), {"type": "encrypted_content"}]}

KEPT: list[tuple[Dialect, dict[str, Any], list[tuple[str, str, bool]]]] = [
    (MESSAGES, {"output_config": {"effort": "most"}}, [("values.unknown", "output_config.effort", True)]),
    (MESSAGES, {"thinking": {"type": "sometimes"}}, [("values.unknown", "thinking.type", True)]),
    (
        MESSAGES,
        {"thinking": {"type": "adaptive", "budget_tokens": 9}},
        [("fields.ignored", "thinking.budget_tokens", False)],
    ),
    (
        MESSAGES,
        {"thinking": {"type": "between_tools", "budget_tokens": 9}},
        [("fields.ignored", "thinking.budget_tokens", True)],
    ),
    (MESSAGES, {"tool_choice": {"type": "maybe"}}, [("values.unknown", "tool_choice.type", True)]),
    (
        MESSAGES,
        {"system": [text(citations=[{"type": "char_location"}])]},
        [("fields.ignored", "system[0].citations[0]", True)],
    ),
    (
        MESSAGES,
        {"messages": [HI, said("system", text(), {"type": "fallback"}, name="n")]},
        [
            ("fields.ignored", "messages[1].name", False),
            ("blocks.unknown", "messages[1].content[1]", True),
            ("blocks.unreadable", "messages[1].content[1]", False),
        ],
    ),
    (CHAT, {"chat_template_kwargs": {"thinking": True}}, []),
    (CHAT, {"messages": [{**HI, "id": "m", "name": "n"}]}, [("fields.no_effect", "messages[0].id", False)]),
    (RESPONSES, {"input": [SEALED]}, [("blocks.unknown", "input[0].content[1]", True)]),
    (RESPONSES, {"context_management": [{}]}, [("values.unknown", "context_management[0]", False)]),
    (
        RESPONSES,
        {"tools": [FLAT, {"type": "namespace", "name": "n", "tools": [FLAT, FLAT]}], "tool_choice": "none"},
        [],
    ),
    (
        GEMINI,
        {"tools": [FUNCTIONS], "toolConfig": CHOSEN},
        [("tools.left_out", "tools[0].function_declarations[1]", False)],
    ),
]


@pytest.mark.parametrize(("dialect", "more", "expected"), KEPT)
def test_a_note_says_for_whom_it_is_kept_all_the_same(
    dialect: Dialect, more: dict[str, Any], expected: list[tuple[str, str, bool]]
) -> None:
    """A service of the API is sent what its reader does not understand; what a reader leaves out for all, it is not."""
    body = json.dumps({**BODIES[dialect.name], **more}).encode()
    found = {(note.rule, note.place, note.kept_for) for note in dialect.notes(body, dialect.parse(body))}

    assert found.issuperset((rule, place, dialect.name if kept else "") for rule, place, kept in expected)
    assert {rule for rule, _, _ in found} <= {rule for rule, _, _ in expected} | {"fields.ignored"}


def test_every_rule_is_one_that_is_seen() -> None:
    """A rule that no case has is not there."""
    assert {rule.name for rule in RULES} == {rule for *_, expected in CASES for rule, _, _ in expected}


def test_places_are_the_client_s_own_where_it_builds_on_more() -> None:
    """Stored items stand before those of the request, which count from nought."""
    own = {"model": "m", "input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]}
    whole = {**own, "input": [{"role": "user", "content": "hi", "name": "n"}, *own["input"]]}
    found = OwnNotes(earlier=1)
    parse_value(whole, notes=found)

    assert found.found() == (Note("thinking.sealed_dropped", 1, "input[0]", "openai_responses"),)


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES, RESPONSES], ids=lambda dialect: dialect.name)
def test_the_time_is_in_proportion(dialect: Dialect) -> None:
    """Every message is looked at once."""
    member = "input" if dialect is RESPONSES else "messages"

    def make(size: int) -> Any:
        body = json.dumps({**BODIES[dialect.name], member: [said("user", text(), name="n")] * size}).encode()
        parsed = dialect.parse(body)
        return lambda: dialect.notes(body, parsed)

    assert_linear(make, 50)
