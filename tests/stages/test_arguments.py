from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import (
    Notice,
    TextDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallStart,
    ToolInputDelta,
    TruncationInfo,
)
from kiro_asgi.stages.arguments import DECODED, DROPPED, RENAMED, UNWRAPPED, ArgumentRepairs
from kiro_asgi.stages.tool_calls import WRAPPED, ToolCallAssembler
from kiro_asgi.wire.json import loads
from tests.helpers import run, run_apart
from tests.stages.deltas import answers

SCHEMAS = {
    "grep": {
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "path": {"type": "string"}, "limit": {"type": "integer"}},
        "additionalProperties": False,
    },
    "edit": {
        "type": "object",
        "properties": {
            "file_path": {"type": "string"},
            "edits": {"type": "array", "items": {"type": "object", "properties": {"old_text": {"type": "string"}}}},
        },
        "additionalProperties": False,
    },
    "free": {},
    "own": {"properties": {"input": {"type": "string"}}},
}


def call(text: str, name: str = "grep", call_id: str = "c"):
    return [ToolCallStart(call_id, name), ToolInputDelta(text), ToolCallEnd(call_id)]


def repaired(items, **options):
    return run_apart(ArgumentRepairs(schemas=SCHEMAS, **options), items)


def whole(text: str, name: str = "grep", **options):
    """What becomes of one call as an upstream sends it."""
    fragments = [ToolCallFragment("c", name, text, stop=True)]
    return repaired(run(ToolCallAssembler(), fragments), **options)


def test_all_repairs_in_one_call():
    """Each repair is noted before the call, in the order of the work; an unknown argument is only counted."""
    text = '{"query": "x", "limit": "5", "why": "because", "how": 1}'

    assert repaired([TextDelta("a"), *call(text), TextDelta("b")]) == [
        TextDelta("a"),
        Notice(RENAMED, "grep"),
        Notice(DECODED, "grep"),
        Notice(DROPPED, "2"),
        *call('{"pattern":"x","limit":5}'),
        TextDelta("b"),
    ]


@pytest.mark.parametrize(
    ("text", "expected", "codes"),
    [
        ('{"filePath": "a", "why": 1}', '{"file_path":"a"}', [RENAMED, DROPPED]),
        ('{"filePath": "a", "edits": "[{\\"oldText\\": \\"b\\"}]"}', '{"file_path":"a","edits":[{"old_text":"b"}]}',
         [RENAMED, DECODED, RENAMED]),
        ('{"edits": "[{\\"oldText\\": \\"b\\"}]"}', '{"edits":[{"old_text":"b"}]}', [DECODED, RENAMED]),
        ('{"FILE": "a"}', '{"FILE": "a"}', []),
    ],
)  # fmt: skip
def test_names_come_before_everything_else(text, expected, codes):
    """Decision 5.50: an argument is renamed before anything is dropped, and what a text encoded is renamed as well."""
    *notices, _start, arguments, _end = repaired(call(text, "edit"))

    assert arguments == ToolInputDelta(expected)
    assert [notice.code for notice in notices] == codes


@pytest.mark.parametrize(
    "items",
    [
        pytest.param(call('{"pattern" : "x",\n "limit": 1e1}'), id="fits"),
        pytest.param([ToolCallStart("c", "grep"), ToolCallEnd("c")], id="no-pieces"),
        pytest.param([ToolCallStart("c", "grep"), *map(ToolInputDelta, ["{", "}"]), ToolCallEnd("c")], id="pieces"),
        pytest.param(call('{"query": "x"}', "unknown"), id="a-tool-that-nobody-declared"),
        pytest.param(call('{"query": "5", "why": 1}', "free"), id="a-tool-without-schema"),
    ],
)
def test_what_needs_no_repair_is_not_touched(items):
    """The arguments go out in the text in which they came, to the byte."""
    assert repaired(items) == items


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"renames": (), "drop_unknown": False}, '{"query":"x","limit":5,"why":1}'),
        ({"renames": ()}, '{"limit":5}'),
        ({"decode": False}, '{"pattern":"x","limit":"5"}'),
        ({"drop_unknown": False}, '{"pattern":"x","limit":5,"why":1}'),
    ],
    ids=str,
)
def test_each_repair_has_a_switch(option, expected):
    """What is switched off is not done."""
    assert repaired(call('{"query": "x", "limit": "5", "why": 1}'), **option)[-2] == ToolInputDelta(expected)


def test_arguments_that_are_a_text_of_an_object():
    """What the assembler wrapped is unwrapped again where it encodes the arguments."""
    notes = [Notice(WRAPPED, "grep"), Notice(UNWRAPPED, "grep")]

    assert whole('"{\\"pattern\\": \\"x\\"}"') == [*notes, *call('{"pattern":"x"}')]
    assert whole('"{}"') == [*notes, *call("{}")]
    assert whole('"{\\"query\\": 1}"')[2:] == [Notice(RENAMED, "grep"), *call('{"pattern":1}')]


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        pytest.param('"x"', "grep", {}, id="no-object"),
        pytest.param("[1]", "grep", {}, id="no-text"),
        pytest.param('"{}"', "own", {}, id="an-input-of-its-own"),
        pytest.param('"{}"', "grep", {"decode": False}, id="switched-off"),
        pytest.param('"{}"', "unknown", {}, id="unknown-tool"),
    ],
)
def test_what_is_wrapped_stays(text, name, options):
    """The member that the assembler made is no unknown argument of the model's: without it nothing would be left."""
    assert whole(text, name, **options) == [Notice(WRAPPED, name), *call(f'{{"input":{text}}}', name)]


def test_an_input_that_came_as_such_is_not_unwrapped():
    """Only what the assembler wrapped is, and only in that one call."""
    text = '{"input": "{}"}'

    assert repaired(call(text), drop_unknown=False) == call(text)
    items = [Notice(WRAPPED, "f"), *call("{}", "f"), *call(text)]
    assert repaired(items, drop_unknown=False) == items


def test_a_call_that_is_cut_is_not_gathered_any_more():
    """A report of a cut call passes, and what comes after it is not taken for its arguments."""
    items = [ToolCallCut(TruncationInfo("c", "grep", "cut", 1)), TextDelta("t")]

    assert repaired([ToolCallStart("c", "grep"), *items]) == items


@given(answers(), st.dictionaries(st.sampled_from(["f", "g"]), st.sampled_from(list(SCHEMAS.values()))))
def test_laws_with_anything_between(deltas, schemas):
    """Whatever comes, everything but notices and arguments passes, and arguments are objects."""
    before = run(ToolCallAssembler(), deltas)
    after = run(ArgumentRepairs(schemas=schemas), before)

    kinds = (Notice, ToolInputDelta)
    assert [it for it in after if type(it) not in kinds] == [it for it in before if type(it) not in kinds]
    assert all(isinstance(loads(it.json), dict) for it in after if type(it) is ToolInputDelta)
