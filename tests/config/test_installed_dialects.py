"""A client API from outside, the example of the pages, as an installed package: like a built-in one everywhere."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve, frozen

from kiro_asgi import ConfigError, Settings, create_app
from kiro_asgi.asgi.door.readiness import problems_of
from kiro_asgi.config import describe, read_environment
from kiro_asgi.dialects.manifest import DialectSettings, dialects_in
from tests.asgi.driver import Exchange, http_scope
from tests.cli.processes import command, serving
from tests.examples import EXAMPLES, example

PLAIN = example("plain_dialect").PLAIN
WELL = {"KIRO_ASGI__CLIENT__API_KEYS": "k", "KIRO_API_KEY": "ksk_x"}

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts the example on the path, with an entry point as an installer leaves it, and gives the folder."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plain_dialect", raising=False)
    shutil.copy(EXAMPLES / "plain_dialect.py", tmp_path)

    def put(value: str = "plain_dialect:PLAIN", group: str = "dialects", package: str = "plain_kiro_asgi") -> Path:
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[kiro_asgi.{group}]\nplain = {value}\n")
        return tmp_path

    return put


def plain_call() -> Exchange:
    return Exchange(http_scope("POST", "/plain", [("authorization", "Bearer k")]), [b" "])


async def served(settings: Settings) -> bool:
    """Whether a gateway with *settings* has the API."""
    app = create_app(settings)
    exchange = await plain_call().run(app)
    await app.aclose()
    return exchange.headers["content-type"].startswith("text/plain")


@pytest.mark.anyio
async def test_it_is_served_where_a_setting_of_it_is_written(install: Install, anyio_backend: str) -> None:
    """On both loops; without one it is not even imported, and it can be switched off."""
    file = install() / "gateway.toml"
    file.write_text('[plain]\nmodel = "m"\n')

    assert not await served(Settings.from_env(WELL))
    assert "plain_dialect" not in sys.modules
    assert await served(Settings.from_env({**WELL, "KIRO_ASGI__PLAIN__ENABLED": "yes"}))
    assert await served(Settings.from_env({**WELL, "KIRO_ASGI_CONFIG": str(file)}))
    assert not await served(
        Settings.from_env({**WELL, "KIRO_ASGI_CONFIG": str(file), "KIRO_ASGI__PLAIN__ENABLED": "no"})
    )


def test_its_settings_reach_it_and_are_described(install: Install) -> None:
    """By name, variable and docstring; the instance is what ``make`` gets."""
    install()
    settings = Settings.from_mapping({"plain": {"model": "claude"}, "kiro": {"api_key": "k"}})

    rows = {row.path: row for row in describe(settings)}
    assert (rows["plain.model"].value, rows["plain.model"].env) == ("claude", "KIRO_ASGI__PLAIN__MODEL")
    assert rows["plain.model"].doc == "Model of requests that name none."
    [(name, manifest)] = dialects_in(type(settings))
    assert (name, manifest.title) == ("plain", "Plain text")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"PLAIN__MODLE": "m"}, "KIRO_ASGI__PLAIN__MODLE: no such setting; did you mean KIRO_ASGI__PLAIN__MODEL?"),
        ({"PLAIN__ENABLED": "perhaps"}, "KIRO_ASGI__PLAIN__ENABLED: must be true or false"),
    ],
)
def test_mistakes_in_its_settings_are_told_like_others(install: Install, more: dict[str, str], words: str) -> None:
    """With the name of the variable."""
    install()
    reading = read_environment(Settings, {**WELL, **{f"KIRO_ASGI__{name}": value for name, value in more.items()}})

    assert words in "\n".join(problems_of(reading))


def test_a_table_that_is_nearly_its_name_is_told(install: Install) -> None:
    """Without importing it."""
    install("nowhere:PLAIN")

    with pytest.raises(ConfigError, match="plian: no such setting; did you mean plain\\?"):
        Settings.from_mapping({"plian": {"model": "m"}})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("nowhere:PLAIN", "nowhere:PLAIN of plain_kiro_asgi 1.0 cannot be imported: ModuleNotFoundError"),
        ("plain_dialect:PLAIN_TEXT", "must be a kiro_asgi.dialects.DialectManifest, not bytes"),
    ],
)
def test_a_broken_one_stops_only_who_wants_it(install: Install, value: str, words: str) -> None:
    """The message names table, entry point and package."""
    install(value)

    with pytest.raises(ConfigError, match=words):
        Settings.from_mapping({"plain": {"model": "m"}})
    assert Settings.from_env(WELL)


def test_a_name_is_of_one_kind(install: Install) -> None:
    """An upstream and a client API cannot share a table."""
    install()
    install(group="upstreams", package="other_package")

    with pytest.raises(ConfigError, match="plain: installed packages offer an upstream and a client API of this name"):
        Settings.from_mapping({"plain": {"model": "m"}})


@frozen(kw_only=True)
class Bare:
    model: str = ""


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (evolve(PLAIN, name="a-b"), "the client API 'a-b': a name is a word of small letters"),
        (evolve(PLAIN, name="gemini"), "the client API 'gemini': the name is taken"),
        (evolve(PLAIN, settings=Bare), "Bare has no 'enabled'; see kiro_asgi.dialects.DialectSettings"),
        (evolve(PLAIN, settings=dict), "the settings must be a frozen attrs class"),
    ],
)
def test_what_cannot_be_one_is_refused(manifest: object, words: str) -> None:
    """The error says what is wrong and with which."""
    with pytest.raises(ConfigError, match=words):
        Settings.including(manifest)  # type: ignore[arg-type]


def test_what_it_refuses_when_it_is_made_stops_the_gateway() -> None:
    """``check`` tells of it like the gateway."""

    def make(options: object) -> object:
        raise ConfigError("plain.model: there is no such model")

    reading = read_environment(Settings.including(evolve(PLAIN, make=make)), WELL)
    assert problems_of(reading) == ("plain.model: there is no such model",)


def test_without_settings_of_its_own_it_has_one() -> None:
    """``enabled``."""
    kind = Settings.including(evolve(PLAIN, settings=DialectSettings))

    assert [row.path for row in describe(kind()) if row.path.startswith("plain.")] == ["plain.enabled"]


def test_the_command_knows_it(install: Install, tmp_path: Path) -> None:
    """``check`` shows its settings, ``explain --api`` reads its requests even where it is not served."""
    folder = install()
    request = tmp_path / "request.txt"
    request.write_text("Say hello.")

    checked = command("check", "--json", cwd=folder, **WELL, KIRO_ASGI__PLAIN__MODEL="claude-sonnet-4.5")
    rows = {row["path"]: row for row in json.loads(checked.stdout)["settings"]}
    assert (rows["plain.model"]["value"], rows["plain.model"]["source"]) == (
        "claude-sonnet-4.5",
        "KIRO_ASGI__PLAIN__MODEL",
    )
    explain = ("explain", "--json", "--api", "plain", str(request))
    refused = json.loads(command(*explain, cwd=folder, **WELL).stdout)
    assert (refused["ok"], refused["param"]) == (False, "x-model")
    explained = json.loads(command(*explain, cwd=folder, **WELL, KIRO_ASGI__PLAIN__MODEL="claude-sonnet-4.5").stdout)
    assert (explained["api"], explained["model"]) == ("plain", "claude-sonnet-4.5")
    off = command(*explain, cwd=folder, **WELL, KIRO_ASGI__PLAIN__ENABLED="no")
    assert (off.returncode, "plain.enabled: the client API is switched off" in off.stderr) == (1, True)


def test_serve_announces_it(install: Install) -> None:
    """Beside the APIs of the package, with its address."""
    folder = install()
    with serving("--simulate", cwd=folder, PYTHONPATH=str(folder), KIRO_ASGI__PLAIN__MODEL="m") as server:
        server.stop()

    [line] = [line for line in server.announced if line.startswith("Plain text:")]
    assert line.split()[-1] == f"{server.base}/plain"
