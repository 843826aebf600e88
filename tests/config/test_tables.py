"""Mappings, and other values, in the place of a table of settings: ``Settings(kiro={…})``."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from kiro_asgi.config import KiroSettings, OpenAISettings, RetrySettings, Settings
from kiro_asgi.config.leaves import families, leaves, slices
from kiro_asgi.errors import ConfigError

TABLES = {**slices(Settings), **{f"{family}.mine": kind for family, kind in families(Settings).items()}}
"""Path to the class of every table that there is; each family has one."""

NEEDED: dict[str, dict[str, Any]] = {
    "custom.mine": {"endpoint": "http://127.0.0.1:1/v1"},
    "keys.mine": {"hash": "sha256:" + 64 * "0"},
    "credentials.mine": {"credential": "x"},
    "groups.mine": {"streams": 1},
}
EACH_TABLE = pytest.mark.parametrize("path", TABLES)


def nested(path: str, table: Any) -> dict[str, Any]:
    family, _, member = path.partition(".")
    return {family: {member: table}} if member else {family: table}


def refused(**given: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        Settings(**given)
    return caught.value.message


@EACH_TABLE
def test_a_mapping_is_read_as_from_mapping_reads_it(path: str) -> None:
    """With the values that it has, and defaults for the others."""
    table = NEEDED.get(path, {})
    names = [it.name for it in attrs.fields(TABLES[path]) if it.default == () and it.name not in table]
    given = nested(path, {**table, **{name: [] for name in names}})

    assert Settings(**given) == Settings.from_mapping(given)


@EACH_TABLE
def test_a_wrong_name_is_refused(path: str) -> None:
    """By its path, and the name that it is like."""
    known = attrs.fields(TABLES[path])[0].name
    assert f"{path}.{known}_x: no such setting; did you mean {path}.{known}?" in refused(
        **nested(path, {**NEEDED.get(path, {}), f"{known}_x": 1})
    )


@pytest.mark.parametrize("path", leaves(Settings, [path for path in TABLES if "." in path]))
def test_a_wrong_value_is_refused(path: str) -> None:
    """By its path, and what it must be."""
    table, _, name = path.rpartition(".")
    wrong = {**NEEDED.get(table, {}), name: {"a": 1}}
    assert f"{path}: must be " in refused(**(nested(table, wrong) if table else {path: {"a": 1}}))


@EACH_TABLE
def test_what_is_no_table_is_refused(path: str) -> None:
    """By its path, and the class that is wanted."""
    for value in (5, None, "kiro", ["a"], KiroSettings if path != "kiro" else RetrySettings()):
        message = f"{path}: must be {TABLES[path].__name__}, or a mapping of its settings, not {type(value).__name__}"
        assert message in refused(**nested(path, value))


@pytest.mark.parametrize("family", families(Settings))
def test_what_is_no_family_is_refused(family: str) -> None:
    """By its path, and what it must be."""
    assert f"{family}: must be a mapping of names to " in refused(**{family: 5})


def test_all_of_them_are_named_at_once() -> None:
    """So that nobody has to try again for each."""
    told = refused(kiro={"api_kye": "x"}, retry={"attempts": "many"}, custom={"mine": {"endpiont": "x"}})
    assert {line.partition(":")[0].strip() for line in told.splitlines()[1:]} == {
        "kiro.api_kye",
        "retry.attempts",
        "custom.mine.endpiont",
    }


def test_tables_and_mappings_may_stand_side_by_side() -> None:
    """In one family, too; and a preset counts for what is read."""
    one = OpenAISettings(endpoint="http://127.0.0.1:1")
    settings = Settings(custom={"one": one, "two": {"endpoint": "http://127.0.0.1:2"}}, retry=RetrySettings(attempts=1))

    assert settings.custom["one"] is one
    assert settings.custom["two"] == OpenAISettings(endpoint="http://127.0.0.1:2")
    contract = {"kiro": {"api_key": "ksk_x"}}
    assert (
        Settings(preset="contract", **contract).kiro == Settings.from_mapping({"preset": "contract", **contract}).kiro
    )


def test_a_secret_is_not_repeated() -> None:
    """A value of the wrong type may hold one."""
    assert "hidden" not in refused(kiro={"api_key": {"a": "hidden"}})
    assert "hidden" not in json.dumps(refused(kiro={"api_key": ["hidden"]}))
