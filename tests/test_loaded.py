"""Servers load an application from the package, each in its own way, and all of them find it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

import kiro_asgi
from tests.hosts.running import environment, started

WAYS = {
    "the module's dictionary, as hypercorn": "eval(name, vars(kiro_asgi))",
    "an attribute, as uvicorn, granian and daphne": "getattr(kiro_asgi, name)",
    "a copy of the dictionary": "eval(name, dict(vars(kiro_asgi)))",
    "all names": "star[name]",
    "an import": "importing[name]",
    "members": "dict(inspect.getmembers(kiro_asgi))[name]",
    "whether there is one": "hasattr(kiro_asgi, name) and getattr(kiro_asgi, name)",
}
"""How a name is looked up by somebody who has imported the package and nothing else of it."""

LOOK = """
import inspect, json, pickle, sys
import kiro_asgi
name, way = sys.argv[1:]
star, importing = {}, {}
if way == "star[name]":
    exec("from kiro_asgi import *", star)
if way == "importing[name]":
    exec(f"from kiro_asgi import {name}", importing)
found = eval(way)
real = getattr(kiro_asgi, name)
made = found(simulate=True)
kept = vars(kiro_asgi)[name]
kind = kiro_asgi.App if name == "create_app" else kiro_asgi.Settings
print(json.dumps([type(made) is kind, pickle.loads(pickle.dumps(real)) is real, kept is real]))
"""


@pytest.mark.parametrize(
    ("name", "way"), [*(("create_app", way) for way in WAYS.values()), ("Settings", "eval(name, vars(kiro_asgi))")]
)
def test_what_a_server_loads_is_found(name: str, way: str) -> None:
    """In a process that has asked for no name before: it makes what it is for, and can be pickled."""
    done = subprocess.run([sys.executable, "-c", LOOK, name, way], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, True, True]


def test_every_name_is_in_the_dictionary() -> None:
    """Not only those that are loaded today: a server that looks there and nowhere else misses none."""
    code = "import kiro_asgi; print(*sorted({*kiro_asgi.__all__} - {*vars(kiro_asgi)}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "\n"
    assert all(eval(name, dict(vars(kiro_asgi))) is not None for name in kiro_asgi.__all__)


COMMANDS = {
    "hypercorn": ("hypercorn", "--log-level", "warning", "--bind", "127.0.0.1:{port}", "kiro_asgi:create_app()"),
    "hypercorn on trio": (
        *("hypercorn", "--log-level", "warning", "-k", "trio", "--bind", "127.0.0.1:{port}"),
        "kiro_asgi:create_app(simulate=True)",
    ),
    "uvicorn": ("uvicorn", "--log-level", "warning", "--port", "{port}", "--factory", "kiro_asgi:create_app"),
    "uvicorn with workers": (
        *("uvicorn", "--log-level", "warning", "--port", "{port}", "--workers", "2"),
        *("--factory", "kiro_asgi:create_app"),
    ),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_servers_run_the_package_itself(command: tuple[str, ...], tmp_path: Path) -> None:
    """As the page on running it alone has it, with no account: the model list of a simulated service comes."""
    environ = environment("http://canary.invalid", KIRO_ASGI__SIMULATE="true", KIRO_ASGI__CLIENT__ALLOW_ANONYMOUS="1")
    del environ["KIRO_ASGI__CLIENT__API_KEYS"]
    with started(command, environ, cwd=tmp_path) as server:
        ready = json.loads(urlopen(f"{server.url}/ready").read())
        models = json.loads(urlopen(f"{server.url}/v1/models").read())["data"]

    assert (ready["ready"], ready["degraded"]) == (True, ["simulated"])
    assert len(models) > 10
