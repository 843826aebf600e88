"""Notices in raw request bodies: the library's way to what the gateway does on neutral prompts."""

from __future__ import annotations

import copy
import json
from itertools import groupby

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.model.events import StopReason
from kiro_asgi.model.message import Message, TextBlock, ToolCallBlock
from kiro_asgi.model.prompt import Role, Text, ToolResult
from kiro_asgi.stages.cut_answers import CutAnswer, candidates, recover, truncation_records
from kiro_asgi.stages.parts.argument_text import truncation_info
from kiro_asgi.streaming import inject_anthropic_truncation_recovery, inject_openai_truncation_recovery

INJECT = {"anthropic": inject_anthropic_truncation_recovery, "openai": inject_openai_truncation_recovery}
PARSE = {"anthropic": AnthropicMessages().parse, "openai": OpenAIChat().parse}
EACH_DIALECT = pytest.mark.parametrize("dialect", INJECT)

INFO = truncation_info("c1", "write", '{"path": "a')
ANSWER = Message((TextBlock("I write."),), StopReason.LENGTH, truncations=(INFO,))
SHOWN = Message((TextBlock("I write."), ToolCallBlock("c1", "write", "{")), StopReason.LENGTH, truncations=(INFO,))
NOTICE = "[Notice from the gateway]"

TEXTS = st.sampled_from(["a", "b ", "\n", "(no content)"])
IDS = st.sampled_from(["1", "2", "3"])


def block(kind, **members):
    return {"type": kind, **members}


def text_block(text):
    return block("text", text=text)


ANTHROPIC_ASSISTANT = st.lists(
    st.one_of(
        TEXTS.map(text_block),
        st.builds(lambda call_id: block("tool_use", id=call_id, name="f", input={}), IDS),
        st.just(block("thinking", thinking="hm", signature="s")),
    ),
    min_size=1,
    max_size=3,
)
ANTHROPIC_USER = st.lists(
    st.one_of(
        st.builds(lambda text: block("text", text=text, cache_control={"type": "ephemeral"}), TEXTS),
        st.builds(lambda call_id: block("tool_result", tool_use_id=call_id, content="r"), IDS),
        st.builds(lambda call_id: block("tool_result", tool_use_id=call_id, content=[text_block("r")]), IDS),
    ),
    min_size=1,
    max_size=3,
)
OPENAI_CALLS = st.lists(
    IDS.map(lambda call_id: {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}),
    max_size=2,
)
MESSAGES = {
    "anthropic": st.lists(
        st.one_of(
            st.builds(dict, role=st.just("user"), content=TEXTS | ANTHROPIC_USER),
            st.builds(dict, role=st.just("assistant"), content=TEXTS | ANTHROPIC_ASSISTANT),
        ),
        min_size=1,
        max_size=7,
    ),
    "openai": st.lists(
        st.one_of(
            st.builds(dict, role=st.just("user"), content=TEXTS | TEXTS.map(lambda text: [text_block(text)])),
            st.builds(dict, role=st.just("system"), content=TEXTS),
            st.builds(dict, role=st.just("tool"), tool_call_id=IDS, content=TEXTS),
            st.builds(
                dict,
                role=st.just("assistant"),
                content=st.none() | TEXTS | TEXTS.map(lambda text: [text_block(text), block("refusal", refusal="no")]),
                refusal=st.none() | st.just("no"),
                tool_calls=OPENAI_CALLS,
            ),
        ),
        max_size=7,
    ).map(lambda messages: [FIRST_CALLS, *messages]),
}
FIRST_CALLS = {
    "role": "assistant",
    "tool_calls": [
        {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for call_id in "123"
    ],
}
"""So that a result of any of these ids is legal."""


def body_of(messages):
    return {"model": "m", "max_tokens": 9, "messages": messages}


def parsed(dialect, body):
    return PARSE[dialect](json.dumps(body).encode()).prompt


def said(prompt):
    """What each side says, whatever the number of turns it takes; that a result is an error cannot be said everywhere,
    and results come in any order."""
    parts = ((turn.role, part) for turn in prompt.turns for part in turn.parts)
    runs = groupby(parts, lambda each: each[0])
    return [(role, sorted((_plain(part) for _, part in run), key=_is_no_result)) for role, run in runs]


def _plain(part):
    return evolve(part, is_error=False) if isinstance(part, ToolResult) else part


def _is_no_result(part):
    return not isinstance(part, ToolResult)


@EACH_DIALECT
@given(data=st.data())
def test_a_body_is_told_what_its_prompt_is_told(dialect, data):
    """F249/F250/F455: parsing a body with notices gives what notices in the parsed prompt give."""
    body = body_of(data.draw(MESSAGES[dialect]))
    prompt = parsed(dialect, body)
    keys = [each.key for each in candidates(prompt.turns)]
    records = {key: CutAnswer((INFO,)) for key in data.draw(st.sets(st.sampled_from(keys)) if keys else st.just(()))}
    before = copy.deepcopy(body)
    injected = INJECT[dialect](body, records)

    assert body == before
    assert said(parsed(dialect, injected)) == said(recover(prompt, records)[0])
    assert json.dumps(injected).count(NOTICE) == len(records)


@EACH_DIALECT
@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"messages": None}, id="no-messages"),
        pytest.param({"messages": ["x", {"role": 1}, {"content": 2}, {"role": "user", "content": [3]}]}, id="nonsense"),
        pytest.param(body_of([{"role": "user", "content": "hi"}]), id="no-answer-yet"),
        pytest.param(
            body_of([{"role": "assistant", "content": "I read."}, {"role": "user", "content": "go on"}]), id="another"
        ),
    ],
)
def test_a_body_without_a_match_is_copied(dialect, body):
    """F253: nothing is changed, nothing is refused, and nothing is needed."""
    records = truncation_records(ANSWER)
    injected = INJECT[dialect](body, records)

    assert injected == body == INJECT[dialect](body)
    assert injected is not body


@pytest.mark.parametrize(
    ("answer", "reply", "expected"),
    [
        pytest.param(
            ANSWER,
            [{"role": "user", "content": "go on", "name": "n"}],
            [{"role": "user", "content": NOTICE}, {"role": "user", "content": "go on", "name": "n"}],
            id="F249-a-message-of-its-own",
        ),
        pytest.param(
            SHOWN,
            [{"role": "tool", "tool_call_id": "c1", "content": "bad"}],
            [
                {
                    "role": "tool",
                    "tool_call_id": "c1",
                    "content": [text_block(NOTICE), text_block("bad")],
                }
            ],
            id="F249-in-the-result",
        ),
        pytest.param(
            SHOWN,
            [{"role": "user", "content": "go on"}],
            [{"role": "tool", "tool_call_id": "c1", "content": NOTICE}, {"role": "user", "content": "go on"}],
            id="a-result-for-the-call",
        ),
    ],
)
def test_where_a_notice_stands_in_a_chat_completions_body(answer, reply, expected):
    """F249: in a message that the API knows, at a place where it takes one."""
    called = {"id": "c1", "type": "function", "function": {"name": "write", "arguments": "{"}}
    echo = {"role": "assistant", "content": "I write.", **({"tool_calls": [called]} if answer is SHOWN else {})}
    injected = inject_openai_truncation_recovery(body_of([echo, *reply]), truncation_records(answer))

    assert _short(injected["messages"]) == [echo, *expected]


@pytest.mark.parametrize(
    ("answer", "content", "expected"),
    [
        pytest.param(ANSWER, "go on", [text_block(NOTICE), text_block("go on")], id="F250-before-the-text"),
        pytest.param(
            SHOWN,
            [block("tool_result", tool_use_id="c1", content="bad", cache_control={"type": "ephemeral"})],
            [
                block(
                    "tool_result",
                    tool_use_id="c1",
                    content=[text_block(NOTICE), text_block("bad")],
                    cache_control={"type": "ephemeral"},
                    is_error=True,
                )
            ],
            id="F250-in-the-result",
        ),
        pytest.param(
            SHOWN,
            "go on",
            [
                block("tool_result", tool_use_id="c1", content=[text_block(NOTICE)], is_error=True),
                text_block("go on"),
            ],
            id="a-result-for-the-call",
        ),
    ],
)
def test_where_a_notice_stands_in_a_messages_body(answer, content, expected):
    """F250: in a block that the API knows, results before everything else."""
    called = [block("tool_use", id="c1", name="write", input={})] if answer is SHOWN else []
    echo = {"role": "assistant", "content": [text_block("I write."), *called]}
    body = body_of([echo, {"role": "user", "content": content}])
    injected = inject_anthropic_truncation_recovery(body, truncation_records(answer))

    assert _short(injected["messages"]) == [echo, {"role": "user", "content": expected}]


def _short(value):
    """Every notice as its first words."""
    if isinstance(value, str):
        return NOTICE if value.startswith(NOTICE) else value
    if isinstance(value, list):
        return [_short(item) for item in value]
    return {key: _short(item) for key, item in value.items()} if isinstance(value, dict) else value


def test_the_system_replies_once_others_have_spoken():
    """A text of the system among the messages is read as the user's, so the notice goes in front of it."""
    messages = [
        {"role": "assistant", "content": "I write."},
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "go on"},
    ]
    injected = inject_openai_truncation_recovery(body_of(messages), truncation_records(ANSWER))

    assert [message["role"] for message in injected["messages"]] == ["assistant", "user", "system", "user"]
    assert parsed("openai", injected).turns[1].parts[0] == Text(injected["messages"][1]["content"])
    assert parsed("openai", injected).turns[1].role is Role.USER
