"""What is said of settings that cannot be read, or are misspelt: one mistake is one line, with its place."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi import ConfigError, create_app
from kiro_asgi.asgi.door.readiness import problems_of
from kiro_asgi.config import Settings, read_environment
from kiro_asgi.config.leaves import Leaf, leaves
from kiro_asgi.config.reading import read_mapping

ENOUGH = {"KIRO_API_KEY": "ksk_1", "KIRO_ASGI__CLIENT__API_KEYS": "k"}


def told(environ: Mapping[str, str]) -> tuple[str, ...]:
    return problems_of(read_environment(Settings, environ))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            '[kiro]\napi_key = "k"\nregion = "eu\n',
            "is not TOML: Illegal character '\\n' (at line 3, column 13)",
            id="quote",
        ),
        pytest.param("[kiro]\nregion: x\n", "(at line 2, column 7)", id="colon"),
        pytest.param("[kiro]\n[kiro]\n", "(at line 2, column 6)", id="twice"),
    ],
)
def test_a_broken_file_is_one_problem_with_its_line(text: str, words: str, tmp_path: Path) -> None:
    """What would have stood in it is not missed as well, not even by what the environment has of a table."""
    file = tmp_path / "gateway.toml"
    file.write_text(text)
    environ = {"KIRO_ASGI_CONFIG": str(file), "KIRO_ASGI__CUSTOM__LOCAL__API_KEY": "k"}

    (problem,) = told(environ)
    assert problem.startswith(f"{file}: ")
    assert words in problem


def test_a_file_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    """The same, whatever else is missing then."""
    assert told({"KIRO_ASGI_CONFIG": str(tmp_path / "gone.toml")}) == (
        f"{tmp_path / 'gone.toml'}: cannot be read: No such file or directory",
    )


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (
            {"KIRO_ASGI__CLEINT__API_KEYS": "k", "KIRO_API_KEY": "ksk_1"},
            "KIRO_ASGI__CLEINT__API_KEYS: no such setting; did you mean KIRO_ASGI__CLIENT__API_KEYS?",
        ),
        (
            {"KIRO_ASGI__CLIENT_API_KEYS": "k", "KIRO_API_KEY": "ksk_1"},
            "KIRO_ASGI__CLIENT_API_KEYS: no such setting; did you mean KIRO_ASGI__CLIENT__API_KEYS?",
        ),
        (
            {"KIRO_ASGI__KIRO__API_KYE": "ksk_1", "KIRO_ASGI__CLIENT__API_KEYS": "k"},
            "KIRO_ASGI__KIRO__API_KYE: no such setting; did you mean KIRO_ASGI__KIRO__API_KEY?",
        ),
        (
            {**ENOUGH, "KIRO_ASGI__CUSTOM__LOCAL__ENDPONT": "http://h", "KIRO_ASGI__CUSTOM__LOCAL__API_KEY": "k"},
            "KIRO_ASGI__CUSTOM__LOCAL__ENDPONT: no such setting; did you mean KIRO_ASGI__CUSTOM__LOCAL__ENDPOINT?",
        ),
    ],
)
def test_a_misspelt_variable_is_one_problem(environ: Mapping[str, str], words: str) -> None:
    """That the setting which was meant is missing is its consequence."""
    assert told(environ) == (words,)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"cleint": {"api_keys": ["k"]}}, "cleint: no such setting; did you mean client?"),
        ({"client": {"api_key": ["k"]}}, "client.api_key: no such setting; did you mean client.api_keys?"),
        (
            {"custom": {"local": {"endpont": "http://h"}}},
            "custom.local.endpont: no such setting; did you mean custom.local.endpoint?",
        ),
        ({"kiro": {"retry": {"attempts": 2}}}, "kiro.retry: no such setting; did you mean retry?"),
    ],
)
def test_a_misspelt_name_is_told_at_every_depth(written: Mapping[str, Any], words: str) -> None:
    """A table, a setting in one, one of a family's, and a table in a table."""
    (problem,) = read_mapping(Settings, written).problems
    assert problem == words


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("KIRO_ASGI_CLIENT__API_KEYS", "KIRO_ASGI__CLIENT__API_KEYS"),
        ("KIRO_ASGI_CLIENT_API_KEYS", "KIRO_ASGI__CLIENT__API_KEYS"),
        ("KIROASGI__CLIENT__API_KEYS", "KIRO_ASGI__CLIENT__API_KEYS"),
        ("KIRO_AGSI__CLIENT__API_KEY", "KIRO_ASGI__CLIENT__API_KEYS"),
        ("KIRO_ASGI_CUSTOM__LOCAL__ENDPOINT", "KIRO_ASGI__CUSTOM__LOCAL__ENDPOINT"),
    ],
)
def test_a_misspelt_prefix_is_a_warning(name: str, meant: str) -> None:
    """It is not ours, so it may be somebody else's; whoever meant us learns why nothing happens."""
    reading = read_environment(Settings, {**ENOUGH, name: "x"})

    assert reading.problems == ()
    assert reading.warnings == (
        f"{name} is not read: names of settings begin with KIRO_ASGI__, with two underscores; did you mean {meant}?",
    )


def test_names_of_others_are_no_warning() -> None:
    """What Kubernetes sets for a service called ``kiro-asgi``, what the tests of this package use, and our own."""
    others = (
        "KIRO_ASGI_SERVICE_HOST",
        "KIRO_ASGI_SERVICE_PORT",
        "KIRO_ASGI_SERVICE_PORT_HTTP",
        "KIRO_ASGI_PORT",
        "KIRO_ASGI_PORT_8000_TCP",
        "KIRO_ASGI_PORT_8000_TCP_ADDR",
        "KIRO_ASGI_PORT_8000_TCP_PROTO",
        "KIRO_ASGI_LIMITS_SERVICE_HOST",
        "KIRO_ASGI_PICTURES",
        "KIRO_ASGI_NO_NODE",
        "KIRO_ASGI_CLIENTS_CONNECTED",
        "KIRO_HOME",
    )
    environ = {**ENOUGH, **dict.fromkeys(others, "x"), "KIRO_ASGI_CONFIG": ""}

    assert read_environment(Settings, environ).warnings == ()


def test_many_misspelt_names_are_not_all_compared() -> None:
    """Each takes milliseconds, and the first few say what is wrong."""
    environ = {f"KIRO_ASGI_CLIENT__API_KEYS{'S' * number}": "x" for number in range(500)}

    assert 0 < len(read_environment(Settings, {**ENOUGH, **environ}).warnings) <= 8


def test_without_a_service_the_ways_to_one_are_told() -> None:
    """All of them, and why another program's key does not count."""
    (nothing,) = told({"KIRO_ASGI__CLIENT__API_KEYS": "k"})
    (other,) = told({"KIRO_ASGI__CLIENT__API_KEYS": "k", "OPENAI_API_KEY": "sk-canary", "GEMINI_API_KEY": ""})

    assert nothing == (
        "no service is set up; set one of: KIRO_API_KEY (Kiro; kiro-asgi login signs in without one), "
        "anthropic.api_key (Anthropic), openai.api_key (OpenAI), gemini.api_key (Gemini), bedrock.api_key (Amazon "
        "Bedrock), custom.NAME.endpoint (a server of your own)"
    )
    assert other == (
        f"{nothing}; OPENAI_API_KEY is there, but no other program's key is used unasked: to use it, set "
        "KIRO_ASGI__OPENAI__API_KEY to it"
    )


HOSTILE = ("a\0b", "~no_such_user/x", "\ud800", "x" * 5_000, "\n", "{", "%s")
"""Texts that are no names of files, hosts or anything else."""

TEXTS = [leaf for leaf in leaves(Settings, ("custom.local",)).values() if leaf.type in (str, tuple[str, ...])]


@pytest.mark.parametrize("leaf", TEXTS, ids=lambda leaf: leaf.path)
def test_a_text_that_cannot_be_is_a_problem_with_its_place(leaf: Leaf, tmp_path: Path, monkeypatch: Any) -> None:
    """Whatever is made of it when an application is made: a file, an address, a pattern, a price."""
    monkeypatch.chdir(tmp_path)
    for text in HOSTILE:
        settings: dict[str, Any] = {"kiro": {"api_key": "ksk_1"}, "client": {"api_keys": ["k"]}, "custom": {}}
        *tables, name = leaf.path.split(".")
        table = settings
        for each in tables:
            table = table.setdefault(each, {})
        table[name] = text if leaf.type is str else [text]
        if "state" in settings:
            settings["state"] = {"engine": "sqlite", **settings["state"]}
        with suppress(ConfigError):
            create_app(settings)


FILES = ("prices.file", "state.path", "tapes.path", "kiro.credentials_file", "custom.local.credentials_file")


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("text", HOSTILE[:3])
def test_a_file_that_cannot_be_is_named_by_its_setting(path: str, text: str) -> None:
    """It was a traceback."""
    *tables, name = path.split(".")
    table: dict[str, Any] = {name: text}
    for each in reversed(tables):
        table = {each: table}

    assert f"{path}: must be a path; ~ stands for the home of a user that there is" in problems_of(
        read_mapping(Settings, table)
    )
