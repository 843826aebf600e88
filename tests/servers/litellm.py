"""LiteLLM's proxy as somebody runs it: a process of its own, a configuration file, a key.

It answers some models itself, with texts and errors that its configuration holds; for the others it asks our simulator,
so that what arrives was written by LiteLLM, in each of the formats it speaks.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.cli.standalone import bind

__all__ = ["MODELS", "SAID", "Proxy", "running"]

SAID: Final = "One, two, three. Grüße 🙂"

MOCKED: Final = {
    "talker": SAID,
    "limited": "litellm.RateLimitError",
    "broken": "litellm.InternalServerError",
    "full": "litellm.ContextWindowExceededError",
}
"""Models that LiteLLM is itself, to what they say, or the error that they are."""

MODELS: Final = (*MOCKED, "local", "claude")
"""All that it lists: ``local`` is behind the format of vLLM, ``claude`` behind Anthropic's."""

START: Final = 150.0
"""Seconds that it has to start: it imports a great deal."""


@frozen
class Proxy:
    """A running proxy."""

    base: str
    """Base URL, without ``/v1``."""

    key: str = field(repr=False)


@contextmanager
def running(programs: Path, folder: Path, service: str) -> Iterator[Proxy]:
    """Run it in *folder* until the end of the block; *service* is the simulator's URL."""
    (folder / "config.yaml").write_text(json.dumps(_configuration(service), ensure_ascii=False), "utf-8")
    key = f"sk-{secrets.token_hex(32)}"
    with closing(bind("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    command = [str(programs / "litellm"), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(folder, programs, key), stdout=output, stderr=output
        )
    try:
        _wait(process, port, log)
        yield Proxy(f"http://127.0.0.1:{port}", key)
        assert process.poll() is None, log.read_text()[-3_000:]
    finally:
        process.kill()
        process.wait()


def _configuration(service: str) -> dict[str, Any]:
    """JSON, which is YAML where it is not escaped."""
    mocked = [(name, {"model": "openai/x", "mock_response": says}) for name, says in MOCKED.items()]
    asked = [
        ("local", {"model": "hosted_vllm/gpt-4o", "api_base": f"{service}/v1"}),
        ("claude", {"model": "anthropic/claude-sonnet-4-5", "api_base": service}),
    ]
    return {
        "model_list": [
            {"model_name": name, "litellm_params": {"api_key": "sk-simulated", **parameters}}
            for name, parameters in (*mocked, *asked)
        ],
        "litellm_settings": {"telemetry": False, "num_retries": 0},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }


def _environment(folder: Path, programs: Path, key: str) -> dict[str, str]:
    """Nothing of ours, and no way out: what is not on this machine is asked of a proxy that is not there."""
    nowhere = "http://127.0.0.1:9"
    return {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "LITELLM_MASTER_KEY": key,
        "LITELLM_MODE": "PRODUCTION",  # else it reads somebody's .env
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "NO_DOCS": "True",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1",
    }


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until it answers."""
    end = time.monotonic() + START
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < end and process.poll() is None:
        with suppress(urllib.error.URLError, socket.timeout, ConnectionError):
            opener.open(f"http://127.0.0.1:{port}/health/liveliness", timeout=5).close()
            return
        time.sleep(0.2)
    raise AssertionError(f"LiteLLM did not start:\n{log.read_text()[-3_000:]}")
