"""No block of a page is unaccounted for: a test runs it, or a comment before it gives the reason why none does.

``pytest tests/test_pages.py -k count -s`` prints how many there are of each.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from attrs import frozen

from kiro_asgi import simulator
from tests.cli.processes import Serving, serving
from tests.newcomer.pages import Block, Step, blocks_of, steps_of
from tests.newcomer.terminal import Terminal, furnish, is_installation, terminal

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.rst"))]

LANGUAGES = {
    "sh": "tests/test_pages.py::test_the_commands_of_a_page_work",
    "console": "tests/test_pages.py::test_the_commands_of_a_page_work",
    "python": "tests/test_docs.py::test_python_in_the_pages_runs",
    "toml": "tests/test_docs.py::test_settings_files_in_the_pages_are_valid",
    "json": "tests/test_pages.py::test_json_is_json",
}
"""Language of a block to the test that runs each block in it."""

SHOWN = {
    "examples/clients/": "tests/clients",
    "examples/django_project/": "tests/test_docs.py::test_the_django_projects_pass_their_own_tests",
    "examples/django_keys/": "tests/test_docs.py::test_the_django_projects_pass_their_own_tests",
    "examples/own_keys.py": "tests/asgi/test_client_table.py",
    "examples/quart_users.py": "tests/e2e/hosts/test_recipes.py",
    "examples/starlette_users.py": "tests/e2e/hosts/test_recipes.py",
    "examples/test_with_simulator.py": "tests/test_docs.py::test_the_example_test_passes",
    "examples/test_with_kit.py": "tests/test_docs.py::test_the_example_test_passes",
    "examples/test_with_tape.py": "tests/test_pytest_plugin.py",
    "examples/request.json": "tests/cli/test_explain.py",
    "deployment/": "tests/deployment/test_files.py",
}
"""Beginning of a shown file's path to the test of it, where not a test has the name of the file itself."""

WORDS = frozenset({"text", "literal", "http"})
"""Languages of what is no code: outputs, which the test of the command before compares, and drawings."""

CODE = re.compile(r"(?:\$ )?(?:curl|pip|kiro-asgi|export|python3?|hypercorn|uvicorn|granian|docker|npm|import|from)\s")
"""How code begins that pretends to be text."""


@frozen
class Located:
    """A block, and where it is."""

    page: Path
    block: Block

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.block.line}"


BLOCKS = [Located(page, block) for page in PAGES for block in blocks_of(page)]


def runner(located: Located) -> str:
    """The test that runs a block; empty where there is none."""
    block = located.block
    if block.run_by:
        return block.run_by
    if not block.shown:
        return LANGUAGES.get(block.language, "")
    path = (located.page.parent / block.shown).resolve().relative_to(DOCS).as_posix()
    known = (test for start, test in SHOWN.items() if path.startswith(start))
    return next(known, "") or next(naming(Path(path).stem), "")


def naming(name: str) -> Iterator[str]:
    """Tests that name an example."""
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        if re.search(rf"\b{name}\b", file.read_text("utf-8")):
            yield str(file.relative_to(ROOT))


def exists(test: str) -> bool:
    """Whether there is that test, file or folder of tests."""
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.exists() and (not name or f"def {name}(" in path.read_text("utf-8"))


def test_no_block_is_unaccounted_for() -> None:
    """Each is run, or has its reason."""
    lost = [
        f"{it} is a block in {it.block.language or 'no language'} that no test runs. Use a language of LANGUAGES in "
        "tests/test_pages.py, name its test in a comment before it (.. run by: tests/…::test_…), or give the reason "
        "why it cannot be run (.. not run: needs …)"
        for it in BLOCKS
        if it.block.language not in WORDS and not it.block.not_run and not runner(it)
    ]

    assert not lost, "\n".join(lost)


def test_the_tests_that_are_named_exist() -> None:
    named = {it.block.run_by: str(it) for it in BLOCKS if it.block.run_by} | dict.fromkeys(
        (*LANGUAGES.values(), *SHOWN.values()), "here"
    )

    assert {test: place for test, place in named.items() if not exists(test)} == {}


def test_text_is_no_code() -> None:
    """What a reader would paste is not hidden from the tests by the language of its block."""
    hidden = [it for it in BLOCKS if it.block.language in WORDS and not it.block.not_run and is_code(it.block.code)]

    assert [*map(str, hidden)] == [], "give these blocks their own language: sh, console, python …"


def is_code(text: str) -> bool:
    """Whether it is a command, or Python that does something."""
    if CODE.match(text):
        return True
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Call | ast.Import | ast.ImportFrom | ast.Assign) for node in ast.walk(tree))


@pytest.mark.parametrize(
    "code", [pytest.param(it.block.code, id=str(it)) for it in BLOCKS if it.block.language == "json"]
)
def test_json_is_json(code: str) -> None:
    assert json.loads(code)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A gateway for pages that ask one, and start none."""
    with serving("--simulate", cwd=tmp_path_factory.mktemp("gateway")) as server:
        yield server


@pytest.fixture
def reader(gateway: Serving, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal in a folder with what the pages show, and what a reader has."""
    with simulator.running() as service:
        service.accounts.devices.interval = 0.02
        with terminal(tmp_path, gateway.base.removeprefix("http://"), service.url) as made:
            furnish(tmp_path, DOCS / "examples", ROOT / "tests" / "tapes" / "corpus" / "counting.tape.jsonl")
            yield made


def commands_of(page: Path) -> list[Step]:
    """The steps of a page that this suite takes: `tests.test_docs` runs Python."""
    return [it for it in steps_of(page) if it.language == "shell" and not it.not_run]


WITH_COMMANDS = [page for page in PAGES if any(not is_installation(it) for it in commands_of(page))]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_work(page: Path, reader: Terminal) -> None:
    """In their order, in one shell and one folder, with the outputs that the page has; every server answers."""
    for block in blocks_of(page):
        if block.language == "toml" and block.caption.endswith(".toml"):
            (reader.folder / block.caption).write_text(block.code)
    for step in commands_of(page):
        wrong = reader.take(step)
        assert not wrong, (
            f"{step.place}: {step.code}\n{wrong}\nMend the page; or, if this cannot work here, give the reason in a "
            "comment before the block (.. not run: needs …), or name the test that runs it (.. run by: tests/…)"
        )


RULE = re.compile(r"(?m)^(?:=+ +)+=+$")
"""A rule of a simple table."""


def first_cells(page: Path) -> Iterator[tuple[str, bool]]:
    """First cell of each row of the simple tables of *page*, and whether it is the only one with anything in it."""
    table: list[int] = []
    for line in page.read_text("utf-8").splitlines():
        if RULE.fullmatch(line):
            table = [match.start() for match in re.finditer("=+", line)]
        elif not line.strip():
            table = []
        elif table and line[0] != " ":
            yield line[: table[1]].strip(), not line[table[1] :].strip()


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.rst")), ids=lambda page: page.stem)
def test_no_cell_of_a_table_is_cut_into_rows(page: Path) -> None:
    """Each text in the first column begins a row: what should go on with the one before has lost what that says."""
    assert [cell for cell, alone in first_cells(page) if alone or cell.endswith((",", " and", " or"))] == []


def test_count(capsys: pytest.CaptureFixture[str]) -> None:
    """The account, to be quoted: blocks of code by what happens to them."""
    code = [it for it in BLOCKS if it.block.language not in WORDS]
    rows = sorted((it.block.language, bool(it.block.not_run)) for it in code)
    table = Counter(rows)
    with capsys.disabled():
        print(f"\n{len(code)} blocks of code on {len(PAGES)} pages; with outputs and drawings {len(BLOCKS)}")
        for language, group in groupby(table.items(), key=lambda it: it[0][0]):
            counts = {reason: count for (_, reason), count in group}
            print(f"{language:<12} {counts.get(False, 0):>4} run {counts.get(True, 0):>4} not, with the reason")
        total = Counter(reason for _, reason in rows)
        print(f"{'all':<12} {total[False]:>4} run {total[True]:>4} not, with the reason")

    assert total[False] > 100


LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
REST_LINK = re.compile(r"`[^`]*<(\S+?)>`_|(?<![`<\w])(https?://[^\s>`\"')]+)")
MARKDOWN = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]


def prose(page: Path) -> str:
    """A page without its code, whose addresses are examples."""
    text = page.read_text("utf-8")
    if page.suffix == ".md":
        return re.sub(r"^```.*?^```|`[^`\n]+`", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^ *\.\. code-block::.*\n(?:\n|   .*\n)+|``.+?``|`[^`\n]+`(?!_)", "", text, flags=re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What a forge lets a link lead to: the headings of a page, and targets that it has by name."""
    text = page.read_text("utf-8")
    if page.suffix == ".md":
        headings = re.findall(
            r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
        )
    else:
        headings = re.findall(r"^(\S.*)\n(?:=|-|~){3,}$", text, re.MULTILINE)
    named = re.findall(r"^\.\. _([\w-]+):$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", it.lower()).strip().replace(" ", "-") for it in headings} | {*named}


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link is a file of the tree, each anchor a heading or a named target there, as a forge has it."""
    targets = [first or second for first, second in LINK.findall(prose(page))]
    relative = [it for it in targets if "://" not in it and not it.startswith("mailto:")]
    broken = []
    for target in relative:
        path, _, anchor = target.partition("#")
        file = ROOT / path if path else page
        if not file.is_file() or (anchor and anchor not in anchors(file)):
            broken.append(target)

    assert broken == []
    assert len(relative) > 20 or page.name != "README.md"


@pytest.mark.parametrize("page", [*MARKDOWN, *PAGES[2:]], ids=lambda page: str(page.relative_to(ROOT)))
def test_addresses_are_addresses(page: Path) -> None:
    """Links out of the tree are complete, and encrypted unless they lead to this machine; whether anybody is there is
    not asked."""
    found = LINK.findall(prose(page)) if page.suffix == ".md" else REST_LINK.findall(prose(page))
    wrong = []
    for target in (first or second for first, second in found):
        parts = urlsplit(target)
        local = parts.hostname in ("127.0.0.1", "localhost")
        if "://" in target and (not parts.hostname or (parts.scheme != "https" and not local)):
            wrong.append(target)

    assert wrong == []
