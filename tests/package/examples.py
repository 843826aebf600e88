"""The examples of the pages as packages of other people: each in an environment of its own, with the wheel."""

from __future__ import annotations

import shutil
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

EXAMPLES: Final = Path(__file__).parents[2] / "docs" / "examples"

_ASK: Final = """
import anyio
from kiro_asgi import create_app
from kiro_asgi.testing import SIMULATED, ask

async def asked(path, body, settings={{}}, headers=None, **added):
    app = create_app({{**SIMULATED, **settings}}, **added)
    answer = await ask(app, path, body, headers=headers)
    await app.aclose()
    assert answer.status == 200, answer
    return answer.text

{0}
"""

_CHAT: Final = "{'model': 'claude-sonnet-4.5', 'messages': [{'role': 'user', 'content': 'sim:count=3'}]}"


class Example(NamedTuple):
    """One of them."""

    entry: str
    """Group, name and object of its entry point; empty where a program hands it over."""

    proof: str
    """Code that fails unless it works once it is installed."""


ALL: Final[dict[str, Example]] = {
    "plain_dialect": Example(
        "dialects plain PLAIN",
        _ASK.format(
            "answer = anyio.run(asked, '/plain', b'sim:count=3', {'plain': {'model': 'claude-sonnet-4.5'}})\n"
            "assert answer == '1 2 3 \\n', answer"
        ),
    ),
    "ollama_dialect": Example(
        "dialects ollama OLLAMA",
        _ASK.format(
            f"assert '\"done\":true' in anyio.run(asked, '/api/chat', {_CHAT}, {{'ollama': {{'enabled': True}}}})"
        ),
    ),
    "redacting_stage": Example(
        "",
        _ASK.format(
            "from functools import partial; from redacting_stage import Redactor\n"
            f"asking = partial(asked, '/v1/chat/completions', {_CHAT}, stages=[lambda prompt: Redactor('2')])\n"
            "assert '1 * 3' in anyio.run(asking)"
        ),
    ),
    "folder_store": Example(
        "",
        "import anyio, tempfile, pathlib\n"
        "from folder_store import FolderStore\n"
        "from kiro_asgi.testing import Clock, check_store\n"
        "clock = Clock()\n"
        "anyio.run(check_store, lambda: FolderStore(pathlib.Path(tempfile.mkdtemp()), clock), clock)\n",
    ),
    "counting_observer": Example(
        "",
        _ASK.format(
            "from functools import partial; from counting_observer import Counting\n"
            "counting = Counting()\n"
            f"anyio.run(partial(asked, '/v1/chat/completions', {_CHAT}, observers=[counting]))\n"
            "assert counting.tokens['anonymous'] > 0, counting"
        ),
    ),
    "lake_upstream": Example(
        "upstreams lake LAKE",
        "from kiro_asgi import Settings\n"
        "from kiro_asgi.testing import check_upstream\n"
        "from lake_upstream import LAKE\n"
        "assert Settings.from_mapping({'lake': {'credentials_file': 'lake.json'}}).lake.configured\n"
        'check_upstream(LAKE, b\'{"text":"Water."}\\n{"end":true}\\n\', \'application/x-ndjson\')\n',
    ),
    "river_upstream": Example(
        "upstreams river RIVER",
        "from kiro_asgi import Settings\n"
        "from kiro_asgi.testing import check_upstream\n"
        "from river_upstream import RIVER\n"
        "assert Settings.from_mapping({'river': {'api_key': 'k', 'tone': 'formal'}}).river.tone == 'formal'\n"
        'lines = b\'{"text":"Water."}\\n{"end":"done","read":1,"wrote":1}\\n\'\n'
        "check_upstream(RIVER, lines, 'application/x-ndjson', models=b'[{\"name\":\"stream\"}]')\n",
    ),
}
"""By their modules."""


PROJECTS: Final[dict[str, tuple[str, ...]]] = {
    "django_project": ("django>=5",),
    "django_keys": ("django>=5",),
}
"""Projects of hosts with tests of their own, and what they are installed with."""


def faults_of_projects(wheel: Path, folder: Path) -> Iterator[str]:
    """What does not work of them, in an environment with the *wheel* and the host alone."""
    for name, requirements in PROJECTS.items():
        place = folder / name
        shutil.copytree(EXAMPLES / name, place / "project", ignore=shutil.ignore_patterns("__pycache__"))
        venv.create(place / "venv", with_pip=True)
        python = str(place / "venv" / "bin" / "python")
        for command in (
            [python, "-m", "pip", "install", "-q", str(wheel), *requirements],
            [python, "manage.py", "test"],
        ):
            done = subprocess.run(command, cwd=place / "project", capture_output=True, text=True, timeout=300)
            if done.returncode:
                yield f"the project {name} fails: {(done.stderr or done.stdout).strip()[-800:]}"
                break


def faults_of_examples(wheel: Path, folder: Path) -> Iterator[str]:
    """What does not work of them, installed beside the *wheel* and nothing else."""
    for name, example in ALL.items():
        place = folder / name
        package = _package(place / "package", name, example)
        venv.create(place / "venv", with_pip=True)
        python = str(place / "venv" / "bin" / "python")
        for command in (
            [python, "-m", "pip", "install", "-q", str(wheel), str(package)],
            [python, "-W", "error", "-c", example.proof],
        ):
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300)
            if done.returncode:
                yield f"the example {name} fails: {(done.stderr or done.stdout).strip()[-800:]}"
                break


def _package(folder: Path, name: str, example: Example) -> Path:
    """A package of the example's own, as its author would publish it."""
    folder.mkdir(parents=True)
    shutil.copy(EXAMPLES / f"{name}.py", folder)
    lines = [
        "[build-system]",
        'requires = ["setuptools>=77"]',
        'build-backend = "setuptools.build_meta"',
        "[project]",
        f'name = "example-{name.replace("_", "-")}"',
        'version = "1.0"',
        'dependencies = ["kiro-asgi"]',
        "[tool.setuptools]",
        f'py-modules = ["{name}"]',
    ]
    if example.entry:
        group, known, value = example.entry.split()
        lines += [f'[project.entry-points."kiro_asgi.{group}"]', f'{known} = "{name}:{value}"']
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n", "utf-8")
    return folder
