"""A request that is read with the help of earlier ones is read as it is without them: prompt, places, notes, errors."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import pytest
from attrs import fields, has
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.asgi.kept.known import Known
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.known import Element
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.limits import KNOWN_ELEMENTS
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.corpus.entries import CORPUS
from tests.growth import assert_linear, steps

DIALECT = AnthropicMessages()
UPSTREAM = KiroUpstream(new_id=lambda: "7f3c2a4e-0000-4000-8000-000000000000")
MODEL = ModelCard("claude-sonnet-4.5", images=True)
KEY = Credential(CredentialKind.API_KEY, "ksk_test")
MIB = 1024 * 1024


class Spy:
    """What is known of one client, and how many elements of requests were."""

    def __init__(self) -> None:
        self.known = Known(64 * MIB, lambda: 0.0).of("a client")
        self.found = 0

    def find(self, array: str, first: str, /) -> Sequence[Element]:
        assert self.known is not None
        found = self.known.find(array, first)
        self.found += len(found)
        return found

    def keep(self, array: str, elements: Sequence[Element], /) -> None:
        assert self.known is not None
        self.known.keep(array, elements)


def whole(value: Any) -> Any:
    """*value* with all that comparisons leave out: places, marks, members that were not read."""
    if isinstance(value, KiroAsgiError):
        return type(value).__name__, value.message, value.code, value.param
    if isinstance(value, Enum):
        return value
    if has(type(value)):
        return type(value).__name__, {each.name: whole(getattr(value, each.name)) for each in fields(type(value))}
    if isinstance(value, Mapping):
        return {name: whole(it) for name, it in value.items()}
    return [*map(whole, value)] if isinstance(value, list | tuple) else value


def outcome(body: bytes, read: Callable[[bytes], Any]) -> Any:
    """All that comes of *body*: what was read, noted and rendered, or the error."""
    try:
        parsed = read(body)
        rendered = UPSTREAM.render(parsed.prompt, MODEL, KEY)
    except KiroAsgiError as error:
        return whole(error)
    return whole((parsed, DIALECT.notes(body, parsed), rendered.request.body, rendered.notes))


def assert_same(bodies: Iterable[bytes]) -> int:
    """Assert that each body is read alike with and without those before it; returns how many elements were known."""
    spy = Spy()
    for body in bodies:
        assert outcome(body, lambda it: DIALECT.parse_recalled(it, (), spy)) == outcome(body, DIALECT.parse)
    return spy.found


def grown(body: Mapping[str, Any]) -> Iterable[bytes]:
    """*body* as a conversation of that many turns sends it, the last twice, and after that from the middle."""
    counts = range(1, len(body["messages"]) + 1)
    for count in (*list(counts)[-12:], counts[-1], 1 + counts[-1] // 2):
        yield json.dumps({**body, "messages": body["messages"][:count]}).encode()


def test_every_conversation_of_the_corpus_is_read_alike():
    """Whatever clients send, knowing what they sent before changes nothing."""
    bodies = [entry.body for entry in CORPUS if entry.api == "anthropic" and len(json.dumps(entry.body)) < MIB]

    assert sum(assert_same(grown(body)) for body in bodies) > 500


CALL = '{"type":"tool_use","id":"t","name":"f","input":{"a":[1,{"b":null}]}}'
RESULT = '{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"é"},{"type":"new"}]}'
MEMBER = '{"type":"tool_use","id":"t","name":"wait","toolset_name":"computer","input":{"duration":1}}'
MESSAGES = (
    '{"role":"user","content":"a"}',
    '{"role":"user","content":"A"}',
    '{"role":"user","content":"\\ud800 } ] , [ {"}',
    '{"role":"assistant","content":"b"}',
    f'{{"role":"assistant","content":[{CALL}]}}',
    f'{{"role":"user","content":[{RESULT}]}}',
    '{"role":"user","content":[]}',
    '{"role":"user","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral"},"more":1}],"own":2}',
    '{"role":"system","content":"d"}',
    '{"role":"tool","content":"e"}',
    '{"role":"assistant","content":[{"type":"compaction","content":"all of it"}]}',
    '{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}',
    '{"role":"user","content":[{"type":"document","context":"x","source":{"type":"text","data":"y"}}]}',
    '{"role":"user","content":[{"type":"later"},{"type":"text","text":"f"}]}',
    '{"role":"user"}',
    '{"role":"user","content":1e999}',
    '{"role":"user","content":NaN}',
    '{"role":"user","content":"a"',
    f'{{"role":"assistant","content":[{MEMBER}]}}',
    "5",
    "null",
    "[]",
    "",
)
TOOLS = (
    '{"name":"f","input_schema":{"type":"object"}}',
    '{"name":"f","description":"again","input_schema":{}}',
    '{"name":"g","description":"\\u00e9","input_schema":{"type":"object","properties":{"a":{}}},"defer_loading":true}',
    '{"type":"web_search_20250305","name":"web_search","max_uses":3}',
    '{"type":"web_search_20250305","name":"web_search","max_uses":0}',
    '{"description":"nameless"}',
    '{"type":"computer_toolset_20260801","configs":{"zoom":{"enabled":false}}}',
    '{"type":"browser_toolset_20260801"}',
    '{"name":"computer_wait","input_schema":{"type":"object"}}',
)
MORE = (
    ',"messages":[]',
    ',"tools":null',
    ',"m\\u0065ssages":[{"role":"user","content":"z"}]',
    ',"tool_choice":{"type":"tool","name":"g"}',
)
"""Further members of a body."""

GAPS = st.sampled_from(("", "", "", " ", "\n\t"))


def likely(pool: Sequence[str]) -> st.SearchStrategy[str]:
    """Elements of *pool*, mostly of the first and plainest ones."""
    return st.one_of(st.sampled_from(pool[:8]), st.sampled_from(pool[:8]), st.sampled_from(pool))


@st.composite
def arrays(draw: st.DrawFn, pool: Sequence[str], least: int) -> str:
    """The text of an array of elements of *pool*."""
    gap = draw(GAPS)
    return "[" + gap + f"{gap},{gap}".join(draw(st.lists(likely(pool), min_size=least, max_size=6))) + gap + "]"


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A body, with its members in any order, some of them twice, and sometimes broken."""
    members = [
        '"model":"m"',
        '"max_tokens":9',
        f'"messages":{draw(arrays(MESSAGES, 1))}',
        f'"tools":{draw(arrays(TOOLS, 0))}',
    ]
    members += draw(st.lists(st.sampled_from(MORE), max_size=1).map(lambda names: [name[1:] for name in names]))
    text = draw(st.sampled_from(("", "\ufeff "))) + "{" + ",".join(draw(st.permutations(members))) + "}"
    end = draw(st.sampled_from((None, None, None, None, -1, -2, len(text) // 2)))
    return text[:end].encode()


@given(st.lists(bodies(), min_size=2, max_size=5))
def test_any_requests_are_read_alike(sent: list[bytes]):
    """Nothing in earlier requests, legal or not, changes how a later one is read."""
    assert_same(sent)


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """One conversation as it goes on: messages are added, changed and taken away behind the first."""
    messages, tools, sent = [MESSAGES[0], *draw(st.lists(st.sampled_from(MESSAGES[:8]), max_size=3))], [TOOLS[0]], []
    for _ in range(draw(st.integers(2, 5))):
        at = draw(st.integers(1, len(messages)))
        messages[at : at + draw(st.integers(0, 1))] = draw(st.lists(likely(MESSAGES), max_size=2))
        tools[1:] = draw(st.sampled_from((tools[1:], draw(st.lists(likely(TOOLS), max_size=2)))))
        more = draw(st.sampled_from(("", "", "", "", *MORE)))
        sent.append(
            f'{{"model":"m","max_tokens":9,"tools":[{",".join(tools)}],"messages":[{",".join(messages)}]{more}}}'
        )
    return [text.encode() for text in sent]


@given(conversations())
def test_a_conversation_that_goes_on_is_read_alike(sent: list[bytes]):
    """Turn after turn, whatever is changed in between, legal or not."""
    assert_same(sent)


USER, OTHER, _, ANSWER = MESSAGES[:4]
SYSTEM, UNKNOWN, SUMMARY = MESSAGES[8:11]


@pytest.mark.parametrize(
    "conversation",
    [
        pytest.param(([USER, SUMMARY, USER], [USER, ANSWER, USER]), id="a-summary-is-taken-back"),
        pytest.param(([USER, ANSWER, USER], [USER, ANSWER, SUMMARY, USER]), id="a-summary-comes"),
        pytest.param(([USER, SYSTEM, USER], [USER, ANSWER, USER], [USER, SYSTEM, USER]), id="system-text-in-between"),
        pytest.param(([USER, SYSTEM], [USER, SYSTEM, USER]), id="system-text-at-the-end"),
        pytest.param(([USER, UNKNOWN, USER], [USER, UNKNOWN, OTHER]), id="an-unknown-role"),
        pytest.param(([USER, ANSWER, USER], [USER, ANSWER]), id="a-turn-is-taken-back"),
        pytest.param(([USER, ANSWER, USER], [USER, USER, ANSWER], [USER, ANSWER, USER]), id="another-order"),
        pytest.param(([USER, ANSWER], [USER, ANSWER, "5"], [USER, ANSWER, USER]), id="a-mistake-in-between"),
    ],
)
def test_what_becomes_of_a_conversation(conversation: tuple[list[str], ...]):
    """The cases that have to do with more than one message."""
    texts = [f'{{"model":"m","max_tokens":9,"messages":[{",".join(each)}]}}'.encode() for each in conversation]
    assert_same((texts[0], *texts))


def test_a_toolset_is_named_apart_anew():
    """A function of the client's that comes later, or goes, changes the names of a toolset that is known."""
    first, toolset, clashing = TOOLS[0], *TOOLS[-3::2]
    messages = f'[{USER},{{"role":"assistant","content":[{MEMBER}]}},{MESSAGES[5]}]'
    lists = ((first, toolset), (first, toolset, clashing), (first, toolset, clashing), (first, toolset))
    found = assert_same(
        f'{{"model":"m","max_tokens":9,"tools":[{",".join(tools)}],"messages":{messages}}}'.encode() for tools in lists
    )

    assert found > 6


def test_every_character_counts():
    """A conversation that differs in one character is read as it is, wherever that is."""
    text = (
        f'{{"model":"m","max_tokens":9,"tools":[{TOOLS[0]}],"messages":[{USER},{ANSWER},{MESSAGES[4]}, {MESSAGES[5]}]}}'
    )
    for at, character in enumerate(text):
        for other in ("b", ",", '"', "") if character in 'a{"}' else ("b",):
            changed = text[:at] + other + text[at + 1 :]
            spy = Spy()
            for _ in range(2):
                DIALECT.parse_recalled(text.encode(), (), spy)
            read = outcome(changed.encode(), lambda it, spy=spy: DIALECT.parse_recalled(it, (), spy))
            assert read == outcome(changed.encode(), DIALECT.parse)


def conversation(turns: int, text: str = "word ") -> bytes:
    """A body as agents send it."""
    messages: list[dict[str, Any]] = []
    for number in range(turns):
        call = {"type": "tool_use", "id": f"t{number}", "name": "f", "input": {"a": text * 4}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": [{"type": "text", "text": text * 20}]}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    messages = [{"role": "user", "content": "Begin."}, *messages]
    tools = [{"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}]
    return json.dumps({"model": "m", "max_tokens": 9, "tools": tools, "messages": messages}).encode()


def test_what_is_known_is_not_read_again():
    """A message that is known costs a few steps, and one that is new has to be read."""

    def taken(turns: int) -> int:
        spy = Spy()
        for earlier in (turns - 2, turns - 1):
            DIALECT.parse_recalled(conversation(earlier), (), spy)
        return steps(lambda: DIALECT.parse_recalled(conversation(turns), (), spy)) - steps(lambda: conversation(turns))

    def unknown(turns: int) -> int:
        return steps(lambda: DIALECT.parse(conversation(turns))) - steps(lambda: conversation(turns))

    assert (taken(80) - taken(40)) / 80 < 15
    assert (unknown(80) - unknown(40)) / 80 > 45


@pytest.mark.parametrize("piece", ['{"role":"user","content":""}', '{"role":"user","content":"' + "x" * 100 + '"}'])
def test_reading_what_is_all_new_is_linear(piece: str):
    """Of however many elements an array is."""

    def make(size: int) -> Callable[[], object]:
        body = f'{{"model":"m","max_tokens":9,"messages":[{",".join([piece] * size)}]}}'.encode()
        spy = Spy()
        DIALECT.parse_recalled(body, (), spy)
        return lambda: DIALECT.parse_recalled(body, (), spy)

    assert_linear(make, 200)


def test_more_elements_than_are_remembered_are_read_all_the_same():
    """The cap is on what is remembered."""
    body = conversation(KNOWN_ELEMENTS // 2 + 1)

    assert assert_same([body, body, body]) == 4  # the first tool and the first message, twice


EMPTY = {"type": "text", "text": ""}


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"messages": [{"role": "user", "content": [EMPTY] * 3000}]}, id="empty-blocks"),
        pytest.param({"messages": [{"role": "user", "content": ""}] * 4000}, id="empty-messages"),
        pytest.param({"messages": [{"role": "user", "content": "x" * 400_000}]}, id="one-text"),
        pytest.param({"messages": [{"role": "user", "content": "é" * 400_000}]}, id="wide-text"),
        pytest.param({"tools": [{"name": "f", "input_schema": {str(n): {} for n in range(9000)}}]}, id="objects"),
        pytest.param({"tools": [{"name": "f", "input_schema": {"a": [[]] * 9000}}]}, id="arrays"),
        pytest.param({"tools": [{"name": "f", "input_schema": {"a": [10**6 + n for n in range(9000)]}}]}, id="numbers"),
        pytest.param({"tools": [{"name": f"f{n}", "input_schema": {}} for n in range(2000)]}, id="tools"),
    ],
)
def test_sizes_are_those_of_memory(members: dict[str, Any]):
    """What is remembered takes no more memory than is counted, whatever its shape."""
    plain = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]}
    body = json.dumps({**plain, **members}, ensure_ascii=False).encode()
    known = Known(1024 * MIB, lambda: 0.0)
    DIALECT.parse(body)
    tracemalloc.start()
    try:
        for _ in range(2):
            DIALECT.parse_recalled(body, (), known.of("a client") or pytest.fail("nothing is remembered"))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(body) < taken < known.size
