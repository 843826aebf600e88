"""Gateways as users run them: processes of their own, told everything through the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from kiro_asgi import simulator
from tests.cli.processes import Serving, serving

__all__ = ["EVERY_SERVICE", "IMPATIENT", "KEY", "TRANSIENT_RETRIES", "Gateway", "simulated", "watched"]

KEY = "conformance-key"

TRANSIENT_RETRIES = {
    "KIRO_ASGI__RETRY__BASE": "0.01",
    "KIRO_ASGI__RETRY__RATE_BASE": "0.01",
    "KIRO_ASGI__RETRY__CAPACITY_BASE": "0.01",
}

EVERY_SERVICE = {
    "KIRO_ASGI__GEMINI__API_KEY": "key",
    "KIRO_ASGI__GEMINI__ENDPOINT": "{service}",
    "KIRO_ASGI__ANTHROPIC__API_KEY": "key",
    "KIRO_ASGI__ANTHROPIC__ENDPOINT": "{service}",
    "KIRO_ASGI__OPENAI__API_KEY": "key",
    "KIRO_ASGI__OPENAI__ENDPOINT": "{service}/v1",
    "KIRO_ASGI__STREAM__RELAY": "never",
}
"""All of them are simulated, and every answer is translated."""

IMPATIENT = {
    "KIRO_ASGI__RETRY__ATTEMPTS": "1",
    "KIRO_ASGI__RETRY__REFUSED_BASE": "0",
    "KIRO_ASGI__RETRY__QUOTA_PROBE": "0",
    "KIRO_ASGI__RETRY__SUSPICION": "0",
    "KIRO_ASGI__KIRO__FIRST_TOKEN_TIMEOUT": "0.8",
    "KIRO_ASGI__STREAM__IDLE_TIMEOUT": "0.6",
    "KIRO_ASGI__STREAM__EARLY_COMMIT_AFTER": "0.3",
    "KIRO_ASGI__STREAM__HEARTBEAT": "0.2",
    "KIRO_ASGI__LIMITS__BODY_BYTES": "100000",
}
"""One try at the service for one request, so that what the service sees are the clients' own tries."""


@frozen
class Gateway:
    """A running gateway."""

    base: str
    """Base URL for Anthropic clients; without ``/v1``."""

    service: simulator.Simulator | None = None
    """The service behind it, where it is not the gateway's own."""

    @property
    def openai_base(self) -> str:
        return self.base + "/v1"

    def asked(self, content: str) -> list[simulator.RecordedRequest]:
        """The requests with *content* that the service got."""
        assert self.service is not None
        return [request for request in self.service.requests if content.encode() in request.body]

    def observed(self, condition: Callable[[simulator.Simulator], object]) -> bool:
        """Whether *condition* comes true of the service in time."""
        assert self.service is not None
        service = self.service
        return service.wait_until(lambda: condition(service))


@contextmanager
def simulated(folder: Path) -> Iterator[Gateway]:
    """``kiro-asgi serve --simulate`` with a key."""
    arguments = ("--simulate", "--log-level", "error")
    with serving(*arguments, cwd=folder, KIRO_ASGI__CLIENT__API_KEYS=KEY, **TRANSIENT_RETRIES) as server:
        yield Gateway(server.base)
        _stop(server)


@contextmanager
def watched(folder: Path, **settings: str) -> Iterator[Gateway]:
    """``kiro-asgi serve`` in front of a simulator of this process, which remembers what it was asked.

    ``{service}`` in a setting is the simulator's URL.
    """
    with simulator.running() as service:
        known = {
            "KIRO_ASGI__CLIENT__API_KEYS": KEY,
            "KIRO_ASGI__KIRO__ENDPOINT": service.url,
            "KIRO_ASGI__KIRO__API_KEY": "ksk_simulated",
            **{name: value.replace("{service}", service.url) for name, value in settings.items()},
        }
        with serving("--log-level", "error", cwd=folder, **known) as server:
            yield Gateway(server.base, service)
            _stop(server)


def _stop(server: Serving) -> None:
    """Whatever clients did to it, it ends cleanly and has not complained."""
    errors = server.stop()
    assert (server.process.returncode, errors) == (0, ""), f"{server.process.returncode}: {errors}"
