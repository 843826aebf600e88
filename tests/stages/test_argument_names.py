from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.stages.arguments import Rename, ToolSchema, known_only, parse_names, renamed, with_declared_twins
from tests.growth import assert_linear

SAYS_NOTHING = {"type": "object"}


def of(*names: str, **more: object) -> dict[str, object]:
    return {"type": "object", "properties": {name: {} for name in names}, **more}


def holding(name: str, schema: object) -> dict[str, object]:
    return {"type": "object", "properties": {name: schema}}


GREP, READ = of("pattern", "path"), of("file_path", "limit")


@pytest.mark.parametrize("schema", [SAYS_NOTHING, of(), None], ids=["silent", "empty", "known"])
@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        pytest.param("grep", {"query": "x"}, {"pattern": "x"}, id="F219-grep"),
        pytest.param("search", {"query": "x"}, {"pattern": "x"}, id="F219-search"),
        pytest.param("grep", {"paths": ["a", "b"]}, {"path": "a"}, id="F220"),
        pytest.param("grep", {"paths": "src"}, {"path": "src"}, id="F220-one-path"),
        pytest.param("grep", {"paths": []}, {"path": "."}, id="F221-empty"),
        pytest.param("grep", {"paths": [1]}, {"path": "."}, id="F221-no-texts"),
        pytest.param("grep", {"paths": None}, {"path": "."}, id="F221-no-list"),
        pytest.param("read", {"path": "a", "limit": 1}, {"file_path": "a", "limit": 1}, id="F222"),
        pytest.param("Grep", {"query": "x"}, {"pattern": "x"}, id="F223-Grep"),
        pytest.param("READ", {"path": "a"}, {"file_path": "a"}, id="F223-READ"),
        pytest.param("write", {"query": 1, "paths": [], "path": "a"}, None, id="F224"),
        pytest.param("grep", {"query": "x", "pattern": "y"}, None, id="never-overwritten"),
        pytest.param("read", {}, None, id="nothing"),
    ],
)
def test_usual_names(tool, arguments, expected, schema):
    """An argument goes under the name that the client knows, at its place, whether the schema says so or is silent."""
    known = schema or (READ if tool.lower() == "read" else GREP)

    assert list(renamed(tool, arguments, ToolSchema(known)).items()) == list((expected or arguments).items())


@pytest.mark.parametrize(
    ("tool", "arguments", "schema"),
    [
        pytest.param("search", {"query": "x"}, of("query"), id="no-such-target"),
        pytest.param("search", {"query": "x"}, of("query", "pattern"), id="a-source-of-its-own"),
        pytest.param("read", {"path": "a"}, of("path"), id="read"),
        pytest.param("read", {"path": "a"}, {"anyOf": [of("path"), of("file_path")]}, id="in-a-branch"),
        pytest.param("bash", {"cmd": "ls"}, SAYS_NOTHING, id="only-where-the-schema-says-so"),
    ],
)
def test_the_schema_guards_its_names(tool, arguments, schema):
    """Nothing is renamed that the client declared, nor to what it did not (F225, decisions 5.28)."""
    assert renamed(tool, arguments, ToolSchema(schema)) is arguments


@pytest.mark.parametrize("source", ["cmd", "code", "script", "shell_command"])
@pytest.mark.parametrize("tool", ["bash", "Shell", "local_shell"])
def test_commands(tool, source):
    """What is to be run goes under ``command`` where the tool has that."""
    assert renamed(tool, {source: "ls"}, ToolSchema(of("command"))) == {"command": "ls"}


def test_names_of_the_operator():
    """Each entry names tool, wire name and client's name, and is guarded like the usual ones (F212)."""
    renames = parse_names(["mcp__a.b__c.wire=client", "Write.file = path"])

    assert renames == (
        Rename(frozenset({"mcp__a.b__c"}), "wire", "client", unguarded=True),
        Rename(frozenset({"write"}), "file", "path", unguarded=True),
    )
    assert renamed("Write", {"file": "a"}, ToolSchema(of("path")), renames) == {"path": "a"}
    assert renamed("Write", {"file": "a"}, ToolSchema({}), renames) == {"path": "a"}
    assert renamed("Write", {"file": "a"}, ToolSchema(of("file", "path")), renames) == {"file": "a"}


CLOSED = {"additionalProperties": False}
EDITS = {
    "type": "object",
    "properties": {
        "file_path": {"type": "string"},
        "edits": {"type": "array", "items": of("old_string", "new_string")},
        "options": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/options"}]},
    },
    "$defs": {"options": of("replaceAll")},
}


@pytest.mark.parametrize(
    ("given_names", "declared", "expected"),
    [
        pytest.param(["filePath"], ["file_path"], ["file_path"], id="camel-to-snake"),
        pytest.param(["file_path"], ["filePath"], ["filePath"], id="snake-to-camel"),
        pytest.param(["FilePath", "x"], ["file_path", "x"], ["file_path", "x"], id="pascal-in-its-place"),
        pytest.param(["file-path"], ["file_path"], ["file_path"], id="kebab"),
        pytest.param(["userID", "line1Text"], ["user_id", "line_1_text"], ["user_id", "line_1_text"], id="acronym"),
        pytest.param(["filePath", "file_path"], ["file_path"], ["filePath", "file_path"], id="never-overwritten"),
        pytest.param(["filePath", "FilePath"], ["file_path"], ["file_path", "FilePath"], id="the-first-of-two"),
        pytest.param(["FILE_PATH"], ["file_path", "filePath"], ["FILE_PATH"], id="two-candidates"),
        pytest.param(["filePath"], ["filePath", "file_path"], ["filePath"], id="both-declared"),
        pytest.param(["filePath"], ["path"], ["filePath"], id="no-twin"),
        pytest.param(["filePath"], [], ["filePath"], id="nothing-declared"),
    ],
)
@pytest.mark.parametrize("more", [{}, CLOSED, {"additionalProperties": True}], ids=["silent", "closed", "open"])
def test_twins(given_names, declared, expected, more):
    """Decision 5.50: an argument goes out under the spelling of its name that the schema declares, at its place."""
    arguments = {name: number for number, name in enumerate(given_names)}
    named = with_declared_twins(arguments, ToolSchema(of(*declared, **more)))

    assert list(named.items()) == list(zip(expected, range(len(expected)), strict=True))
    assert (named is arguments) == (expected == given_names)


def test_twins_within_arguments():
    """The same holds in objects and lists within the arguments, through references and the only branch that fits."""
    arguments = {
        "filePath": "a",
        "edits": [{"oldString": "b", "newString": {"newString": 1}}],
        "options": {"replace_all": 1},
    }

    assert with_declared_twins(arguments, ToolSchema(EDITS)) == {
        "file_path": "a",
        "edits": [{"old_string": "b", "new_string": {"newString": 1}}],
        "options": {"replaceAll": 1},
    }


@pytest.mark.parametrize(
    ("wrap", "schema_of"),
    [
        pytest.param(lambda value: [value], lambda schema: {"type": "array", "items": schema}, id="lists"),
        pytest.param(lambda value: {"in": value}, lambda schema: holding("in", schema), id="objects"),
    ],
)
def test_twins_are_looked_for_sixteen_levels_deep(wrap, schema_of):
    """Deeper than sixteen lists, or objects, nothing is looked at; up to there everything is."""

    def respelled(levels):
        value, schema = {"filePath": 1}, of("file_path")
        for _ in range(levels):
            value, schema = wrap(value), schema_of(schema)
        given = {"x": value}
        return with_declared_twins(given, ToolSchema(holding("x", schema))) is not given

    assert [respelled(levels) for levels in (0, 1, 15, 16, 17)] == [True, True, True, False, False]


def test_twins_take_linear_time():
    """Many arguments, declared or not, take proportionally longer."""

    def make(size: int) -> Callable[[], object]:
        schema = of(*(f"a_{number}" for number in range(size)))
        arguments = {f"A{number}": 1 for number in range(2 * size)}
        return lambda: with_declared_twins(arguments, ToolSchema(schema))

    assert_linear(make, 200)


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        pytest.param(of("a"), None, id="F213-silent-about-others"),
        pytest.param(of("a", **CLOSED), {"a": 1}, id="F213-closed"),
        pytest.param({"$ref": "#/$defs/a", "$defs": {"a": of("a", **CLOSED)}}, {"a": 1}, id="closed-by-reference"),
        pytest.param({"allOf": [of("a", **CLOSED)]}, {"a": 1}, id="closed-in-all-branches"),
        pytest.param({"anyOf": [of("a", **CLOSED), of("c")]}, None, id="closed-in-one-branch"),
        pytest.param(of(**CLOSED), None, id="nothing-would-be-left-of-none-declared"),
        pytest.param(of("c", **CLOSED), None, id="nothing-would-be-left"),
        pytest.param(
            {"allOf": [of("a"), {"$ref": "#/$defs/b"}], "$defs": {"b": of("b")}, **CLOSED}, None, id="in-branches"
        ),
        pytest.param({"if": of("a"), "then": of("b"), **CLOSED}, None, id="in-conditions"),
        pytest.param(SAYS_NOTHING, None, id="silent"),
        pytest.param({}, None, id="empty"),
        pytest.param(of("a", additionalProperties=True), None, id="open"),
        pytest.param(of("a", additionalProperties={"type": "string"}), None, id="open-for-texts"),
        pytest.param(of("a", patternProperties={"^b": {}}, **CLOSED), None, id="open-for-a-pattern"),
        pytest.param(of("a", allOf=[{"additionalProperties": {}}], **CLOSED), None, id="open-in-a-branch"),
        pytest.param({"properties": ["a"], "allOf": 1, "$ref": "#/properties/a"}, None, id="no-schema"),
    ],
)
def test_unknown_arguments(schema, kept):
    """Decision 5.50: arguments that the schema does not declare are left out only where it says
    ``additionalProperties: false``, and never all of them."""
    arguments = {"a": 1, "b": 2}
    left = known_only(arguments, ToolSchema(schema))

    assert left == (arguments if kept is None else kept)
    assert (left is arguments) == (kept is None)


KEYS = st.sampled_from(["query", "pattern", "path", "paths", "file_path", "filePath", "cmd", "command", "other"])
SCHEMAS = st.builds(lambda names, more: of(*names, **more), st.sets(KEYS), st.sampled_from([{}, {"$ref": "#"}, CLOSED]))


@given(
    st.sampled_from(["grep", "Search", "glob", "read", "bash", "other"]),
    st.dictionaries(KEYS, st.sampled_from(["x", ["x", "y"], [], 1])),
    SCHEMAS,
)
def test_laws_of_names(tool, arguments, schema):
    """A second time changes nothing, only undeclared arguments of a closed schema are lost, and never all."""
    read = ToolSchema(schema)
    once = with_declared_twins(renamed(tool, arguments, read), read)
    kept = known_only(once, read)

    assert with_declared_twins(renamed(tool, once, read), read) == once
    assert known_only(kept, read) is kept
    assert len(once) == len(arguments)
    assert bool(kept) == bool(arguments)
    assert kept == once or schema["additionalProperties"] is False
    assert all(kept[key] == arguments[key] for key in arguments.keys() & read.declared)
