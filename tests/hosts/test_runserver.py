"""The Django project of the documentation under ``manage.py runserver``, with daphne and without."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kiro_asgi.simulator import answer, text
from kiro_asgi.simulator.server import Simulator
from tests.cli.processes import clean_environment
from tests.hosts.asking import APIS, collect, pieces
from tests.hosts.running import KEY, Running, started
from tests.hosts.test_cells import SLOWLY, WORDS, leave_in_the_middle

ROOT = Path(__file__).parents[2]
SETUP = f"""
from django.contrib.auth.models import User
from mysite.models import Token
Token.objects.create(owner=User.objects.create_user("ada"), digest=Token.digest_of("{KEY}"))
"""
"""A user whose token is the key that the tests show."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with a database, and a user in it."""
    made = shutil.copytree(ROOT / "docs" / "examples" / "django_project", tmp_path_factory.mktemp("django") / "project")
    for command in (("migrate", "--run-syncdb"), ("shell", "-c", SETUP)):
        subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=made,
            env=clean_environment(PYTHONPATH=str(ROOT)),
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return made


def environment(service: Simulator, settings: str) -> dict[str, str]:
    return clean_environment(
        PYTHONPATH=str(ROOT), KIRO_API_KEY="ksk_test", KIRO_ENDPOINT=service.url, DJANGO_SETTINGS_MODULE=settings
    )


RUNSERVER = ("manage", "runserver", "127.0.0.1:{port}")


@pytest.fixture(scope="module")
def daphne(project: Path, service: Simulator) -> Iterator[Running]:
    with started(RUNSERVER, environment(service, "mysite.development"), cwd=project) as found:
        yield found


@pytest.mark.parametrize("api", APIS)
def test_daphne_in_installed_apps_serves_the_gateway(api: str, daphne: Running, sim: Simulator) -> None:
    """The site's page, and answers to whoever shows a token that the ORM knows."""
    sim.enqueue(answer(*text(*WORDS)))

    assert daphne.get("/").text == "Hello, stranger."
    assert daphne.get("/llm/v1/models").status_code == 401
    assert collect(daphne, api) == "".join(WORDS)


def test_a_stream_comes_word_by_word(daphne: Running, sim: Simulator) -> None:
    """Django's development server holds nothing back."""
    sim.enqueue(SLOWLY)
    came = [*pieces(daphne, "messages")]

    assert [words for words, _ in came] == [*WORDS]
    assert came[-1][1] - came[0][1] > 0.6


def test_a_client_that_leaves(daphne: Running, sim: Simulator) -> None:
    """The connection to the service is closed."""
    leave_in_the_middle(daphne, sim)


def test_plain_runserver_has_no_gateway(project: Path, service: Simulator) -> None:
    """It speaks WSGI: ``asgi.py`` is not even imported, so below the prefix is what Django says of any unknown path."""
    with started(RUNSERVER, environment(service, "mysite.settings"), cwd=project) as plain:
        page, health = plain.get("/"), plain.get("/llm/health")
        plain.process.send_signal(signal.SIGINT)

    assert page.text == "Hello, stranger."
    assert (health.status_code, "request-id" in health.headers) == (404, False)
