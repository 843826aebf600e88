"""Settings with very many keys are read, checked and served in work that grows with their number, and no faster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi import Settings
from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.asgi.door.readiness import problems_with
from kiro_asgi.asgi.kept.secrets import secrets_in
from kiro_asgi.cli.key_tables import KeyFile
from kiro_asgi.config.reading import read_environment, read_mapping, read_toml
from kiro_asgi.config.tree import assembled
from kiro_asgi.errors import ConfigError
from kiro_asgi.quota.settings import hash_of
from tests.growth import assert_linear, steps

FEW = 40


def tables(number: int, **more: Any) -> dict[str, Any]:
    keys = {f"k{at}": {"hash": hash_of(b"%d" % at), "group": "g", "models": ["kiro/*"], **more} for at in range(number)}
    return {"kiro": {"api_key": "x"}, "groups": {"g": {"requests_per_minute": 5}}, "keys": keys}


def written(path: Path, number: int) -> Path:
    lines = (f'[keys.k{at}]\nhash = "{hash_of(b"%d" % at)}"\n' for at in range(number))
    path.write_text("[kiro]\napi_key = 'x'\n" + "".join(lines))
    return path


def reading(number: int) -> Callable[[], object]:
    given = tables(number)
    return lambda: assembled(read_mapping(Settings, given))


def misspelt(number: int) -> Callable[[], object]:
    given = tables(number, hesh="x")
    return lambda: read_mapping(Settings, given)


def faulty(number: int) -> Callable[[], object]:
    given = tables(number, hash="x")
    return lambda: read_mapping(Settings, given)


def variables(number: int) -> Callable[[], object]:
    environ = {f"KIRO_ASGI__KEYS__K{at}__HASH": hash_of(b"%d" % at) for at in range(number)}
    return lambda: read_environment(Settings, environ)


def serving(number: int) -> Callable[[], object]:
    settings = Settings.from_mapping(tables(number))
    return lambda: (problems_with(settings), Authenticator(settings), [*secrets_in(settings)])


@pytest.fixture(autouse=True)
def warm() -> None:
    """What is done once for all has been done."""
    for work in (reading(1), serving(1)):
        work()


WORK = [
    pytest.param(reading, id="read"),
    pytest.param(misspelt, id="misspelt"),
    pytest.param(faulty, id="faulty"),
    pytest.param(variables, id="environment"),
    pytest.param(serving, id="served"),
]


@pytest.mark.parametrize("work", WORK)
def test_work_grows_with_the_keys(work):
    """Twice the keys, twice the work."""
    assert_linear(work, FEW)


def test_files_of_keys_are_read_and_changed_in_linear_work(tmp_path):
    """By the gateway, and by the command that changes one of them."""

    def read(number: int) -> Callable[[], object]:
        path = written(tmp_path / f"{number}.toml", number)
        return lambda: assembled(read_toml(Settings, path))

    def change(number: int) -> Callable[[], object]:
        path = written(tmp_path / f"{number}.toml", number)
        return lambda: KeyFile(path).set(f"k{number - 1}", "disabled", True)

    assert_linear(read, FEW)
    assert_linear(change, FEW)


def test_a_key_costs_few_steps():
    """Of twenty thousand, each may cost no more than this, or the start takes longer than two seconds."""
    each = (steps(reading(2 * FEW)) - steps(reading(FEW))) / FEW

    assert each < 900


def test_every_key_is_still_judged():
    """Of many, the faults of each are told, with its place."""
    given = tables(300)
    given["keys"]["k123"]["hash"] = "none"
    given["keys"]["k299"]["requests_per_minute"] = -1
    del given["keys"]["k7"]["hash"]
    with pytest.raises(ConfigError) as refused:
        Settings.from_mapping(given)

    assert len(refused.value.reasons) == 3
    for place in ("keys.k7.hash", "keys.k123.hash", "keys.k299.requests_per_minute"):
        assert place in str(refused.value)


def test_no_hash_is_looked_for_in_texts():
    """It opens nothing and nobody is sent it; to look for very many of them takes seconds, and room."""
    assert [*secrets_in(Settings.from_mapping(tables(3)))] == ["x"]
