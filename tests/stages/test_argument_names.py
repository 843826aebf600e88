from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.stages.argument_names import Rename, known_only, parse_names, renamed
from kiro_asgi.stages.argument_schemas import ToolSchema

SAYS_NOTHING = {"type": "object"}


def of(*names: str, **more: object) -> dict[str, object]:
    return {"type": "object", "properties": {name: {} for name in names}, **more}


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


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        pytest.param(of("a"), {"a": 1}, id="F213"),
        pytest.param(of("a", additionalProperties=False), {"a": 1}, id="closed"),
        pytest.param(of(additionalProperties=False), {}, id="closed-and-empty"),
        pytest.param({"allOf": [of("a"), {"$ref": "#/$defs/b"}], "$defs": {"b": of("b")}}, None, id="in-branches"),
        pytest.param({"if": of("a"), "then": of("b")}, None, id="in-conditions"),
        pytest.param(of(), None, id="no-properties"),
        pytest.param(SAYS_NOTHING, None, id="silent"),
        pytest.param({}, None, id="empty"),
        pytest.param(of("a", additionalProperties=True), None, id="open"),
        pytest.param(of("a", additionalProperties={"type": "string"}), None, id="open-for-texts"),
        pytest.param(of("a", patternProperties={"^b": {}}), None, id="open-for-a-pattern"),
        pytest.param(of("a", allOf=[{"additionalProperties": {}}]), None, id="open-in-a-branch"),
        pytest.param({"properties": ["a"], "allOf": 1, "$ref": "#/properties/a"}, None, id="no-schema"),
    ],
)
def test_unknown_arguments(schema, kept):
    """Arguments that the schema does not declare are left out, unless it declares none or says there may be others."""
    arguments = {"a": 1, "b": 2}
    left = known_only(arguments, ToolSchema(schema))

    assert left == (arguments if kept is None else kept)
    assert (left is arguments) == (kept is None)


KEYS = st.sampled_from(["query", "pattern", "path", "paths", "file_path", "cmd", "command", "other"])
SCHEMAS = st.builds(lambda names, more: of(*names, **more), st.sets(KEYS), st.sampled_from([{}, {"$ref": "#"}]))


@given(
    st.sampled_from(["grep", "Search", "glob", "read", "bash", "other"]),
    st.dictionaries(KEYS, st.sampled_from(["x", ["x", "y"], [], 1])),
    SCHEMAS,
)
def test_laws_of_names(tool, arguments, schema):
    """A second time changes nothing, and where names are declared only undeclared ones are lost."""
    read = ToolSchema(schema)
    once = renamed(tool, arguments, read)
    kept = known_only(once, read)

    assert renamed(tool, once, read) == once
    assert known_only(kept, read) is kept
    assert len(once) == len(arguments)
    if read.declared:
        assert arguments.keys() & read.declared <= kept.keys() <= read.declared
        assert all(kept[key] == arguments[key] for key in arguments.keys() & read.declared)
