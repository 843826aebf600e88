"""This gateway and its peers: how each is installed, started and asked, as its own documentation says."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from tests import installing
from tests.conformance import node

__all__ = ["GATEWAYS", "HERE", "KEY", "Gateway", "Installed", "Started"]

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
KEY: Final = "sk-of-the-client-0123456789"
NOWHERE: Final = "http://127.0.0.1:9"
"""A proxy that is not there: what is not on this machine is not reached."""


@frozen
class Installed:
    """A gateway on this machine."""

    command: tuple[str, ...]
    version: str
    packages: int
    """How many were installed for it, itself among them."""


@frozen
class Started:
    """What a gateway is started with."""

    port: int
    service: str
    """The service's base URL, with ``/v1``."""

    folder: Path
    limit: float | None
    """Seconds of silence after which it gives up; ``None`` for its own default."""


@frozen
class Gateway:
    """One gateway."""

    name: str
    title: str
    install: Callable[[Path | None], Installed]
    arguments: Callable[[Started], Sequence[str]]
    """What follows its command; it also writes its files."""

    environ: Callable[[Started], Mapping[str, str]]
    apis: tuple[str, ...] = ("chat", "messages")
    """What it has in front of a service that speaks Chat Completions."""

    model: str = "bench"
    headers: Callable[[Started], Mapping[str, str]] = lambda _: {"authorization": f"Bearer {KEY}"}
    notes: tuple[str, ...] = ()
    """How it was set up, where its documentation's first example was not enough."""


def _surroundings(started: Started, **more: str) -> dict[str, str]:
    """Nothing of ours, and no way out."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(started.folder),
        "LANG": "C.UTF-8",
        "HTTP_PROXY": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "NO_PROXY": "127.0.0.1",
        **more,
    }


def _distributions(python: Path) -> dict[str, str]:
    """Names and versions of what is installed beside *python*, without what every environment has."""
    done = subprocess.run(
        [str(python), "-I", "-m", "pip", "list", "--format", "json"], capture_output=True, text=True, check=True
    )
    own = ("pip", "setuptools", "wheel")
    return {each["name"].lower(): each["version"] for each in json.loads(done.stdout) if each["name"] not in own}


def _from_pypi(name: str, program: str, room: Path | None) -> Installed:
    programs = installing.installed(HERE / name / "requirements.txt", room)
    found = _distributions(programs / "python")
    return Installed((str(programs / program),), found[name], len(found))


def _from_npm(name: str, package: str, script: str, room: Path | None) -> Installed:
    """What the package's own scripts would do at the installation is not done, as for all others from npm."""
    packages = node.install(HERE / name, room)
    lock = json.loads((packages / "node_modules" / ".package-lock.json").read_text())["packages"]
    at = f"node_modules/{package}"
    return Installed(("node", str(packages / at / script)), lock[at]["version"], len(lock))


def _ours(room: Path | None) -> Installed:
    """This checkout, in an environment of its own, with what ``kiro-asgi serve`` needs."""
    sources = sorted((ROOT / "kiro_asgi").rglob("*.py"))
    mark = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    folder = (room or Path(tempfile.gettempdir())) / f"kiro-asgi-peers-{os.getuid()}-{mark}"
    requirements = folder / "requirements.txt"
    if not requirements.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (built,) = installing.wheel(folder).glob("*.whl")
        requirements.write_text(f"kiro-asgi[standalone] @ {built.as_uri()}\n")
    programs = installing.installed(requirements, folder)
    found = _distributions(programs / "python")
    return Installed((str(programs / "kiro-asgi"),), found["kiro-asgi"], len(found))


def _our_environ(started: Started) -> dict[str, str]:
    custom = "KIRO_ASGI__CUSTOM__SERVICE__"
    environ = {f"{custom}ENDPOINT": started.service, f"{custom}API_KEY": "x", "KIRO_ASGI__CLIENT__API_KEYS": KEY}
    if started.limit:
        environ["KIRO_ASGI__STREAM__IDLE_TIMEOUT"] = str(started.limit)
    return _surroundings(started, XDG_STATE_HOME=str(started.folder / "state"), **environ)


def _written(path: Path, value: Any) -> str:
    """*path* with *value* as JSON in it, which is YAML as well; its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")
    return str(path)


def _litellm_arguments(started: Started) -> list[str]:
    parameters = {"model": "openai/bench", "api_base": started.service, "api_key": "x"}
    settings: dict[str, Any] = {"telemetry": False, "num_retries": 0}
    if started.limit:
        settings["request_timeout"] = started.limit
    configuration = {
        "model_list": [{"model_name": "bench", "litellm_params": parameters}],
        "litellm_settings": settings,
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }
    file = _written(started.folder / "config.yaml", configuration)
    return ["--config", file, "--host", "127.0.0.1", "--port", str(started.port), "--num_workers", "1"]


def _litellm_environ(started: Started) -> dict[str, str]:
    return _surroundings(
        started,
        LITELLM_MASTER_KEY=KEY,
        LITELLM_MODE="PRODUCTION",
        LITELLM_LOG="ERROR",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
        LITELLM_TELEMETRY="False",
        LITELLM_USE_CHAT_COMPLETIONS_URL_FOR_ANTHROPIC_MESSAGES="true",
        NO_DOCS="True",
    )


def _portkey_headers(started: Started) -> dict[str, str]:
    headers = {
        "authorization": "Bearer x",
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": started.service,
    }
    return {**headers, "x-portkey-request-timeout": str(int(started.limit * 1_000))} if started.limit else headers


def _rosetta_arguments(started: Started) -> list[str]:
    server = {"host": "127.0.0.1", "port": started.port, "open_on_no_keys": True}
    if started.limit:
        server["upstream_timeout"] = started.limit
    configuration = {
        "providers": {"service": {"api_key": "x", "base_url": started.service, "type": "openai_chat"}},
        "models": {"bench": "service"},
        "server": server,
    }
    file = _written(started.folder / "config.json", configuration)
    return ["--config", file, "--no-banner", "--data-dir", str(started.folder / "data"), "--log-level", "error"]


def _router_arguments(started: Started) -> list[str]:
    provider = {
        "name": "service",
        "api_base_url": f"{started.service}/chat/completions",
        "api_key": "x",
        "models": ["bench"],
    }
    configuration = {
        "HOST": "127.0.0.1",
        "PORT": started.port,
        "APIKEY": KEY,
        "LOG": False,
        "NON_INTERACTIVE_MODE": True,
        "Providers": [provider],
        "Router": {"default": "service,bench"},
        **({"API_TIMEOUT_MS": int(started.limit * 1_000)} if started.limit else {}),
    }
    _written(started.folder / ".claude-code-router" / "config.json", configuration)
    return ["start"]


GATEWAYS: Final = (
    Gateway(
        "kiro_asgi",
        "kiro_asgi",
        _ours,
        lambda started: ["serve", "--host", "127.0.0.1", "--port", str(started.port)],
        _our_environ,
        model="service/bench",
    ),
    Gateway(
        "litellm",
        "LiteLLM",
        partial(_from_pypi, "litellm", "litellm"),
        _litellm_arguments,
        _litellm_environ,
        notes=(
            "LiteLLM has no database here, and asks by Chat Completions for the Messages API too "
            "(``LITELLM_USE_CHAT_COMPLETIONS_URL_FOR_ANTHROPIC_MESSAGES``; else by the Responses API).",
        ),
    ),
    Gateway(
        "portkey",
        "Portkey",
        partial(_from_npm, "portkey", "@portkey-ai/gateway", "build/start-server.js"),
        lambda started: [f"--port={started.port}", "--headless"],
        _surroundings,
        apis=("chat",),
        headers=_portkey_headers,
        notes=(
            "Portkey has ``@hono/node-server`` 1.13.8: with what ``npm install`` takes (1.19.19; 1.18.2 as well) each "
            "request was answered with 500. It serves Messages only in front of services that speak them.",
            "Portkey's gateway itself asks clients for no key.",
            "Portkey's source waits 25 ms before the first event of each stream.",
        ),
    ),
    Gateway(
        "rosetta",
        "llm-rosetta",
        partial(_from_pypi, "llm-rosetta", "llm-rosetta-gateway"),
        _rosetta_arguments,
        _surroundings,
        notes=("llm-rosetta's keys are made on its page; here it asks for none (``open_on_no_keys``).",),
    ),
    Gateway(
        "router",
        "claude-code-router",
        partial(_from_npm, "router", "@musistudio/claude-code-router", "dist/cli.js"),
        _router_arguments,
        _surroundings,
        apis=("messages",),
        headers=lambda _: {"x-api-key": KEY},
        notes=(
            "claude-code-router 3.1.1 needs a package that the registry did not have; 2.0.0 is the version before it.",
        ),
    ),
)
"""The first is ours."""
