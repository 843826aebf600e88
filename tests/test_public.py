"""What code from outside may rely on: the examples need nothing else, and a page of the reference names all of it."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, get_args, get_type_hints

import pytest
from attrs import fields

import kiro_asgi
from kiro_asgi import config, streaming
from kiro_asgi.stages.thinking import MODES, SCANS
from kiro_asgi.stages.tool_calls import EMISSIONS
from kiro_asgi.upstreams.builtin import BuiltinSettings
from tests.examples import EXAMPLES
from tests.public import PUBLIC

EXTENDING = {
    "river_upstream": 120,
    "lake_upstream": 130,
    "folder_store": 65,
    "redacting_stage": 35,
    "plain_dialect": 100,
    "ollama_dialect": 240,
    "counting_observer": 45,
}
"""Examples that add something to the gateway, and the lines that each stays below."""

REFERENCE = (
    (EXAMPLES.parent / "reference" / "extending.rst").read_text("utf-8"),
    (EXAMPLES.parent / "reference" / "python.rst").read_text("utf-8"),
)


def test_the_names_of_the_package_come_when_they_are_asked_for() -> None:
    """A program that needs one module, as a plugin of pytest does, waits for no other; checkers see what there is."""
    alone = "import sys, kiro_asgi, kiro_asgi.errors; print(*[it for it in sys.modules if it.startswith('kiro')])"
    found = subprocess.run([sys.executable, "-c", alone], check=True, capture_output=True, text=True).stdout.split()
    tree = ast.parse(inspect.getsource(kiro_asgi))
    (told,) = (node for node in tree.body if isinstance(node, ast.If))
    homes = {it.name: node.module for node in told.body if isinstance(node, ast.ImportFrom) for it in node.names}

    assert set(found) <= {"kiro_asgi", "kiro_asgi._version", "kiro_asgi.errors", "kiro_asgi.redaction"}
    assert {*homes, "__version__"} == set(kiro_asgi.__all__) <= set(dir(kiro_asgi))
    for name, module in homes.items():
        assert getattr(kiro_asgi, name) is getattr(import_module(module or ""), name)
    assert kiro_asgi.streaming is streaming
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kiro_asgi.nothing


@pytest.mark.parametrize("name", EXTENDING)
def test_examples_import_public_names_only(name: str) -> None:
    """What an outsider writes never reaches into the house."""
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text("utf-8"))
    imported = [
        (node.module, it.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for it in node.names
    ]
    modules = [it.name for node in ast.walk(tree) if isinstance(node, ast.Import) for it in node.names]
    ours = [(module, it) for module, it in imported if module is not None and module.startswith("kiro_asgi")]

    assert ours
    assert not [module for module in modules if module.startswith("kiro_asgi")]
    for module, it in ours:
        assert f"{module}.{it}" in PUBLIC or (module in PUBLIC and it in import_module(module).__all__), (module, it)


@pytest.mark.parametrize("name", EXTENDING)
def test_examples_are_short_and_shown(name: str) -> None:
    """A page includes each, whole."""
    pages = "".join(page.read_text("utf-8") for page in (EXAMPLES.parent / "how-to").glob("*.rst"))

    assert len((EXAMPLES / f"{name}.py").read_text("utf-8").splitlines()) < EXTENDING[name]
    assert f".. literalinclude:: ../examples/{name}.py" in pages


@pytest.mark.parametrize("module", PUBLIC)
def test_the_reference_has_all_of_it(module: str) -> None:
    """Of a module, or name by name; errors have a page of their own, and what a shown module has is shown there."""
    shown, modules = "\n".join(REFERENCE), [import_module(other) for other in PUBLIC]
    whole = [other for other in modules if f"automodule:: {other.__name__}\n" in shown]
    known = {*import_module("kiro_asgi.errors").__all__, *(it for other in whole for it in other.__all__)}
    missing = [it for it in import_module(module).__all__ if it not in known and f":: {module}.{it}\n" not in shown]

    assert f"automodule:: {module}\n" in shown or missing in ([], ["__version__"])


def _types(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from (it for each in (part if isinstance(part, list) else [part]) for it in _types(each))


def test_the_library_exports_the_types_of_its_functions() -> None:
    """Who annotates a variable with what a function takes or gives imports nothing else."""
    exported = [getattr(streaming, name) for name in streaming.__all__]
    members = {id(it) for each in exported for it in _types(each)}
    functions = [it for it in exported if inspect.isfunction(it)]
    hints = {it for function in functions for hint in get_type_hints(function).values() for it in _types(hint)}
    ours = {it for it in hints if getattr(it, "__module__", "").startswith("kiro_asgi")}

    assert streaming.Message in ours
    assert not [it for it in ours if id(it) not in members]


def test_the_library_names_the_values_of_its_options() -> None:
    """Its literals are the words that the stages know."""
    assert get_args(streaming.ThinkingHandling) == MODES
    assert get_args(streaming.ThinkingScan) == SCANS
    assert get_args(streaming.ToolEmission) == EMISSIONS


def test_the_package_exports_every_slice_of_the_settings() -> None:
    """Those of the gateway and of upstreams from outside; the slice of one service stands in ``kiro_asgi.config``."""
    services = {
        type(getattr(config.Settings(), name)).__name__
        for name in (it.name for it in fields(BuiltinSettings) if it.name != "custom")
    }
    slices = {it for it in config.__all__ if it.endswith("Settings")}

    assert services < slices
    assert sorted(slices - services) == sorted(it for it in kiro_asgi.__all__ if it.endswith("Settings"))
