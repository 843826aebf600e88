"""Stages, stores and observers of installed packages: found by their tables, made for the application, and known to the
commands."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from kiro_asgi import (
    ConfigError,
    Observer,
    ObserverManifest,
    Settings,
    StageManifest,
    StoreManifest,
    create_app,
    simulator,
)
from kiro_asgi.asgi.door.readiness import problems_of
from kiro_asgi.asgi.kept.taping import ReplayedSettings, shown_settings
from kiro_asgi.config import describe, read_environment
from kiro_asgi.extension import ExtensionSettings, setting
from tests.asgi.driver import ask, get, post
from tests.cli.processes import command, serving
from tests.examples import EXAMPLES
from tests.newcomer.pages import blocks_of

PAGES = EXAMPLES.parent / "how-to"
WELL = {"KIRO_ASGI__CLIENT__API_KEYS": "k", "KIRO_API_KEY": "ksk_x", "KIRO_ASGI__SIMULATE": "yes"}

MODULE = """
from attrs import frozen
from kiro_asgi import Observer, ObserverManifest, StageManifest, StoreManifest
from kiro_asgi.extension import ExtensionSettings, setting
from kiro_asgi.model.events import TextDelta
from kiro_asgi.state.memory import MemoryStore

print("imported")

@frozen(kw_only=True)
class LoudSettings(ExtensionSettings):
    word: str = setting("")
    \"\"\"What is said first.\"\"\"

class Loud:
    def __init__(self, word):
        self.word = word
    def feed(self, items):
        for item in items:
            yield TextDelta(self.word + item.text.upper()) if isinstance(item, TextDelta) else item
    def flush(self):
        yield from ()

def make_loud(own):
    if own.word == "wrong":
        from kiro_asgi import ConfigError
        raise ConfigError("loud.word: cannot be said")
    return lambda prompt: Loud(own.word)

LOUD = StageManifest(name="loud", title="Loud answers", settings=LoudSettings, make=make_loud)
SOFT = StageManifest(name="soft", title="Soft answers", make=lambda own: lambda prompt: Loud("soft "))
NO_STAGE = StageManifest(name="loud", title="Loud answers", settings=LoudSettings, make=lambda own: None)
ROOM = StoreManifest(name="room", title="A room", make=lambda own: MemoryStore(100, 100_000))
ATTIC = StoreManifest(name="attic", title="An attic", make=lambda own: MemoryStore(100, 100_000))
NO_STORE = StoreManifest(name="room", title="A room", make=lambda own: object())

class Seer(Observer):
    def ended(self, call, end):
        print("seen", end.status, flush=True)
    async def aclose(self):
        print("closed", flush=True)

SEER = ObserverManifest(name="seer", title="A seer", make=lambda own: Seer())
NO_OBSERVER = ObserverManifest(name="seer", title="A seer", make=lambda own: object())
"""

GROUPS = {
    "stages": {"loud": "LOUD", "soft": "SOFT"},
    "stores": {"room": "ROOM", "attic": "ATTIC"},
    "observers": {"seer": "SEER"},
}

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a package on the path, with entry points as an installer leaves them, and gives the folder."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "parts_module", raising=False)
    (tmp_path / "parts_module.py").write_text(MODULE)

    def put(groups: Mapping[str, Mapping[str, str]] = GROUPS, module: str = "parts_module") -> Path:
        folder = tmp_path / "parts_package-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: parts_package\nVersion: 1.0\n")
        lines = [
            line
            for group, points in groups.items()
            for line in (f"[kiro_asgi.{group}]", *(f"{name} = {module}:{value}" for name, value in points.items()))
        ]
        (folder / "entry_points.txt").write_text("\n".join((*lines, "")))
        return tmp_path

    return put


def settings_of(**tables: Any) -> Settings:
    return Settings.from_mapping({"client": {"api_keys": ["k"]}, "simulate": True, **tables})


async def answered(settings: Settings) -> str:
    app = create_app(settings)
    exchange = await ask("openai", "sim:count=1", stream=False).run(app)
    await app.aclose()
    text: str = exchange.json()["choices"][0]["message"]["content"]
    return text


@pytest.mark.anyio
async def test_a_stage_is_used_where_a_setting_of_it_is_written(
    install: Install, capsys: Any, anyio_backend: str
) -> None:
    """On both loops, with its settings; without one it is not even imported, and it can be switched off."""
    install()

    assert await answered(settings_of()) == "1 "
    assert "imported" not in capsys.readouterr().out
    assert await answered(settings_of(loud={"word": "so: "})) == "so: 1 "
    assert await answered(settings_of(loud={"enabled": False})) == "1 "
    assert await answered(settings_of(loud={}, soft={"enabled": True}, retry={"attempts": 2})) == "soft 1 "


@pytest.mark.anyio
async def test_stages_run_in_the_order_of_their_tables(install: Install, anyio_backend: str) -> None:
    """After those that a program hands in."""
    install()

    assert await answered(settings_of(soft={"enabled": True}, loud={"word": "a "})) == "a SOFT 1 "
    assert await answered(settings_of(loud={"word": "a "}, soft={"enabled": True})) == "soft A 1 "


@pytest.mark.anyio
async def test_a_store_is_where_responses_are_kept(install: Install, anyio_backend: str, caplog: Any) -> None:
    """And its absence is no excuse: a response that is not there was not in the memory of the process."""
    install()
    async with simulator.serve() as service:
        kiro = {"endpoint": service.url, "api_key": "ksk_x"}
        app = create_app(settings_of(simulate=False, kiro=kiro, room={"enabled": True}))
        made = await post("/v1/responses", {"model": "claude-sonnet-4.5", "input": "sim:count=1"}).run(app)
        again = await get(f"/v1/responses/{made.json()['id']}").run(app)
        missing = await get("/v1/responses/resp_1").run(app)
        await app.aclose()

    assert (again.status, missing.status) == (200, 404)
    assert "in the memory of each process" not in caplog.text


@pytest.mark.anyio
async def test_a_simulation_keeps_nothing_in_a_store_of_a_package(install: Install, anyio_backend: str) -> None:
    """What is made up is not kept beside what is real; two stores are a mistake all the same."""
    install({**GROUPS, "stores": {"room": "NO_STORE", "attic": "ATTIC"}})

    assert await answered(settings_of(room={"enabled": True})) == "1 "
    with pytest.raises(ConfigError, match="there can be one store"):
        create_app(settings_of(room={"enabled": True}, attic={"enabled": True}))


@pytest.mark.anyio
async def test_an_observer_sees_calls_and_is_closed(install: Install, anyio_backend: str, capsys: Any) -> None:
    """One for each application."""
    install()
    app = create_app(settings_of(seer={"enabled": True}))
    await ask("openai", "hi", stream=True).run(app)
    assert "closed" not in capsys.readouterr().out.split()
    await app.aclose()

    assert "closed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("groups", "tables", "words"),
    [
        ({}, {"lout": {"word": "a"}}, "lout: no such setting; did you mean loud?"),
        ({}, {"loud": {"wort": "a"}}, "loud.wort: no such setting; did you mean loud.word?"),
        ({}, {"loud": {"word": "wrong"}}, "loud.word: cannot be said"),
        ({"stages": {"loud": "NO_STAGE"}}, {"loud": {"word": "a"}}, "loud: make gave a NoneType: must be a function"),
        (
            {"stores": {"room": "NO_STORE"}},
            {"room": {"enabled": True}},
            "room: make gave a object: there must be a method: async def get(",
        ),
        (
            {"observers": {"seer": "NO_OBSERVER"}},
            {"seer": {"enabled": True}},
            "seer: make gave a object: must inherit from kiro_asgi.Observer",
        ),
        ({"stages": {"loud": "ROOM"}}, {"loud": {"word": "a"}}, "must be a kiro_asgi.StageManifest, not StoreManifest"),
        (
            {"stages": {"loud": "SOFT"}},
            {"loud": {"word": "a"}},
            "is called 'soft'; it must have the entry point's name",
        ),
        (
            {},
            {"room": {"enabled": True}, "attic": {"enabled": True}},
            "room and attic: there can be one store; set enabled = false for the others",
        ),
        (
            {},
            {"room": {"enabled": True}, "state": {"engine": "memory"}},
            "state.engine: must be auto where room is the store, not memory",
        ),
        (
            {"stages": {"loud": "LOUD"}, "observers": {"loud": "SEER"}},
            {"loud": {"word": "a"}},
            "loud: installed packages offer a stage and an observer of this name; uninstall one of them",
        ),
    ],
)
def test_mistakes_are_told_like_others(
    install: Install, groups: dict[str, dict[str, str]], tables: dict[str, Any], words: str
) -> None:
    """By whoever reads the settings, or makes an application of them."""
    install({**GROUPS, **groups})

    with pytest.raises(ConfigError) as caught:
        create_app({"client": {"api_keys": ["k"]}, "kiro": {"api_key": "ksk_x"}, **tables})
    assert words in caught.value.message


def test_a_manifest_is_looked_at_when_it_is_made() -> None:
    """As those of upstreams and client APIs."""
    stage = StageManifest(name="loud", title="Loud", make=lambda own: lambda prompt: None)
    with pytest.raises(ConfigError, match="the StageManifest of 'loud': make must be a function, not None"):
        evolve(stage, make=None)
    with pytest.raises(ConfigError, match="the StageManifest of 5: name must be text, not 5"):
        evolve(stage, name=5)
    with pytest.raises(ConfigError, match="the stage 'retry': the name is taken; give the manifest another"):
        Settings.including(evolve(stage, name="retry"))
    with pytest.raises(ConfigError, match="the stage 'loud': the settings must be a frozen attrs class"):
        Settings.including(evolve(stage, settings=dict))


@frozen(kw_only=True)
class OwnSettings(ExtensionSettings):
    """Of a program's own."""

    depth: int = setting(3)
    """How deep."""


@pytest.mark.parametrize("kind", [StageManifest, StoreManifest, ObserverManifest])
def test_a_program_may_have_the_manifest_itself(kind: Any) -> None:
    """Then nothing need be installed."""
    root = Settings.including(kind(name="own", title="Own", settings=OwnSettings, make=lambda own: None))
    rows = {row.path: row for row in describe(root.from_mapping({"own": {"depth": 4}}))}

    assert (rows["own.depth"].value, rows["own.depth"].env) == ("4", "KIRO_ASGI__OWN__DEPTH")
    assert rows["own.depth"].doc == "How deep."
    assert rows["own.enabled"].doc.startswith("Use it.")


def test_no_part_is_made_without_its_settings() -> None:
    """Reasons against starting name the table, and a table that cannot be read is not made anything of."""
    asked = []
    manifest = ObserverManifest(name="seer", title="A seer", settings=OwnSettings, make=lambda own: asked.append(own))
    environ = {"KIRO_ASGI__SEER__DEPTH": "deep", "KIRO_ASGI__CLIENT__API_KEYS": "k", "KIRO_API_KEY": "ksk_x"}

    problems = problems_of(read_environment(Settings.including(manifest), environ))
    assert [line.partition(":")[0] for line in problems] == ["KIRO_ASGI__SEER__DEPTH"]
    assert asked == []


def test_tapes_lead_to_no_store_and_no_observer(install: Install, capsys: Any) -> None:
    """What a tape names may come from anyone: they are left out, and not even imported; a stage shapes an answer."""
    install({"stages": {"loud": "LOUD"}, "stores": {"room": "ROOM"}, "observers": {"seer": "SEER"}})
    named = {"room.enabled": True, "seer.enabled": True, "retry.attempts": 2}
    sorted_out = ReplayedSettings.of(named)

    assert (dict(sorted_out.taken), sorted_out.left_out) == ({"retry.attempts": 2}, ("room.enabled", "seer.enabled"))
    assert capsys.readouterr().out == ""
    assert ReplayedSettings.of({"loud.enabled": True}).left_out == ()
    settings = settings_of(room={"enabled": True}, seer={"enabled": True})
    assert not [path for path, _ in shown_settings(settings) if path.startswith(("room", "seer"))]


@pytest.mark.anyio
async def test_observers_are_closed_again_and_again(anyio_backend: str) -> None:
    """An application may be closed in each event loop, and go on."""

    class Counting(Observer):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    observer = Counting()
    app = create_app(settings_of(), observers=[observer])
    await app.aclose()
    await ask("openai", "hi", stream=False).run(app)
    await app.aclose()

    assert observer.closed == 2


def test_the_commands_know_all_three(install: Install, tmp_path: Path) -> None:
    """``check`` shows settings, ``doctor`` tries the store and names the others, ``explain`` names stages."""
    folder = install()
    (tmp_path / "request.json").write_text('{"model": "m", "messages": [{"role": "user", "content": "hi"}]}')
    tables = {"KIRO_ASGI__LOUD__WORD": "so", "KIRO_ASGI__ROOM__ENABLED": "yes", "KIRO_ASGI__SEER__ENABLED": "yes"}
    asked = {
        "KIRO_ASGI__CLIENT__API_KEYS": "k",
        "KIRO_API_KEY": "ksk_x",
        "KIRO_ASGI__KIRO__ENDPOINT": "http://127.0.0.1:9",
    }

    checked = command("check", cwd=folder, **WELL, **tables).stdout
    assert "loud.word" in checked and "room.enabled" in checked and "seer.enabled" in checked
    examined = command("doctor", "--json", "--no-request", cwd=folder, **asked, **tables).stdout
    found = {row["name"]: row for row in json.loads(examined[examined.index("{") :])["findings"]}
    assert found["state"]["detail"].startswith("A room: written, locked, and read in ")
    assert found["loud"]["detail"] == "Loud answers: a stage of every answer"
    assert found["seer"]["detail"] == "A seer: an observer of every call"
    explained = command("explain", "request.json", cwd=folder, **asked, **tables).stdout
    assert "stages of installed packages: loud; each sees the answer" in explained
    wrong = command("check", cwd=folder, **{**WELL, **tables, "KIRO_ASGI__LOUD__WORD": "wrong"})
    assert (wrong.returncode, "loud.word: cannot be said" in wrong.stderr) == (1, True)


def test_explain_says_that_a_stage_keeps_a_request_from_passing(install: Install, tmp_path: Path) -> None:
    """The service has the client's own API, and the answer is translated for the stage all the same."""
    folder = install()
    body = {"model": "anthropic/claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    (tmp_path / "request.json").write_text(json.dumps(body))
    asked = {"KIRO_ASGI__ANTHROPIC__API_KEY": "sk", "KIRO_ASGI__CLIENT__API_KEYS": "k"}

    report = json.loads(command("explain", "--json", "request.json", cwd=folder, **asked).stdout)
    assert (report["as_it_is"], report["stages"]) == (True, [])
    told = command("explain", "--json", "request.json", cwd=folder, **asked, KIRO_ASGI__LOUD__WORD="so").stdout
    report = json.loads(told[told.index("{") :])
    assert (report["as_it_is"], report["stages"], report["translated_because"]["reason"]) == (
        False,
        ["loud"],
        "stages.own",
    )


def test_serve_uses_them_and_says_so(install: Install, tmp_path: Path) -> None:
    """In its announcement, beside the APIs that packages have added."""
    folder = install()
    tables = {"KIRO_ASGI__LOUD__WORD": "so", "KIRO_ASGI__ROOM__ENABLED": "yes", "KIRO_ASGI__SEER__ENABLED": "yes"}
    keys = {"KIRO_API_KEY": "ksk_x", "KIRO_ASGI__CLIENT__API_KEYS": "k"}
    with serving(cwd=folder, PYTHONPATH=str(folder), **keys, **tables) as server:
        announced = [line for line in server.announced if not line.startswith("imported")]
        server.stop()

    assert "Stages:             Loud answers" in announced
    assert "Store:              A room" in announced
    assert "Observers:          A seer" in announced
    assert not (folder / "state").exists()


@pytest.mark.parametrize(("page", "group"), [("own-stage", "stages"), ("own-store", "stores")])
def test_the_pages_package_works(page: str, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module, its entry point and its table, as they are shown."""
    blocks = [it for it in blocks_of(PAGES / f"{page}.rst") if it.caption]
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    points: Mapping[str, str] = {}
    for block in blocks:
        if block.language == "python":
            (tmp_path / block.caption).write_text(block.code)
        elif block.caption == "pyproject.toml":
            points = tomllib.loads(block.code)["project"]["entry-points"][f"kiro_asgi.{group}"]
    folder = tmp_path / "page_package-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: page_package\nVersion: 1.0\n")
    lines = (f"{name} = {value}" for name, value in points.items())
    (folder / "entry_points.txt").write_text("\n".join((f"[kiro_asgi.{group}]", *lines, "")))
    [table] = [block.code for block in blocks if block.caption == "gateway.toml"]

    create_app({**tomllib.loads(table), "client": {"api_keys": ["k"]}, "kiro": {"api_key": "ksk_x"}})
    assert points and set(points) == set(tomllib.loads(table))
    for module in points.values():
        sys.modules.pop(module.partition(":")[0], None)
