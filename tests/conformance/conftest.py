"""Two gateways for the whole session, and the official clients of both families pointed at them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import anthropic
import openai
import pytest

from kiro_asgi.simulator import Simulator
from tests.conformance.clients import Clients, connected, undisturbed
from tests.conformance.gateways import EVERY_SERVICE, IMPATIENT, TRANSIENT_RETRIES, Gateway, simulated, watched

NO_NODE = "KIRO_ASGI_NO_NODE"

deselected = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without Node.js, and only if the environment says so, its tests are left out; the summary tells."""
    for item in items:
        if item.get_closest_marker("js"):
            item.add_marker(pytest.mark.timeout(900))  # the first one installs the SDKs
    if os.environ.get(NO_NODE) != "1":
        return
    left_out = [item for item in items if item.get_closest_marker("js")]
    config.stash[deselected] = len(left_out)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Nobody shall take what did not run for passed."""
    if count := terminalreporter.config.stash.get(deselected, 0):
        terminalreporter.write_line(f"NOTE: {count} tests of the JavaScript SDKs did not run, as {NO_NODE}=1")


@pytest.fixture(scope="session", autouse=True)
def _clean_environment() -> Iterator[None]:
    with undisturbed():
        yield


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """What ``kiro-asgi serve --simulate`` gives."""
    with simulated(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="session")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with short timeouts and a service that tells what it was asked."""
    with watched(tmp_path_factory.mktemp("impatient"), **IMPATIENT) as running:
        yield running


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with the settings that everybody has, and a service that says what a test wants it to."""
    with watched(tmp_path_factory.mktemp("scripted"), **TRANSIENT_RETRIES, **EVERY_SERVICE) as running:
        yield running


@pytest.fixture
def service(scripted: Gateway) -> Iterator[Simulator]:
    """The service behind `scripted`, with nothing asked yet; what a test has it say ends with the test."""
    service = scripted.service
    assert service is not None
    service.forget()
    yield service
    service.answer_with(None)


@pytest.fixture(scope="session")
def clients(_clean_environment: None) -> Iterator[Clients]:
    """Makes the official clients."""
    with connected() as made:
        yield made


@pytest.fixture(scope="session")
def chat(clients: Clients, gateway: Gateway) -> openai.OpenAI:
    """The OpenAI client."""
    return clients.openai(gateway)


@pytest.fixture(scope="session")
def messages(clients: Clients, gateway: Gateway) -> anthropic.Anthropic:
    """The Anthropic client."""
    return clients.anthropic(gateway)
