"""The documentation is true: every piece of code in it runs, and so do the examples."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi import simulator
from kiro_asgi.cli import main
from kiro_asgi.config import describe
from kiro_asgi.upstreams.kiro.models import FALLBACK, find
from tests.cli.processes import Serving, clean_environment, serving
from tests.newcomer.pages import blocks_of
from tests.package.links import relative_links
from tests.pictures import picture

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.rst"))
TEXTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")] + PAGES
ADDRESS = "http://127.0.0.1:8000"
HOST_ENVIRONMENT = {
    "KIRO_API_KEY": "ksk_docs",
    "KIRO_ASGI__CLIENT__ALLOW_ANONYMOUS": "true",
    "DJANGO_SETTINGS_MODULE": "django.conf.global_settings",
}
"""What the pages tell a reader to set, with the least that lets a Django project start."""
SIMULATED = "simulated: no service is asked, and all answers are made up, as simulate is set\n"
"""What a gateway without a service logs."""


def each(language: str, *files: Path) -> list[Any]:
    """Code of one language on pages, but for what another test runs, or a comment gives the reason why none does."""
    return [
        pytest.param(block.code, id=f"{file.relative_to(ROOT)}:{block.line}")
        for file in files or TEXTS
        for block in blocks_of(file)
        if block.language == language and not (block.shown or block.run_by or block.not_run)
    ]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """What the reader has started before."""
    with serving("--simulate", cwd=tmp_path_factory.mktemp("docs")) as server:
        yield server


def run(command: list[str], code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=code,
        cwd=cwd,
        env=clean_environment(PYTHONPATH=str(DOCS / "examples"), **HOST_ENVIRONMENT),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("code", each("python"))
def test_python_in_the_pages_runs(code: str, gateway: Serving, tmp_path: Path) -> None:
    """Every Python block runs as it stands; what talks to the gateway shows an answer."""
    done = run([sys.executable, "-"], code.replace(ADDRESS, gateway.base), tmp_path)

    assert (done.returncode, done.stderr.removeprefix(SIMULATED)) == (0, "")
    assert bool(done.stdout.strip()) == ("print(" in code)


@pytest.mark.parametrize("code", [it for it in each("sh", ROOT / "README.md") if "curl -sN" in it.values[0]])
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_in_readme_runs(code: str, gateway: Serving, tmp_path: Path) -> None:
    """What a reader pastes into a shell gets a whole stream."""
    done = run(["sh", "-e"], code.replace(ADDRESS, gateway.base), tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("code", each("toml"))
def test_settings_files_in_the_pages_are_valid(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A settings file that is shown can be used."""
    (tmp_path / "gateway.toml").write_text(code)
    for name in {*os.environ} - {*clean_environment()}:
        monkeypatch.delenv(name)
    for name, value in HOST_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    assert main(["check", "--config", str(tmp_path / "gateway.toml")]) == 0
    assert capsys.readouterr().err == ""


PROBE = """
import asyncio, importlib, json, sys
from asgiref.testing import ApplicationCommunicator

sys.path.insert(0, {folder!r})
application = importlib.import_module({name!r}).application

async def get(path, *headers):
    scope = {{"type": "http", "http_version": "1.1", "method": "GET", "path": path, "raw_path": path.encode(),
              "root_path": "", "scheme": "http", "query_string": b"", "headers": [(b"host", b"h"), *headers],
              "client": ("127.0.0.1", 1), "server": ("h", 80)}}
    client = ApplicationCommunicator(application, scope)
    await client.send_input({{"type": "http.request", "body": b"", "more_body": False}})
    start = await client.receive_output(10)
    body = b""
    while True:
        message = await client.receive_output(10)
        body += message.get("body", b"")
        if not message.get("more_body"):
            await client.wait(10)
            return start["status"], body.decode()

async def main():
    return [await get(*request) for request in {requests!r}]

print(json.dumps(asyncio.run(main())))
"""


@pytest.mark.parametrize(
    ("name", "requests", "expected"),
    [
        pytest.param(
            name,
            [("/",), ("/llm/health",), ("/llm/v1/chat/completions",), ("/llmx",)],
            [(200, "The site itself."), (200, "ok"), (405, "POST"), (404, "")],
            id=name,
        )
        for name in ("bare_site", "django_site", "quart_site", "starlette_site")
    ]
    + [
        pytest.param(
            "guarded",
            [
                ("/",),
                ("/llm/health",),
                ("/llm/v1/nothing",),
                ("/llm/v1/models/x/y",),
                ("/llm/v1/models/x/y", (b"x-badge", b"badge-of-ada")),
                ("/llm/v1/messages/count_tokens", (b"x-badge", b"no")),
            ],
            [(404, ""), (200, "ok"), (404, ""), (401, ""), (404, ""), (405, "")],
            id="guarded",
        ),
        pytest.param(
            "ending_streams", [("/llm/health",), ("/llmx",)], [(200, "ok"), (404, "Not Found")], id="ending_streams"
        ),
    ],
)
def test_examples_run(name: str, requests: list[Any], expected: list[tuple[int, str]], tmp_path: Path) -> None:
    """C03/C06: the sites of the how-to pages serve themselves and the gateway, and the guard keeps strangers out."""
    code = PROBE.format(folder=str(DOCS / "examples"), name=name, requests=requests)
    environ = {key: value for key, value in HOST_ENVIRONMENT.items() if not key.startswith("DJANGO")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=clean_environment(**environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stderr == ""
    answers = json.loads(done.stdout)
    assert [status for status, _ in answers] == [status for status, _ in expected]
    assert all(words in body for (_, body), (_, words) in zip(answers, expected, strict=True))


@pytest.mark.parametrize(("name", "passed"), [("test_with_simulator", 1), ("test_with_kit", 3)])
def test_the_example_test_passes(name: str, passed: int, tmp_path: Path) -> None:
    """What the page on testing shows are tests that pass."""
    example = DOCS / "examples" / f"{name}.py"
    done = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(example)], "", tmp_path)

    assert done.returncode == 0, done.stdout
    assert f"{passed} passed" in done.stdout


@pytest.mark.parametrize(
    ("name", "settings", "passed"),
    [("django_project", "mysite.settings", 4), ("django_keys", "keysite.settings", 7)],
)
def test_the_django_projects_pass_their_own_tests(name: str, settings: str, passed: int, tmp_path: Path) -> None:
    """C03/C06: what the page on Django shows: session, token in the ORM, and `AsyncClient` through the gateway; and the
    keys that the admin site has."""
    project = shutil.copytree(DOCS / "examples" / name, tmp_path / "project")
    done = run([sys.executable, "-W", "error", "manage.py", "test", "--settings", settings], "", project)

    assert done.returncode == 0, done.stderr
    assert f"Ran {passed} tests" in done.stderr


def test_two_commands_set_everything_up() -> None:
    """A fresh machine needs one line to see it run, and one to pass the tests; the second is what `.ci/run` does."""
    service, tests = [
        line for block in blocks_of(ROOT / "README.md") for line in block.code.splitlines() if "-m venv" in line
    ]
    ci = (ROOT / ".ci" / "run").read_text()

    assert service.endswith(".venv/bin/kiro-asgi serve --simulate --inspect")
    assert all(part in ci for part in tests.split(" && "))


def test_no_page_installs_what_is_not_published() -> None:
    """There is no release: an index has nothing by this name, or something of a stranger's."""
    files = [*TEXTS, *(path for path in (DOCS / "deployment").iterdir() if path.suffix != ".json")]
    wrong = [file.name for file in files if re.search(r"pip install[^\n&]*kiro[-_]asgi", file.read_text("utf-8"))]

    assert wrong == []


def test_the_table_of_environments_is_that_of_tox() -> None:
    """CONTRIBUTING.md has each environment once, and says which of them a plain ``tox`` runs."""
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", "utf-8")
    always = {name for line in tox["tox"]["env_list"].split() for name in factors(line)}
    named = {section.removeprefix("testenv:") for section in tox.sections() if section.startswith("testenv:")}
    rows = re.findall(r"^\| ((?:`[^`]+` ?)+)\| (yes)? *\|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    listed = {name: bool(yes) for names, yes in rows for name in re.findall("`([^`]+)`", names)}

    assert listed == {name: name in always for name in always | named}


def factors(name: str) -> list[str]:
    """The environments of a line such as ``py{311,312}-served``."""
    start, brace, rest = name.partition("{")
    middle, _, end = rest.partition("}")
    return [f"{start}{part}{end}" for part in middle.split(",")] if brace else [name]


def test_pages_only_name_markers_that_exist() -> None:
    """A marker word in a page does what the page says only if there is one."""
    named = {word for file in TEXTS for word in re.findall(r"sim:([a-z][a-z0-9-]+)\b", file.read_text("utf-8"))}

    assert named
    assert named <= {*simulator.MARKERS, *(name for known in simulator.FORMAT_MARKERS.values() for name in known)}


def test_pages_link_only_to_files_that_exist() -> None:
    """README and the contributing guide point into the tree."""
    named = {
        path
        for file in TEXTS
        for path in re.findall(r"`((?:docs|tests|kiro_asgi|\.ci)/[\w./-]*\w)`", file.read_text("utf-8"))
    }

    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def described(text: str, url: str) -> str:
    """What ``setup.py`` makes of *text* for a package index."""
    spec = importlib.util.spec_from_file_location("setup", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.description(text, url))


def test_readme_leads_somewhere_in_the_repository_and_on_an_index() -> None:
    """Each link and picture is a file of the tree; an index, which has no tree, gets addresses, or words alone."""
    text = (ROOT / "README.md").read_text("utf-8")
    named = relative_links(text)

    assert len(named) > 20
    assert [path for path in named if not (ROOT / path.partition("#")[0]).is_file()] == []
    for url in ("", "https://example.org/project"):
        assert relative_links(described(text, url)) == []
    assert "https://example.org/project/raw/HEAD/docs/pictures/inspector-call-light.png" in described(
        text, "https://example.org/project"
    )


def test_readme_is_short() -> None:
    """Who has never heard of the project reads the first page to its end: it has at most 1,400 words."""
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 1400


COMPARISON = tomllib.loads((DOCS / "explanation" / "comparison.toml").read_text("utf-8"))


def test_the_page_on_dependencies_names_what_asgiref_is_for() -> None:
    """Every name that the package or an example imports from it is in its row."""
    [row] = re.findall(
        r"^``asgiref``.*?(?=^(?:``|==))", (DOCS / "design" / "dependencies.rst").read_text(), re.M | re.S
    )
    sources = [*(ROOT / "kiro_asgi").rglob("*.py"), *(DOCS / "examples").rglob("*.py")]
    imports = [re.findall(r"^from asgiref\S* import (.+)$", file.read_text("utf-8"), re.M) for file in sources]
    names = {name.strip() for lines in imports for line in lines for name in line.split(",")}

    assert names
    assert {name for name in names if f"``{name}``" not in row} == set()


def test_the_comparison_is_whole() -> None:
    """Each gateway has an answer to everything, and what is claimed for ours is shown by something that exists."""
    features = COMPARISON["features"]
    answers = {feature["ours"] for feature in features} | {word for it in features for word in it["theirs"].values()}

    assert answers <= {"yes", "partly", "no", "–", "?"}
    assert {frozenset(feature["theirs"]) for feature in features} == {frozenset(COMPARISON["gateways"])}
    assert [it["what"] for it in features if (it["ours"] == "yes") != ("shown" in it)] == []
    for path, _, test in (feature["shown"].partition("::") for feature in features if "shown" in feature):
        assert f"def {test}(" in (ROOT / path).read_text("utf-8") if test else (ROOT / path).is_file(), (path, test)


def test_each_promise_of_security_has_a_test() -> None:
    """A claim that nothing holds is none: each row of the page names tests, and they exist."""
    page = (DOCS / "explanation" / "security.rst").read_text("utf-8")
    rows = re.findall(r"^   \* - (.+)\n     - ((?:``tests/.+``\n(?:       )?)*)", page, re.MULTILINE)[1:]
    named = {promise: re.findall(r"``(tests/[^`]+)``", tests) for promise, tests in rows}

    assert len(named) > 15
    assert [promise for promise, tests in named.items() if not tests] == []
    for path, _, test in (each.partition("::") for tests in named.values() for each in tests):
        assert f"def {test}(" in (ROOT / path).read_text("utf-8") if test else (ROOT / path).exists(), (path, test)


def test_the_settings_that_come_first_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten of them; and the page has a section for each table, in which every setting stands once."""
    pytest.importorskip("sphinx", reason="makes the pages")
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    generated = importlib.import_module("generated")
    lines = [*generated.settings()]
    paths = [row.path for row in describe()]
    defined = [line.strip("`") for line, after in pairwise(lines) if re.fullmatch(r"``[\w.]+``", line) and after]

    assert len({*generated.FIRST} & {*paths}) == len(generated.FIRST) == 10
    assert sorted(defined) == sorted([*paths, *generated.FIRST])
    assert {f"``[{path.partition('.')[0]}]``" for path in paths if "." in path} <= {*lines}


def test_the_dark_picture_is_the_light_one_in_other_colours() -> None:
    """There is one drawing: two files differ in the line with the colours alone, and both name the same ones."""
    lights, darks = (
        (DOCS / "pictures" / f"pipeline-{it}.svg").read_text("utf-8").splitlines() for it in ("light", "dark")
    )
    [(light, dark)] = [pair for pair in zip(lights, darks, strict=True) if pair[0] != pair[1]]

    assert re.findall(r"--\w+", light) == re.findall(r"--\w+", dark) != []


def words(svg: str) -> list[str]:
    """What a picture of a terminal says, but for numbers."""
    return re.findall(r"[^\W\d]+", " ".join(re.findall(r">([^<]+)</text>", svg.replace("&#160;", " "))))


def test_the_picture_of_demo_is_what_it_prints() -> None:
    """`python -m tests.pictures demo docs/pictures/demo.svg` draws it anew."""
    assert words((DOCS / "pictures" / "demo.svg").read_text("utf-8")) == words(picture("demo"))


def test_windows_that_clients_are_told_are_those_of_the_model() -> None:
    """What a page has people write into a client's settings is what the gateway says of that model."""
    settings = (DOCS / "examples" / "clients" / "continue.yaml").read_text("utf-8")
    told = dict(re.findall(r"^ +(model|contextLength|maxTokens): (\S+)$", settings, re.MULTILINE))
    editors = (DOCS / "how-to" / "editors.rst").read_text("utf-8")
    fields = dict(re.findall(r"^(Model|Context Window|Max Output Tokens)\b.*?``(\S+)``", editors, re.MULTILINE))
    card = find("claude-sonnet-4.5", FALLBACK)

    assert card is not None
    expected = [card.id, str(card.context_window), str(card.max_output_tokens)]
    assert [told[name] for name in ("model", "contextLength", "maxTokens")] == expected
    assert [fields[name] for name in ("Model", "Context Window", "Max Output Tokens")] == expected
