"""Servers of other people; each is started once, when the first test wants it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kiro_asgi import simulator
from tests.conformance.clients import Clients, connected
from tests.conformance.gateways import Gateway
from tests.installing import installed, room
from tests.servers import aimock, litellm
from tests.servers.fronts import fronting

ROOM = "KIRO_ASGI_SERVERS_ROOM"
"""The folder in which they are kept from run to run; unless set, where the machine has its temporary files."""


@pytest.fixture(scope="session")
def behind_litellm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway before LiteLLM, which has our simulator behind it."""
    programs = installed(Path(__file__).with_name("requirements.txt"), room(ROOM))
    with (
        simulator.running() as service,
        litellm.running(programs, tmp_path_factory.mktemp("litellm"), service.url) as server,
        fronting("litellm", server.base, server.key, tmp_path_factory.mktemp("gateway")) as gateway,
    ):
        yield gateway


@pytest.fixture(scope="session")
def behind_aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway before aimock."""
    packages = aimock.installed(room(ROOM))
    with (
        aimock.running(packages, tmp_path_factory.mktemp("aimock")) as base,
        fronting("aimock", base, "x", tmp_path_factory.mktemp("gateway")) as gateway,
    ):
        yield gateway


@pytest.fixture(scope="session")
def clients() -> Iterator[Clients]:
    """Makes the official clients."""
    with connected() as made:
        yield made
