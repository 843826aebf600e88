"""The sites that the how-to pages show, where their framework is not among what all tests need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kiro_asgi.simulator import answer, text
from kiro_asgi.simulator.server import Simulator
from tests.hosts.asking import APIS, collect, pieces
from tests.hosts.running import Running, environment, started
from tests.hosts.test_cells import SLOWLY, WORDS, leave_in_the_middle

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SERVER = ("hypercorn", "--log-level", "warning", "--graceful-timeout", "5", "--bind", "127.0.0.1:{port}")


@pytest.fixture(scope="module", params=["fastapi_site", "litestar_site", "litestar_mount", "sanic_site"])
def site(request: pytest.FixtureRequest, service: Simulator) -> Iterator[Running]:
    environ = environment(service.url, PYTHONPATH=str(EXAMPLES))
    with started((*SERVER, f"{request.param}:application"), environ, cwd=EXAMPLES) as found:
        yield found
        status, said = found.stop(), found.said()
    assert status == 0
    assert "Traceback" not in said and "ERROR" not in said and "Task was destroyed" not in said, said


def test_the_site_and_the_gateway_are_there(site: Running) -> None:
    """C03: the page, the gateway below its prefix, and the site's own 404 for what only begins like it."""
    page, models, alike = (site.get(path) for path in ("/", "/llm/v1/models", "/llmx/v1/models"))

    assert (page.status_code, page.text) == (200, "The site itself.")
    assert (models.status_code, "request-id" in models.headers) == (401, True)
    assert (alike.status_code, "request-id" in alike.headers) == (404, False)


@pytest.mark.parametrize("api", APIS)
def test_answers_come(api: str, site: Running, sim: Simulator) -> None:
    """C03: in one piece, and word by word."""
    sim.enqueue(answer(*text(*WORDS)), SLOWLY)
    whole = collect(site, api)
    came = [*pieces(site, api)]

    assert whole == "".join(words for words, _ in came) == "".join(WORDS)
    assert came[-1][1] - came[0][1] > 0.6


def test_a_client_that_leaves(site: Running, sim: Simulator) -> None:
    """The connection to the service is closed."""
    leave_in_the_middle(site, sim)
