"""The processes of an attack: a gateway as it is run, the services behind it, and the healthy clients beside."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import define, field, fields_dict, frozen

from kiro_asgi.config import LimitSettings
from tests.attack.healthy import POLL, Noticed
from tests.attack.shapes import MIB
from tests.cli.processes import PREFIX, clean_environment
from tests.valkey_server import free_port

__all__ = ["GATEWAYS", "HEALTHY", "Gateway", "Services", "Setting", "go_first", "run", "services"]

ANNOUNCED: Final = "OpenAI base_url:    "
HEALTHY: Final = "healthy/gpt-5"
SECRET: Final = "sk-a-secret-that-nobody-may-read-0123456789"
KEYS: Final = "healthy,first,second"
INSPECTOR: Final = "the-secret-of-the-inspector"


@frozen
class Setting:
    """How a gateway is started for some rows."""

    environ: Mapping[str, str] = field(factory=dict)
    arguments: tuple[str, ...] = ()
    files: int = 0
    """Descriptors that it may have; 0: as many as we."""

    there: Mapping[str, bytes] = field(factory=dict)
    """Files in its folder, by name."""

    module: str = "kiro_asgi"
    """What is run; it takes the arguments of ``kiro-asgi``."""


def _known(**limits: str) -> dict[str, str]:
    """Those of *limits* that there are; where one is missing, the row shows what that means."""
    return {
        f"KIRO_ASGI__LIMITS__{name.upper()}": value
        for name, value in limits.items()
        if name in fields_dict(LimitSettings)
    }


ROOT: Final = str(Path(__file__).parents[2])
"""The folder that ``tests`` is in."""

SLOW_NAMES: Final = str(Path(__file__).parent / "slow_names")
"""A folder whose ``sitecustomize`` has the system's resolver take 30 s for some names."""


def _with_python_path(folder: str) -> str:
    """*folder*, and where Python looks for modules already."""
    return os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH", ""))))


def _sqlite(name: str) -> dict[str, str]:
    return {"KIRO_ASGI__STATE__ENGINE": "sqlite", "KIRO_ASGI__STATE__PATH": name}


def _many_keys() -> bytes:
    """A file of settings with twenty thousand keys, of which each opens the gateway."""
    digests = (sha256(b"many-%d" % at).hexdigest() for at in range(20_000))
    return "".join(f'[keys.many{at}]\nhash = "sha256:{it}"\n\n' for at, it in enumerate(digests)).encode()


def _spenders() -> dict[str, str]:
    """Keys of clients that may have 50,000 tokens a day, and of one that may ask for one model."""
    return {
        f"KIRO_ASGI__KEYS__SPENDER{number}__{name}": value
        for number in range(1, 10)
        for name, value in (
            ("HASH", f"sha256:{sha256(b'spender%d' % number).hexdigest()}"),
            ("TOKENS_PER_DAY", "50000"),
        )
    } | {
        "KIRO_ASGI__KEYS__NARROW__HASH": f"sha256:{sha256(b'narrow').hexdigest()}",
        "KIRO_ASGI__KEYS__NARROW__MODELS": "hostile/cheap",
    }


EVICTING: Final = free_port()
"""Port of a Valkey server that forgets keys when its memory is full; the row that attacks it runs it."""

GATEWAYS: Final[Mapping[str, Setting]] = {
    "usual": Setting(),
    "large": Setting(),
    "priced": Setting(
        {"KIRO_ASGI__PRICES__MODELS": ",".join(f"*sonnet-{at}*=1/2,*opus*{at}*x=1/2" for at in range(5))},
    ),
    "narrow": Setting(_known(connections="2", write_timeout="2")),
    "hasty": Setting(
        {**_known(connections="64", write_timeout="2"), "KIRO_ASGI__CUSTOM__HOSTILE__FIRST_TOKEN_TIMEOUT": "10"}
    ),
    "small": Setting(
        {
            "KIRO_ASGI__STATE__BYTES": str(16 * MIB),
            **_known(body_bytes=str(8 * MIB), body_bytes_in_flight=str(16 * MIB)),
        }
    ),
    "few-files": Setting(files=96),
    "leaving": Setting(arguments=("--graceful-timeout", "2")),
    "state": Setting(_sqlite("state.db")),
    "stored": Setting({**_sqlite("stored.db"), "KIRO_ASGI__STATE__BYTES": str(256 * MIB)}),
    "chained": Setting(_sqlite("chained.db")),
    "damaged": Setting(_sqlite("damaged.db"), there={"damaged.db": b"this is no database " * 1_000}),
    "lost": Setting({"KIRO_ASGI__STATE__ENGINE": "valkey", "KIRO_ASGI__STATE__URL": "valkey://127.0.0.1:1"}),
    "inspected": Setting(
        {
            **_sqlite("inspected.db"),
            "KIRO_ASGI__STATE__USAGE": "true",
            "KIRO_ASGI__INSPECTOR__ENABLED": "true",
            "KIRO_ASGI__INSPECTOR__SECRET": INSPECTOR,
        }
    ),
    "slow-names": Setting(
        {
            "KIRO_ASGI__FETCH__ALLOW": "*.slow.test",
            **_known(keep_alive="0"),  # so that each request looks up its service's name
            "PYTHONPATH": _with_python_path(SLOW_NAMES),
        }
    ),
    "paid": Setting({**_sqlite("paid.db"), **_spenders()}),
    "evicting": Setting(
        {
            "KIRO_ASGI__STATE__ENGINE": "valkey",
            "KIRO_ASGI__STATE__URL": f"valkey://127.0.0.1:{EVICTING}",
            **_spenders(),
        }
    ),
    "again": Setting({"PYTHONPATH": _with_python_path(ROOT)}, module="tests.attack.again"),
    "many-keys": Setting({"KIRO_ASGI_CONFIG": "gateway.toml"}, there={"gateway.toml": _many_keys()}),
    "piped": Setting(
        {"KIRO_ASGI_CONFIG": "gateway.toml"},
        ("--graceful-timeout", "2"),
        there={"gateway.toml": b"[limits]\nqueue = 100\n"},
    ),
    "asked": Setting({"PYTHONPATH": _with_python_path(ROOT)}, module="tests.attack.asked"),
    "hung": Setting({"PYTHONPATH": _with_python_path(ROOT)}, module="tests.attack.hung"),
}
"""Name to how it differs from the usual one, in which all but the services' time limits are defaults; ``large`` does
not, and ``chained`` is ``state``, but nothing else has grown them before."""


def _environment(simulator: str, hostile: str) -> dict[str, str]:
    """All services are hostile but ``healthy``."""
    named = {
        "CLIENT__API_KEYS": KEYS,
        "RETRY__ATTEMPTS": "1",
        "RETRY__REFUSED_BASE": "0",
        "RETRY__REFUSED_CAP": "0",
        "RETRY__SUSPICION": "0",
        "CUSTOM__HEALTHY__ENDPOINT": f"{simulator}/v1",
        "CUSTOM__HEALTHY__API_KEY": "simulated",
        "CUSTOM__HOSTILE__ENDPOINT": f"{hostile}/v1",
        "CUSTOM__HOSTILE__API_KEY": "hostile",
        "CUSTOM__HOSTILE__FIRST_TOKEN_TIMEOUT": "2",
        "CUSTOM__NAMED__ENDPOINT": f"{hostile.replace('127.0.0.1', 'localhost')}/v1",
        "CUSTOM__NAMED__API_KEY": "hostile",
        "CUSTOM__ECHO__ENDPOINT": f"{hostile}/v1",
        "CUSTOM__ECHO__API_KEY": SECRET,
        "CUSTOM__ECHO__TOKEN_URL": f"{hostile}/token",
        "CUSTOM__QUOTING__ENDPOINT": f"{hostile}/v1",
        "CUSTOM__QUOTING__API_KEY": SECRET,
        "KIRO__ENDPOINT": hostile,
        "KIRO__API_KEY": "ksk_hostile",
        "KIRO__FIRST_TOKEN_TIMEOUT": "2",
        "ANTHROPIC__ENDPOINT": hostile,
        "ANTHROPIC__API_KEY": "hostile",
        "GEMINI__ENDPOINT": hostile,
        "GEMINI__API_KEY": "hostile",
    }
    return {f"KIRO_ASGI__{name}": value for name, value in named.items()}


@define
class Gateway:
    """A running gateway with its healthy clients."""

    process: subprocess.Popen[str]
    port: int
    folder: Path
    _clients: subprocess.Popen[str]
    start: int = 0
    """Bytes resident when it was warm."""

    def memory(self, name: str = "VmRSS") -> int:
        """Bytes of one line of its status; 0 when it has ended."""
        if self.process.poll() is not None:
            return 0
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)

    def forget_peak(self) -> None:
        """Let ``VmHWM`` begin anew."""
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def noticed(self) -> Noticed:
        """What the healthy clients noticed since the last time."""
        assert self._clients.stdin is not None and self._clients.stdout is not None
        self._clients.stdin.write("\n")
        self._clients.stdin.flush()
        found: dict[str, Any] = json.loads(self._clients.stdout.readline())
        return Noticed(**{**found, "failures": tuple(found["failures"])})

    def log(self) -> str:
        """What it has written to standard error."""
        return (self.folder / "stderr").read_text(errors="replace")

    def terminate(self) -> None:
        """Ask it to leave."""
        self.process.send_signal(signal.SIGTERM)


def _as_usual() -> None:
    """Change nothing about a process."""


@frozen
class Services:
    """What is behind every gateway."""

    simulator: str
    hostile: str
    prepare: Callable[[], None]


def go_first() -> None:
    """Get the cores before all that is not attacked, so that what other processes take is not measured.

    Linux halts such a process for 50 ms of each second in which others want the core: let it have one that is idle.

    Raises:
        PermissionError: That takes root.
    """
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


@contextlib.contextmanager
def _program(*command: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(), **more
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextlib.contextmanager
def services(prepare: Callable[[], None] = _as_usual) -> Iterator[Services]:
    """Run both services until the end of the block; *prepare* is run in each process that is measured."""
    simulator = (sys.executable, "-m", "kiro_asgi.simulator", "--port", "0", "--pace", str(POLL))
    with (
        _program(*simulator, preexec_fn=prepare) as kind,
        _program(sys.executable, "-m", "tests.attack.hostile") as hostile,
    ):
        yield Services(_line(kind), f"http://127.0.0.1:{_line(hostile)}", prepare)


@contextlib.contextmanager
def run(setting: Setting, behind: Services, loop: str, folder: Path) -> Iterator[Gateway]:
    """Run a gateway in *folder* until the end of the block."""

    def prepare() -> None:
        behind.prepare()
        if setting.files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (setting.files, setting.files))

    environ = clean_environment(**{**_environment(behind.simulator, behind.hostile), **setting.environ})
    for name, data in setting.there.items():
        (folder / name).write_bytes(data)
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context((folder / "stderr").open("w"))
        command = [
            *PREFIX[:-1],
            setting.module,
            "serve",
            "--port",
            "0",
            "--drain-delay",
            "0",
            "--loop",
            loop,
            *setting.arguments,
        ]
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=prepare
        )
        stack.callback(process.communicate)
        stack.callback(process.kill)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        assert all(lines), (folder / "stderr").read_text()
        base = next(line.removeprefix(ANNOUNCED).strip() for line in lines if line.startswith(ANNOUNCED))
        port = urlsplit(base).port or 0
        healthy = (sys.executable, "-m", "tests.attack.healthy", str(port), HEALTHY)
        clients = stack.enter_context(_program(*healthy, preexec_fn=behind.prepare))
        yield Gateway(process, port, folder, clients)
