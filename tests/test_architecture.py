"""The house keeps its shape: who may import whom, what is free of I/O, and that no module holds state."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import kiro_asgi
from tests.public import PUBLIC

ROOT = Path(kiro_asgi.__file__).parent
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}

SANS_IO = (
    *("errors", "limits", "patterns", "setting", "model", "wire", "failures", "stages", "rendering", "upstreams"),
    "dialects",
    "recovery",
)
FORBIDDEN_WITHOUT_IO = {"asyncio", "socket", "ssl", "threading", "time", "logging", "os"}

FACTS = "errors limits"
PURE = f"{FACTS} model wire stages"
SERVED = "config net asgi asgi.kept asgi.exchange asgi.door"
ANYIO = "anyio attrs"

ROOMS: dict[str, tuple[str, str]] = {
    "errors": ("", ""),
    "limits": ("", ""),
    "patterns": ("", "attrs"),
    "setting": ("", "attrs"),
    "interface": ("", "attrs"),
    "extension": ("errors setting interface", "attrs"),
    "redaction": ("", "attrs"),
    "loops": ("", ANYIO),
    "private": ("", ""),
    "visible": ("", ""),
    "_version": ("", ""),
    "named": ("errors", ""),
    "model": (f"{FACTS} patterns", "attrs"),
    "wire": (FACTS, "attrs"),
    "failures": (f"{FACTS} wire.json", "attrs"),
    "state": (f"{FACTS} loops private extension", f"{ANYIO} valkey"),
    "stages": (f"{FACTS} model wire.json interface extension", "attrs"),
    "recovery": ("model stages", ""),
    "quota": ("errors patterns setting loops visible state", ANYIO),
    "rendering": (PURE, "attrs"),
    "upstreams": (f"{PURE} failures patterns setting redaction _version rendering interface", "attrs"),
    "dialects": (f"{PURE} failures setting interface", "attrs cattrs"),
    "observers": (f"{FACTS} visible model state.pending stages extension", f"{ANYIO} opentelemetry prometheus_client"),
    "simulator": ("wire", f"{ANYIO} h11"),
    "tapes": (f"{FACTS} setting redaction private visible _version model wire state observers", "attrs"),
    "config": (
        f"{FACTS} private setting extension quota.settings tapes.settings dialects.manifest observers.base stages.base "
        "state.base upstreams.builtin upstreams.manifest upstreams.services upstreams.settings",
        "attrs",
    ),
    "net": (
        f"{FACTS} setting redaction loops private state upstreams.access upstreams.base upstreams.models config",
        f"{ANYIO} botocore httpcore",
    ),
    "simulation": ("errors upstreams.base simulator net.transport", ANYIO),
    "asgi": (f"{FACTS} loops interface wire.packed dialects config", f"{ANYIO} asgiref"),
    "asgi.kept": (
        f"{FACTS} patterns private setting interface extension redaction model wire state stages quota upstreams "
        "dialects.known "
        "observers tapes config net",
        ANYIO,
    ),
    "asgi.exchange": (
        f"{PURE} failures patterns loops private state quota upstreams dialects observers config net asgi asgi.kept",
        ANYIO,
    ),
    "asgi.door": (
        f"{FACTS} setting interface extension loops _version state stages quota upstreams dialects observers config "
        "net simulation asgi asgi.kept asgi.exchange",
        f"{ANYIO} asgiref",
    ),
    "apis": (
        f"{PURE} loops _version named interface state dialects observers config asgi asgi.exchange asgi.door",
        ANYIO,
    ),
    "compose": (f"{SERVED} loops model state stages quota dialects observers apis", ANYIO),
    "replay": (
        f"{PURE} upstreams.base upstreams.manifest simulator tapes {SERVED} compose",
        ANYIO,
    ),
    "inspector": (
        "errors setting model wire quota observers tapes config asgi asgi.kept asgi.exchange replay",
        ANYIO,
    ),
    "create": (
        "errors state stages upstreams dialects observers config asgi asgi.kept asgi.door compose inspector",
        "attrs",
    ),
    "contract": ("errors model stages upstreams dialects", ""),
    "streaming": ("errors model wire stages recovery upstreams dialects contract", "attrs"),
    "pytest_plugin": ("errors simulator tapes config replay", "attrs pytest"),
    "cli": (
        f"{PURE} failures setting extension redaction private visible _version named state quota upstreams dialects "
        f"observers simulator tapes {SERVED} replay inspector create",
        f"{ANYIO} h11 hypercorn rich wsproto",
    ),
    "testing": (
        "errors model wire stages state upstreams dialects config asgi create cli.standalone",
        ANYIO,
    ),
    "__init__": (
        "errors _version model state quota stages upstreams dialects observers config asgi.kept asgi.door create",
        "",
    ),
    "__main__": ("cli", ""),
}
"""Every room, from the ground up: a folder, or a module that has none.  Each with what it imports, rooms or modules of
rooms that stand before it, and the foreign packages."""

PARTIES = {
    f"{room}.{folder.name}"
    for room in ("upstreams", "dialects")
    for folder in (ROOT / room).iterdir()
    if (folder / "__init__.py").exists()
}
"""Folders that know one vendor or one client API: none may know another, nor may what they share know one of them."""

NAMED = re.compile(
    r"(?<![\w-])(?:kiro|gemini|anthropic|openai|bedrock|custom)(?![\w-])"
    r"|^(?:KIRO_(?!ASGI)|GEMINI_|ANTHROPIC_|BEDROCK_)|^(?:Kiro|Gemini|Anthropic|OpenAI|Bedrock)(?:Settings|Upstream)$"
)
"""An upstream by the name of its settings, folder, variables or classes; not this package's own name."""

APIS = tuple(
    f"apis.{path.stem}"
    for path in (ROOT / "apis").iterdir()
    if path.stem not in ("__init__", "operations", "gateway", "start_page", "description")
)
"""What awaits for one client API: homes of that API, which its manifest names."""

COMMANDS = tuple(f"cli.{folder.parent.name}" for folder in (ROOT / "cli").glob("*/__init__.py"))
"""Folders with what the command can do for one upstream alone: homes of that upstream, which its manifest names."""

MAY_KNOW = {
    "upstreams.bedrock.claude": ("upstreams.anthropic", "InvokeModel's bodies and events are the Messages API's")
}
"""Modules that know another party, which one, and why.  It may only shrink."""

BUILTIN = ("upstreams.builtin", "dialects.builtin")
"""The modules that list what comes with the package."""

NAMES_DIALECT = re.compile(
    r"\b(?:openai_(?:chat|responses|completions)|(?:Anthropic|OpenAI)(?!Settings|Upstream)[A-Z]\w+|ANTHROPIC_MESSAGES|OPENAI_[A-Z]+)\b"
    r"|/v1/(?!models\b|v1/)\w"
)
"""A client API by the name of its folder, classes or values, or by one of its paths."""

MAY_NAME_DIALECT = {
    "contract": "the first gateways' contract has Anthropic's streams",
    "streaming": "functions that others call by names that are fixed",
    "cli.demo": "a client of three APIs",
}
"""Modules outside the folders that name a client API, and why.  It may only shrink."""

MAY_NAME = {
    "contract": "the first gateways' contract is about Kiro, and its functions' names are fixed",
    "streaming": "functions that others call by names that are fixed, for answers of Kiro",
    "recovery": "a kind of call that is named like the slice of an upstream",
    "model.own_lines": "lines that clients write for a vendor",
    "model.signatures": "marks in signatures that clients hold, and give to later versions",
    "asgi.exchange.passthrough": "a sentence about a setting",
    "config.__init__": "names that users import",
}
"""Modules outside the folders that name an upstream, or a dialect of the same name, and why.  It may only shrink."""

SIMULATED = tuple(f"simulator.{folder.parent.name}" for folder in (ROOT / "simulator").glob("*/__init__.py"))
"""Formats that the simulator speaks.  It shares no code with what it tests, so it has a list of its own."""

SPOKEN_BY_ONE = re.compile(
    r"conversationState|userInputMessage|assistantResponseMessage|additionalModelRequestFields|toolSpecification"
    r"|(?:assistantResponse|reasoningContent|toolUse|contextUsage|metering|metadata)Event"
)
"""Words of the first service that was simulated, in which all the others were told once."""

INDEPENDENT = ("simulator", "testing")
"""What shares no code with what it tests, and so knows the client APIs by itself."""

MODULE_PATH = re.compile(r"`((?:\w+/)+\w+\.py)`")
"""A module by its path below the package, or below the project, on a page."""

READ_ONLY = ("Final", "Mapping", "Sequence", "Set", "frozenset", "tuple")
"""Annotations that say a module-level object is not to be changed."""


def each_module(check: Callable[[str], None]) -> Callable[[], None]:
    """A test that *check* holds for each module: one for all of them, as thousands would take longer than they look."""

    def test() -> None:
        failed = {}
        for name in MODULES:
            try:
                check(name)
            except AssertionError as error:
                failed[name] = str(error)
        assert failed == {}

    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test


def room_of(name: str) -> str:
    """The room of a module: the folder that it is in, or itself."""
    return max((room for room in ROOMS if within(name, room)), key=len, default="__init__")


def within(module: str, package: str) -> bool:
    return not package or module == package or module.startswith(package + ".")


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text("utf-8"))


def imports(name: str) -> Iterator[str]:
    """Full names of what a module imports, wherever in it, names before modules: ``from a import b`` is ``a.b``."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            yield from (it.name for it in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{it.name}" for it in node.names)


def own(name: str) -> Iterator[str]:
    return (it.removeprefix("kiro_asgi.") for it in imports(name) if within(it, "kiro_asgi"))


def foreign(name: str) -> set[str]:
    return {it.partition(".")[0] for it in imports(name)} - {"kiro_asgi"}


def may_import(name: str, imported: str) -> bool:
    """Whether the module *name* may import what is called *imported*."""
    room = room_of(name)
    allowed, _ = ROOMS[room]
    return room_of(imported) == room or any(_leads_to(imported, entry) for entry in allowed.split())


@each_module
def test_arrows_never_go_up(name: str) -> None:
    """A room imports itself and what is listed for it, wherever in a module, for type checkers too."""
    assert [it for it in own(name) if not may_import(name, it)] == []


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("asgi.door.app", "inspector.site"),
        ("dialects.gemini.dialect", "asgi.exchange.call"),
        ("dialects.openai_responses.dialect", "config.Settings"),
        ("dialects.openai_responses.frames", "observers.base"),
        ("upstreams.kiro.tokens", "net.transport"),
        ("upstreams.kiro.tokens", "config.Settings"),
        ("upstreams.kiro.tokens", "asgi.exchange.providers"),
        ("upstreams.kiro.__init__", "cli.kiro.login"),
        ("replay.run", "create"),
        ("asgi.kept.taping", "asgi.exchange.call"),
        ("asgi.exchange.relay", "asgi.door.app"),
    ],
)
def test_arrows_that_there_were_are_refused(name: str, imported: str) -> None:
    """Those that ran up before the third drawing, and some that its rooms tempt one to."""
    assert name in MODULES and not may_import(name, imported)


def test_what_a_room_imports_stands_before_it() -> None:
    """So no room leads back to itself, and none has a right that it does not use."""
    rooms = [*ROOMS]
    used: dict[str, set[str]] = {room: set() for room in rooms}
    for name in MODULES:
        used[room_of(name)].update(own(name))
    wrong = {}
    for place, (room, (allowed, _)) in enumerate(ROOMS.items()):
        later = {it for it in allowed.split() if room_of(it) not in rooms[:place]}
        unused = {it for it in allowed.split() if not any(_leads_to(imported, it) for imported in used[room])}
        if later or unused:
            wrong[room] = (later, unused)

    assert wrong == {}


def _leads_to(imported: str, entry: str) -> bool:
    """Whether what is imported is within *entry*, and in no room within that."""
    return within(imported, entry) and room_of(imported) == room_of(entry)


def test_no_module_leads_back_to_itself() -> None:
    """Not by imports within functions either: one of the two would not be complete when the other reads it."""
    arrows = {name: {target for it in own(name) if (target := _module(it)) != name} for name in MODULES}
    left = dict(arrows)
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]

    assert {name: sorted(targets & left.keys()) for name, targets in left.items()} == {}


def _module(imported: str) -> str:
    """The module that *imported* is, or is in."""
    while imported not in MODULES and f"{imported}.__init__" not in MODULES:
        imported = imported.rpartition(".")[0]
    return imported if imported in MODULES else f"{imported}.__init__".removeprefix(".")


def test_each_room_is_there() -> None:
    """A room that is listed is a folder or a module."""
    assert {room_of(name) for name in MODULES} == {*ROOMS}


@each_module
def test_parties_do_not_know_each_other(name: str) -> None:
    """What knows one vendor is in that vendor's folder, so a vendor can be added, or removed, with its folder."""
    if name.partition(".")[0] in ("upstreams", "dialects") and name not in BUILTIN:
        others = [party for party in PARTIES if not within(name, party) and party not in MAY_KNOW.get(name, ())]

        assert [it for it in own(name) if any(within(it, party) for party in others)] == []


@each_module
def test_what_a_manifest_names_is_not_imported(name: str) -> None:
    """What the command can do for one upstream alone, and what awaits for one client API, is found by a manifest."""
    homes = (*APIS, *COMMANDS)

    assert [it for it in own(name) if any(within(it, home) and not within(name, home) for home in homes)] == []


def named_in(name: str, party: re.Pattern[str], room: str) -> list[int]:
    """Lines of a module that name a party of a room, in code and texts, but not in docstrings."""
    docs = {id(node.value) for node in ast.walk(tree(name)) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree(name)):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docs:
                words = text
            case ast.Attribute(attr=words) | ast.Name(id=words) | ast.keyword(arg=str(words)):
                pass
            case ast.ImportFrom(module=str(module)):
                words = module.replace(".", " ") if within(module, f"kiro_asgi.{room}") else ""
            case ast.alias(name=words):
                pass
            case _:
                continue
        if party.search(words):
            found.append(node.lineno)
    return found


@each_module
def test_the_simulator_speaks_one_form_of_its_own(name: str) -> None:
    """Questions and answers are neutral, and each service is one folder that reads and writes them in its own words."""
    if within(name, "simulator") and not any(within(name, f"simulator.{home}") for home in ("kiro", "bedrock")):
        assert SPOKEN_BY_ONE.findall(MODULES[name].read_text("utf-8")) == []


@each_module
def test_one_module_names_the_upstreams(name: str) -> None:
    """An upstream is its folder and its line in ``upstreams/builtin.py``: nobody else knows which there are."""
    if not any(
        within(name, home)
        for home in (*PARTIES, *APIS, *COMMANDS, *SIMULATED, *BUILTIN, "simulator.formats", "testing")
    ):
        assert bool(named_in(name, NAMED, "upstreams")) == (name in MAY_NAME)


@each_module
def test_one_module_names_the_client_apis(name: str) -> None:
    """A client API is its folder and its line in ``dialects/builtin.py``."""
    if not any(within(name, home) for home in (*PARTIES, *APIS, *BUILTIN, *INDEPENDENT)):
        assert bool(named_in(name, NAMES_DIALECT, "dialects")) == (name in MAY_NAME_DIALECT)


def test_what_is_not_set_up_is_not_imported() -> None:
    """Of other upstreams no more than ``__init__.py``, manifest and settings, is read by who imports the package or
    makes an app; and nothing of the inspector."""
    code = """
import sys, kiro_asgi
def loaded():
    inner = (name.split(".") for name in sys.modules if name.startswith("kiro_asgi.upstreams."))
    return {parts[2] for parts in inner if len(parts) > 3 and parts[3] != "settings"}
print(*loaded())
settings = {"client": {"api_keys": ["k"]}, "gemini": {"api_key": "k"}, "custom": {"x": {"endpoint": "http://h/v1"}}}
kiro_asgi.create_app(kiro_asgi.Settings.from_mapping(settings))
print(*sorted(loaded()), *(name for name in sys.modules if name.startswith("kiro_asgi.inspector")))
"""
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert printed.splitlines() == ["", "gemini openai"]


@each_module
def test_foreign_packages_stay_in_their_room(name: str) -> None:
    """Each dependency is known to as few rooms as possible; httpcore to one."""
    _, allowed = ROOMS[room_of(name)]

    assert foreign(name) - sys.stdlib_module_names <= {*allowed.split()}


def test_a_room_has_no_package_that_it_does_not_use() -> None:
    """What a room may import of others, it does."""
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    for name in MODULES:
        used[room_of(name)] |= foreign(name)

    assert {room: left for room, (_, known) in ROOMS.items() if (left := {*known.split()} - used[room])} == {}


@each_module
def test_one_module_knows_rich(name: str) -> None:
    """An extra that only terminals need: the commands print in the project's own words."""
    assert "rich" not in foreign(name) or name == "cli.terminal"


@each_module
def test_one_module_knows_each_way_to_export_metrics(name: str) -> None:
    """Extras: whoever wants no metrics, or others, needs neither."""
    assert "prometheus_client" not in foreign(name) or name == "observers.prometheus"
    assert "opentelemetry" not in foreign(name) or name == "observers.otel"


@each_module
def test_what_does_no_io_cannot(name: str) -> None:
    """Bytes and values go in and out of the lower rooms; they neither wait nor look at the world."""
    if room_of(name) in SANS_IO:
        waits = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)

        assert foreign(name) & FORBIDDEN_WITHOUT_IO == set()
        assert [node.lineno for node in ast.walk(tree(name)) if isinstance(node, waits)] == []


@each_module
def test_modules_hold_no_state(name: str) -> None:
    """What lives as long as the process is constant; a table says so by its annotation or its type."""
    mutable = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    kinds = ("list", "dict", "set", "bytearray", "deque", "defaultdict", "Counter", "OrderedDict", "count")
    found = []
    for node in tree(name).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and not _is_read_only(node):
            value = node.value
            called = ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
            if isinstance(value, mutable) or called in kinds:
                found.append(node.lineno)

    assert found == []
    assert [node.lineno for node in ast.walk(tree(name)) if isinstance(node, ast.Global)] == []


def _is_read_only(node: ast.Assign | ast.AnnAssign) -> bool:
    if isinstance(node, ast.Assign):
        return [ast.unparse(target) for target in node.targets] == ["__all__"]
    return ast.unparse(node.annotation).startswith(READ_ONLY) or ast.unparse(node.target) == "__all__"


@each_module
def test_public_modules_say_what_they_offer(name: str) -> None:
    """``__all__`` is a promise to code from outside, or says what a module hands on that stands in others; elsewhere it
    would repeat what imports say."""
    body = tree(name).body
    imported = {it.name for node in ast.walk(tree(name)) if isinstance(node, ast.ImportFrom) for it in node.names}
    listed = [node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
    handed_on = {it for each in listed for it in ast.literal_eval(each)} & imported
    public = ".".join(["kiro_asgi", *name.split(".")]).removesuffix(".__init__") in PUBLIC

    assert bool(listed) == (public or bool(handed_on))


def test_pages_name_modules_that_there_are() -> None:
    """A path of a module on a page, or in `CONTRIBUTING.md`, leads to it."""
    pages = [*(ROOT.parent / "docs").rglob("*.rst"), ROOT.parent / "CONTRIBUTING.md"]
    named = {path for page in pages for path in MODULE_PATH.findall(page.read_text("utf-8"))}

    assert len(named) > 40
    assert [path for path in sorted(named) if not any((base / path).exists() for base in (ROOT, ROOT.parent))] == []
