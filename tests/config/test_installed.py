"""Upstreams from outside: handed over by a program, or offered by packages that are installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, field, frozen

from kiro_asgi.config import Settings, describe, read_environment
from kiro_asgi.errors import ConfigError
from kiro_asgi.setting import Bounds, setting
from kiro_asgi.upstreams.manifest import Manifest, manifests_in, set_up
from kiro_asgi.upstreams.settings import DirectSettings, Setup


@frozen(kw_only=True)
class RiverSettings(DirectSettings):
    """A service of somebody's own."""

    depth: int = setting(1, Bounds(1, 9))
    """How deep it is, in metres."""


def never(configured: Any) -> Setup:
    raise AssertionError("it is not to be asked")


RIVER = Manifest(name="river", title="River", settings=RiverSettings, make=never)

MODULE = """
from tests.config.test_installed import RIVER
WRONG = "no manifest"
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a package on the path whose entry points, *name* to *value*, are of our group."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "river_module", raising=False)
    (tmp_path / "river_module.py").write_text(MODULE)

    def put(package: str, **points: str) -> None:
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = (f"{name} = {value}" for name, value in points.items())
        (folder / "entry_points.txt").write_text("\n".join(("[kiro_asgi.upstreams]", *lines, "")))

    return put


def test_settings_of_others_stand_below_their_name() -> None:
    """They are read, checked, shown and counted as those of built-in upstreams are."""
    settings = Settings.including(RIVER).from_mapping({"river": {"api_key": "secret", "depth": 3}})

    rows = {row.path: row for row in describe(settings)}
    assert rows["river.depth"].env == "KIRO_ASGI__RIVER__DEPTH"
    assert (rows["river.depth"].value, rows["river.depth"].doc) == ("3", "How deep it is, in metres.")
    assert "secret" not in rows["river.api_key"].value
    assert rows["retry.attempts"].doc
    assert [(each.path, each.manifest) for each in set_up(settings)] == [("river", RIVER)]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"river": {"deptf": 1}}, "river.deptf: no such setting; did you mean river.depth?"),
        ({"river": {"depth": 10}}, "river.depth: must be from 1 to 9, not 10"),
        (
            {"custom": {"river": {"endpoint": "http://h"}}},
            "custom.river: the name is taken; it has settings of its own",
        ),
        ({"rivr": {"depth": 1}}, "rivr: no such setting; did you mean river?"),
    ],
)
def test_mistakes_in_them_are_told_like_others(written: dict[str, Any], words: str) -> None:
    """The same words, with the place."""
    with pytest.raises(ConfigError) as caught:
        Settings.including(RIVER).from_mapping(written)

    assert caught.value.reasons[-1] == words


def test_settings_without_them_get_their_defaults() -> None:
    """What was set before stays, and a class that has them already stays the class."""
    settings = Settings.from_mapping({"kiro": {"api_key": "k"}}).with_defaults(RIVER)

    assert settings.kiro.api_key == "k"
    assert dict(manifests_in(type(settings)))["river"] is RIVER
    assert settings.with_defaults(RIVER) is settings
    assert type(settings) is Settings.including(RIVER)


@frozen
class Unset:
    depth: int


@frozen(kw_only=True)
class Odd(DirectSettings):
    depths: dict[str, int] = field(factory=dict)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (
            "river",
            "'river' is none of kiro_asgi.upstreams.Manifest, kiro_asgi.dialects.DialectManifest, kiro_asgi.Stage",
        ),
        (RiverSettings, "RiverSettings'> is none of kiro_asgi.upstreams.Manifest, "),
        *(
            (evolve(RIVER, name=name), "a name is a word of small letters")
            for name in ("", "River", "a-b", "a__b", "1a")
        ),
        *((evolve(RIVER, name=name), "the name is taken") for name in ("kiro", "retry", "custom", "from_env", "class")),
        (evolve(RIVER, settings=dict), "the settings must be a frozen attrs class"),
        (evolve(RIVER, settings=Unset), "Unset cannot be made without arguments: TypeError"),
        (evolve(RIVER, settings=Odd), "Odd.depths must be annotated as bool, int"),
        (evolve(RIVER, settings=frozen(type("Bare", (), {}))), "Bare has no 'configured'"),
    ],
)
def test_what_cannot_be_an_upstream_is_refused(manifest: Any, words: str) -> None:
    """The error says what is wrong and with which."""
    with pytest.raises(ConfigError) as caught:
        Settings.including(manifest)

    assert words in caught.value.message


@pytest.mark.parametrize("field", ["doctor", "login"])
def test_commands_are_named_as_text(field: str) -> None:
    """A function, as manifests had it once, is refused where the manifest is made."""
    with pytest.raises(ConfigError) as caught:
        evolve(RIVER, **{field: never})

    words = f"the manifest of the upstream 'river': {field} must be text such as 'package.module:name', not <function"
    assert caught.value.message.startswith(words)


def test_two_of_one_name_are_refused() -> None:
    """Neither of them would be the one that is meant."""
    with pytest.raises(ConfigError, match="'river': the name is taken"):
        Settings.including(RIVER, evolve(RIVER, title="Another"))


def test_an_installed_one_is_imported_when_it_is_written_of(install: Install, tmp_path: Path) -> None:
    """In a mapping, a file or the environment; settings of others leave it alone."""
    install("river-package", river="river_module:RIVER", brook="nowhere:BROOK")
    file = tmp_path / "gateway.toml"
    file.write_text("[river]\ndepth = 4\n")

    Settings.from_mapping({"retry": {"attempts": 2}})
    assert "river_module" not in sys.modules
    for settings in (
        Settings.from_mapping({"river": {"depth": 4}}),
        Settings.from_toml(file),
        Settings.from_env({"KIRO_ASGI__RIVER__DEPTH": "4"}),
        Settings.from_env({"KIRO_ASGI_CONFIG": str(file)}),
    ):
        assert settings == Settings.including(RIVER)(river=RiverSettings(depth=4))
    assert "river_module" in sys.modules


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            "nowhere:RIVER",
            "nowhere:RIVER of river-package 1.0 cannot be imported: ModuleNotFoundError: No module named",
        ),
        ("river_module:ABSENT", "river_module:ABSENT of river-package 1.0 cannot be imported: AttributeError"),
        ("river_module:WRONG", "of river-package 1.0 must be a kiro_asgi.upstreams.Manifest, not str"),
    ],
)
def test_a_broken_one_stops_only_who_wants_it(install: Install, value: str, words: str) -> None:
    """The message names table, entry point and package, once, however much is written of it."""
    install("river-package", river=value)
    environ = {"KIRO_ASGI__RIVER__DEPTH": "4", "KIRO_ASGI__RIVER__API_KEY": "k", "KIRO_ASGI__KIRO__REGION": "eu-west-1"}
    reading = read_environment(Settings, environ)

    assert len(reading.problems) == 1
    assert reading.problems[0].startswith("river: the entry point ")
    assert words in reading.problems[0]
    assert reading.values["kiro.region"] == "eu-west-1"
    assert Settings.from_env({"KIRO_ASGI__KIRO__REGION": "eu-west-1"}).kiro.region == "eu-west-1"


def test_the_name_is_that_of_the_entry_point(install: Install) -> None:
    """Who writes ``[stream_two]`` gets no upstream of another name."""
    install("river-package", brook="river_module:RIVER")

    with pytest.raises(ConfigError, match=r"brook: the entry point .* is called 'river'; it must have") as caught:
        Settings.from_mapping({"brook": {"depth": 1}})
    assert "no such setting" not in caught.value.message


def test_an_upstream_that_two_packages_offer_is_neither(install: Install) -> None:
    """The message names both."""
    install("river-package", river="river_module:RIVER")
    install("other-package", river="river_module:RIVER")

    with pytest.raises(
        ConfigError, match=r"river: several packages .*: (river|other)-package 1.0, (river|other)-package"
    ):
        Settings.from_mapping({"river": {"depth": 1}})


def test_one_that_is_handed_over_goes_before_an_installed_one(install: Install) -> None:
    """A program that brings its own does not depend on what else is installed."""
    install("river-package", river="nowhere:RIVER")

    assert Settings.including(RIVER).from_mapping({"river": {"depth": 2}})


def test_an_installed_one_is_what_may_be_meant(install: Install) -> None:
    """A table that nobody has is compared with the names that packages offer, without importing them."""
    install("river-package", river="nowhere:RIVER")

    with pytest.raises(ConfigError, match="rivver: no such setting; did you mean river\\?"):
        Settings.from_mapping({"rivver": {"depth": 2}})
