"""What is in docs/deployment is taken by the programs that it is for, and a stream passes the proxies word by word.

Each test needs its program, and is skipped without it: ``systemd-analyze``, ``nginx``, ``caddy``, and from PyPI
``hadolint``, ``kubernetes-validate`` and ``check-jsonschema``, which ``tox -e deployment`` brings.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep

import pytest

from kiro_asgi.asgi.door.readiness import problems_with
from kiro_asgi.config import Settings
from kiro_asgi.observers.measures import MEASURES, Kind, flat
from tests.valkey_server import free_port

FILES = Path(__file__).parents[2] / "docs" / "deployment"
SEARCH = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
HEADERS = {"x-api-key": "key", "content-type": "application/json"}


def run(*command: str, **options) -> str:
    found = shutil.which(command[0], path=SEARCH)
    if found is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run([found, *command[1:]], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_settings_are_settings():
    settings = Settings.from_toml(FILES / "gateway.toml")
    assert not problems_with(settings)
    assert settings.keys["alice"].hash == f"sha256:{'0' * 64}", "the hash of no key that is known"


def test_the_image_holds_no_more_of_a_checkout_than_it_is_built_from():
    """Neither tests nor a history, nor a file with secrets that lies beside them."""
    lines = (FILES.parents[1] / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]

    assert rules[0] == "*"
    assert all((FILES.parents[1] / rule[1:]).exists() for rule in rules if rule.startswith("!"))


def test_the_image_has_what_the_files_beside_it_use():
    """Valkey for the state, metrics for Prometheus, and traces; each is an extra of the package."""
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", (FILES / "Dockerfile").read_text())
    declared = (FILES.parents[1] / "pyproject.toml").read_text() + (FILES.parents[1] / "setup.cfg").read_text()

    assert {"standalone", "valkey", "metrics", "otel"} <= {*extras.split(",")}
    assert all(re.search(rf"^{extra} *=", declared, re.MULTILINE) for extra in extras.split(","))


def test_each_file_that_compose_mounts_is_there():
    """But for the secrets, which have no default."""
    mounted = re.findall(r"- \./([\w.-]+):", (FILES / "compose.yaml").read_text())

    assert mounted and all((FILES / name).exists() for name in mounted)


def test_the_dashboard_asks_for_metrics_that_there_are():
    """By their names and labels in Prometheus."""
    kinds = {Kind.SPREAD: ("_bucket", "_sum", "_count"), Kind.COUNT: ("",), Kind.LEVEL: ("",)}
    known = {f"{each.flat_name}{end}": {*map(flat, each.labels), "le"} for each in MEASURES for end in kinds[each.kind]}
    dashboard = json.loads((FILES / "grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]

    assert len(asked) > 9
    for expression in asked:
        (name,) = re.findall(r"\b(?:kiro_asgi|gen_ai)_\w+(?=[\[{)])", re.sub(r"by \([^)]*\)", "", expression))
        labels = re.findall(r"\w+(?=!?=)", expression)
        for grouped in re.findall(r"by \(([^)]*)\)", expression):
            labels += grouped.split(", ")
        assert {*labels} <= known[name], expression


def test_prometheus_takes_the_file():
    run("promtool", "check", "config", str(FILES / "prometheus.yaml"))


def test_no_file_has_a_key_that_works():
    """A default key is a door that everybody knows."""
    for path in FILES.iterdir():
        for value in re.findall(r'(?:keys?|password|pass) *[=:] *\[?"([^"]+)"', path.read_text(), re.IGNORECASE):
            assert "replace" in value, f"{path.name}: {value}"


def test_docker_takes_the_file():
    run("hadolint", str(FILES / "Dockerfile"))


def test_compose_takes_the_file():
    run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILES / "compose.yaml"))


def test_kubernetes_takes_the_file():
    run("kubernetes-validate", "--strict", str(FILES / "kubernetes.yaml"))


def test_systemd_takes_the_file(tmp_path):
    unit = tmp_path / "kiro-asgi.service"
    unit.write_text((FILES / "kiro-asgi.service").read_text().replace("/opt/kiro-asgi/bin/kiro-asgi", "/bin/true"))
    assert "kiro-asgi.service" not in run("systemd-analyze", "verify", str(unit))


def test_a_reload_of_the_unit_sees_a_new_file():
    """Of systemd's credentials a service sees what was there at its start; its group may read the file itself."""
    unit = (FILES / "kiro-asgi.service").read_text()
    settings = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
    (group, file) = re.findall(r"^#   install -m 640 -g (\S+) -D gateway.toml (\S+)$", unit, re.MULTILINE)[0]

    assert not [name for name in settings if name.startswith(("LoadCredential", "SetCredential"))]
    assert settings["SupplementaryGroups"] == group
    assert f"Environment=KIRO_ASGI_CONFIG={file}\n" in unit
    assert settings["ExecReload"].endswith("-HUP $MAINPID")
    assert f"#   groupadd --system {group}\n" in unit


def test_the_unit_is_hardened():
    """systemd's own judgement: 10 is a process with all rights, and below 2 is "OK"."""
    told = run("systemd-analyze", "security", "--offline=true", str(FILES / "kiro-asgi.service"))
    (level,) = re.findall(r"exposure level for kiro-asgi\.service: ([0-9.]+)", told)
    assert float(level) < 2


def test_open_answers_have_the_time_that_they_are_promised():
    """Whoever stops the gateway waits longer than it does."""
    promised = {
        name: int(re.search(r'graceful-timeout"?,? "?(\d+)', (FILES / name).read_text()).group(1))
        for name in ("Dockerfile", "kiro-asgi.service")
    }
    delay = 5
    for name, pattern, least in (
        ("kiro-asgi.service", r"TimeoutStopSec=(\d+)", promised["kiro-asgi.service"] + delay),
        ("compose.yaml", r"stop_grace_period: (\d+)s", promised["Dockerfile"] + delay),
        ("kubernetes.yaml", r"terminationGracePeriodSeconds: (\d+)", promised["Dockerfile"] + delay),
    ):
        assert int(re.search(pattern, (FILES / name).read_text()).group(1)) > least, name


@contextmanager
def process(*command: str, port: int, **options) -> Iterator[None]:
    """A server, from when it listens on *port* to the end of the block."""
    if shutil.which(command[0], path=SEARCH) is None:
        pytest.skip(f"{command[0]} is not installed")
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
    try:
        end = monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert running.poll() is None, running.stderr.read()
                assert monotonic() < end, f"{command[0]} does not listen"
                sleep(0.05)
        yield
    finally:
        running.terminate()
        running.communicate(timeout=20)


@pytest.fixture(scope="module")
def gateway() -> Iterator[int]:
    """The port of a gateway with a simulated service."""
    port = free_port()
    settings = {**os.environ, "KIRO_ASGI__CLIENT__API_KEYS": "key"}
    command = (sys.executable, "-m", "kiro_asgi", "serve", "--simulate", "--drain-delay", "0", "--port", str(port))
    with process(*command, port=port, env=settings):
        yield port


def nginx(gateway: int, port: int, folder: Path) -> tuple[str, ...]:
    snippet = (FILES / "nginx.conf").read_text()
    snippet = snippet.replace("127.0.0.1:8000", f"127.0.0.1:{gateway}").replace(
        "listen 80;", f"listen 127.0.0.1:{port};"
    )
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"pid {folder}/pid; error_log stderr; daemon off; events {{}} http {{ access_log off; {temporary} {snippet} }}"
    )
    return "nginx", "-c", str(config), "-p", str(folder)


def caddy(gateway: int, port: int, folder: Path) -> tuple[str, ...]:
    snippet = (FILES / "Caddyfile").read_text()
    snippet = snippet.replace("127.0.0.1:8000", f"127.0.0.1:{gateway}").replace(
        "llm.example", f"http://127.0.0.1:{port}"
    )
    config = folder / "Caddyfile"
    config.write_text("{\n\tadmin off\n}\n" + snippet)
    return "caddy", "run", "--config", str(config), "--adapter", "caddyfile"


@contextmanager
def behind(proxy, gateway: int, folder: Path) -> Iterator[HTTPConnection]:
    """A connection to *gateway* by way of *proxy*."""
    port = free_port()
    environment = {**os.environ, "HOME": str(folder), "PATH": SEARCH}
    with process(*proxy(gateway, port, folder), port=port, env=environment):
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        yield connection
        connection.close()


@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_a_stream_passes_the_proxy_word_by_word(proxy, gateway, tmp_path):
    body = {
        "model": "claude-sonnet-4.5",
        "max_tokens": 100,
        "stream": True,
        "messages": [{"role": "user", "content": "sim:slow"}],
    }
    with behind(proxy, gateway, tmp_path) as connection:
        connection.request("POST", "/v1/messages", json.dumps(body), HEADERS)
        answer = connection.getresponse()
        times = [monotonic() for _ in iter(answer.readline, b"")]
    assert answer.status == 200
    assert times[-1] - times[0] > 0.2, "the first line came with the last"


@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_a_large_body_passes_the_proxy(proxy, gateway, tmp_path):
    """What the gateway takes its proxies take: the answer is its own."""
    with behind(proxy, gateway, tmp_path) as connection:
        connection.request("POST", "/v1/messages", b" " * (31 * 1024 * 1024), HEADERS)
        answer = connection.getresponse()
        assert (answer.status, b"invalid_request_error" in answer.read()) == (400, True)
