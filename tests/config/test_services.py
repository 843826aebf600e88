"""Tables that name a known service."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kiro_asgi import ConfigError, Settings
from kiro_asgi.cli.check import examine
from kiro_asgi.cli.services import known_services, toml_of
from kiro_asgi.config import read_environment
from kiro_asgi.upstreams import KnownService
from kiro_asgi.upstreams.openai.services import SERVICES

KEY = {"api_key": "sk-example"}

BROOK = KnownService(
    name="brook",
    title="Brook",
    settings={"endpoint": "https://brook.example/v1", "max_tokens_field": "max_tokens", "efforts": ("low", "high")},
    source="https://brook.example/docs",
    dated="2026-11-26",
)
WRONG = KnownService(
    name="wrong", title="Wrong", settings={"endpoint": "brook.example", "depth": 3}, source="", dated="2026-11-26"
)


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package is installed that offers services: a right one, a wrong one, and one that cannot be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "brook_services", raising=False)
    (tmp_path / "brook_services.py").write_text("from tests.config.test_services import BROOK, WRONG\n")
    folder = tmp_path / "brook-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: brook\nVersion: 1.0\n")
    points = ("brook = brook_services:BROOK", "wrong = brook_services:WRONG", "gone = brook_services:GONE")
    (folder / "entry_points.txt").write_text("\n".join(("[kiro_asgi.services]", *points, "")))


def test_a_name_and_a_key_are_enough() -> None:
    """All layers may name it, and whatever layer sets a value wins over the row."""
    table = {"service": "deepseek", **KEY}
    settings = Settings.from_mapping({"custom": {"deep": table}}).custom["deep"]
    assert settings.endpoint == "https://api.deepseek.com"
    assert settings.demands_thinking

    environ = {
        "KIRO_ASGI__CUSTOM__DEEP__SERVICE": "deepseek",
        "KIRO_ASGI__CUSTOM__DEEP__API_KEY": "sk-example",
        "KIRO_ASGI__CUSTOM__DEEP__DEMANDS_THINKING": "false",
    }
    assert not Settings.from_env(environ).custom["deep"].demands_thinking
    assert Settings(custom={"deep": table}).custom["deep"] == settings


def test_check_shows_where_a_value_comes_from() -> None:
    """An operator who is surprised by a value finds the service."""
    environ = {"KIRO_ASGI__CUSTOM__DEEP__SERVICE": "deepseek", "KIRO_ASGI__CUSTOM__DEEP__API_KEY": "sk-example"}
    sources = {row["path"]: row["source"] for row in examine(environ).settings}

    assert sources["custom.deep.endpoint"] == "service deepseek"
    assert sources["custom.deep.api_key"] == "KIRO_ASGI__CUSTOM__DEEP__API_KEY"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"service": "depseek"}, r"custom\.one\.service: no service is known as 'depseek'; did you mean deepseek\?$"),
        ({"service": "zzzzzz"}, r"custom\.one\.service: .*'zzzzzz'; kiro-asgi services lists those that are known$"),
        ({"service": "azure"}, r"custom\.one\.endpoint: must be set$"),
        ({"service": "not a word"}, r"custom\.one\.service: must be a word"),
        ({"service": 7}, r"custom\.one\.service: must be text"),
    ],
)
def test_a_wrong_name_is_one_problem_with_a_hint(table: dict[str, object], words: str) -> None:
    """There is one line, which names the place."""
    with pytest.raises(ConfigError, match=words) as caught:
        Settings.from_mapping({"custom": {"one": {**KEY, **table}}})
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.usefixtures("offered")
def test_packages_offer_services() -> None:
    """One from outside is as good as ours; one that cannot be used is the problem of the table that names it."""
    settings = Settings.from_mapping({"custom": {"one": {"service": "brook", **KEY}}}).custom["one"]
    assert (settings.endpoint, settings.efforts) == ("https://brook.example/v1", ("low", "high"))

    for name, words in (("wrong", "endpoint must be an absolute http or https URL"), ("gone", "cannot be imported")):
        reading = read_environment(
            Settings, {"KIRO_ASGI__CUSTOM__ONE__SERVICE": name, "KIRO_ASGI__CUSTOM__ONE__API_KEY": "k"}
        )
        assert words in reading.problems[0]
    assert [*known_services()] == [*SERVICES, "brook", "wrong"]


@pytest.mark.parametrize("name", SERVICES)
def test_the_printed_table_does_what_the_name_does(name: str, tmp_path: Path) -> None:
    """Who copies it to change a value begins with the same settings."""
    lines = [*toml_of(SERVICES[name]), 'api_key = "sk-example"']
    if "endpoint" not in SERVICES[name].settings:
        lines.append('endpoint = "https://me.example/v1"')
    file = tmp_path / "gateway.toml"
    file.write_text("\n".join(lines))
    [(_, written)] = Settings.from_toml(file).custom.items()
    table = {
        "service": name,
        **KEY,
        **({} if "endpoint" in SERVICES[name].settings else {"endpoint": "https://me.example/v1"}),
    }
    named = Settings.from_mapping({"custom": {"one": table}}).custom["one"]

    for setting in SERVICES[name].settings:
        assert getattr(written, setting) == getattr(named, setting)
