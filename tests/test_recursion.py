"""Who recurses, and what bounds it: input from others must not decide how much of the stack is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import kiro_asgi

ROOT = Path(kiro_asgi.__file__).parent

OWN = "what the operator, or this package, wrote"
REQUEST = "`REQUEST_DEPTH`, by `read_json`"
ONCE = "what it holds is of another kind"
PARTS = "no result of a tool holds another"
PROMPT = "`JSON_DEPTH`, by `require_depths`"
SCHEMA = "`SCHEMA_DEPTH`"
ARGUMENTS = "`ARGUMENT_DEPTH`"
SIMULATED = "`JSON_DEPTH`, by `loads`, of the simulator, which answers tests"

COMPOSED = "secrets are looked for when something is recorded, and by then all parts are made"
READ = "`JSON_DEPTH`, by `loads`"
NAMED = "each names the step that comes next, and a loop calls it"
SHOWN = "a depth of its own, below which nothing is shown"

BOUNDED = {
    "asgi.exchange.explain": {"_elided": READ},
    "asgi.exchange.factory": {"ExchangeFactory._translated": NAMED},
    "cli.__init__": {"_members": OWN},
    "compose": {
        f"_Parts._{part}": COMPOSED
        for part in (
            "clocks",
            "named_providers",
            "providers",
            "recorded",
            "recorded_provider",
            "secrets",
            "store",
            "taping",
            "token",
        )
    },
    "config.leaves": {"_walk": OWN},
    "config.reading": {"_spread": OWN},
    "dialects.anthropic.content": {
        "_blocks_of_result": REQUEST,
        "_document": REQUEST,
        "_document_of_blocks": REQUEST,
        "_result_part": REQUEST,
        "_result_parts": REQUEST,
        "_server_result": REQUEST,
        "_tool_result": REQUEST,
        "parse_content": REQUEST,
        "read_blocks": REQUEST,
    },
    "dialects.gemini.parsing": {
        "Spelling._object": REQUEST,
        "Spelling._plain": REQUEST,
        "_parts": OWN,
        "_value": REQUEST,
        "_json_schema": REQUEST,
    },
    "dialects.gemini.shapes": {"_spelled": OWN},
    "dialects.openai_chat.content": {"_content": PARTS, "_result": PARTS, "user_content": PARTS},
    "dialects.pieces": {"dump_value": READ},
    "failures.members": {"_without": READ},
    "dialects.schema": {
        "SchemaWriter._class": OWN,
        "SchemaWriter._members": OWN,
        "SchemaWriter._object": OWN,
        "SchemaWriter._of": OWN,
        "SchemaWriter._tagged": OWN,
    },
    "dialects.structure": {"_problems": REQUEST, "is_worded": OWN},
    "interface": {"_unlike": OWN, "_value_lacks": OWN, "lacks": OWN},
    "inspector.recordings": {"_unmarked": READ},
    "inspector.replays": {"_payload": SHOWN, "as_value": SHOWN},
    "model.budget": {"_of_start": ONCE, "size_of": ONCE},
    "model.member_names": {"with_names": READ},
    "model.prices": {"Prices.of": NAMED},
    "model.understood": {"understood_parts": PARTS},
    "model.unread": {"_put_together": READ, "accumulated": READ},
    "rendering.argument_names": {"_named": PROMPT, "_properties": PROMPT, "_schema": PROMPT},
    "rendering.schemas": {"_each_object": PROMPT},
    "replay.trimming": {"_replaced": READ},
    "stages.arguments": {"_decoded": ARGUMENTS, "_with_twins": ARGUMENTS},
    "stages.parts.conversation": {"_group": PARTS, "_other": PARTS},
    "stages.tool_calls": {"_room": ONCE},
    "testing.hostile": {"_paths": OWN},
    "upstreams.anthropic.request": {"_collect": PARTS},
    "upstreams.bedrock.request": {"_collect": PARTS},
    "upstreams.anthropic.schema": {
        "_Writing._alternatives": PROMPT,
        "_Writing._members": PROMPT,
        "_Writing._named": PROMPT,
        "_Writing.write": PROMPT,
    },
    "upstreams.gemini.nodes": {"anything": OWN},
    "upstreams.gemini.schema": {"_NodeReader.flat": SCHEMA, "_written.write": SCHEMA},
    "upstreams.kiro.contract.request": {"_attachments": PARTS, "_kept_keywords": PROMPT, "_kept_value": PROMPT},
    "upstreams.kiro.rules.drafts": {
        "_has_empty_key": PROMPT,
        "_without_empty_keys": PROMPT,
    },
    "upstreams.kiro.rules.tools": {
        "Schemas._items": PROMPT,
        "Schemas._named": PROMPT,
        "Schemas._nested": PROMPT,
        "Schemas._part": PROMPT,
        "Schemas._schema": PROMPT,
    },
    "upstreams.kiro.request": {"_characters": PARTS},
    "upstreams.openai.answer": {"_thought": READ},
    "upstreams.openai.request": {"_inner": PROMPT, "_with_items": PROMPT},
    "upstreams.vectors": dict.fromkeys((f"VectorReader.{it}" for it in ("_numbers", "_open", "_skip", "_text")), NAMED),
    "simulator.anthropic.__init__": {"_images": SIMULATED},
    "simulator.gemini.__init__": {"_lower": SIMULATED},
    "simulator.gemini.encoder": {"_plain": SIMULATED},
    "simulator.default_answer": dict.fromkeys(("_Maker.array", "_Maker.make", "_Maker.object", "_kind"), SIMULATED),
    "simulator.kiro.message_checks": {"_misfit": SIMULATED, "_misfit_within": SIMULATED},
    "simulator.kiro.encoder": {"encode": SIMULATED},
}
"""Module to its functions that lead back to themselves, each with what bounds how often."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def recursive(tree: ast.Module) -> set[str]:
    """Functions that lead to themselves within *tree*, through others and through tables of functions.

    Whatever is mentioned may be called.  A call of the same method of another object is not seen.
    """
    functions = dict(defined(tree, ""))
    tables = {name: set(mentioned(node, "", functions)) for node in tree.body for name in assigned(node)}
    calls = {
        name: {*mentioned(node, name, functions), *(it for table in used(node) & tables.keys() for it in tables[table])}
        for name, node in functions.items()
    }
    return {name for name in functions if name in reached(name, calls)}


def defined(node: ast.AST, within: str) -> Iterator[tuple[str, Function]]:
    """Functions by their names, each behind that of its class or of the function around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield within + child.name, child
        inside = f"{within}{child.name}." if isinstance(child, Function | ast.ClassDef) else within
        yield from defined(child, inside)


def mentioned(node: ast.AST, name: str, functions: dict[str, Function]) -> Iterator[str]:
    """Functions that *node*, which is the function *name*, speaks of, by name or as methods."""
    around = [name, *accumulated(name), ""]
    variables = {it.id for it in ast.walk(node) if isinstance(it, ast.Name) and isinstance(it.ctx, ast.Store)}
    variables |= {it.arg for it in ast.walk(node) if isinstance(it, ast.arg)}
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id not in variables:
            places = (f"{place}.{each.id}".removeprefix(".") for place in around if not is_class(place))
            yield from [place for place in places if place in functions][:1]
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            owner = next(filter(is_class, around), "") if each.value.id in ("self", "cls") else each.value.id
            if f"{owner}.{each.attr}" in functions:
                yield f"{owner}.{each.attr}"


def accumulated(name: str) -> Iterator[str]:
    """The names around *name*, innermost first."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def is_class(name: str) -> bool:
    return name.rpartition(".")[2].lstrip("_")[:1].isupper()


def used(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def assigned(node: ast.stmt) -> Iterator[str]:
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
    yield from (target.id for target in targets if isinstance(target, ast.Name))


def reached(name: str, calls: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [*calls[name]]
    while waiting:
        following = waiting.pop()
        if following not in found:
            found.add(following)
            waiting += calls[following]
    return found


def test_whoever_recurses_is_bounded() -> None:
    """Every function that leads back to itself is known, with the limit that is checked before it is called."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}
    found = {name: recursive(ast.parse(path.read_text("utf-8"))) for name, path in modules.items()}

    assert {name: names for name, names in found.items() if names} == {n: {*known} for n, known in BOUNDED.items()}


def test_recursion_is_found() -> None:
    """Directly, through another, through a method and through a table; calling another's method of the name is none."""
    tree = ast.parse(
        "def a(): a()\n"
        "def b(): return [c(it) for it in ()]\n"
        "def c(it): return TABLE[it](it)\n"
        "TABLE = {1: b}\n"
        "class D:\n"
        "    def e(self): return map(self.f, ())\n"
        "    def f(self, it): return self.e()\n"
        "    def g(self): return self.inner.g()\n"
        "def h(g):\n"
        "    def i(): return g(i)\n"
        "    h = i\n"
    )

    assert recursive(tree) == {"a", "b", "c", "D.e", "D.f", "h.i"}
