"""Settings: the same tree from three places, and one error that names everything wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.config import (
    ClientSettings,
    KiroSettings,
    LimitSettings,
    OpenAISettings,
    RetrySettings,
    Settings,
    StreamSettings,
    describe,
    read_environment,
)
from kiro_asgi.config.leaves import leaves, values_of
from kiro_asgi.errors import ConfigError
from kiro_asgi.setting import Bounds, Choices

LEAVES = leaves(Settings, ["custom.ollama"])

CUSTOM = Settings(custom={"ollama": OpenAISettings(endpoint="http://127.0.0.1:11434/v1")})
REQUIRED = {"KIRO_ASGI__CUSTOM__OLLAMA__ENDPOINT": "http://127.0.0.1:11434/v1"}
"""What the custom service among the leaves must have."""

SAMPLE = Settings(
    client=ClientSettings(api_keys=("one", "two"), allow_anonymous=True),
    kiro=KiroSettings(api_key="ksk_1", endpoint="http://127.0.0.1:9999", first_token_timeout=2.5, thinking_tags=("t",)),
    limits=LimitSettings(queue=7),
    emit_code_references=True,
)

TOML = """
emit_code_references = true
[client]
api_keys = ["one", "two"]
allow_anonymous = true
[kiro]
api_key = "ksk_1"
endpoint = "http://127.0.0.1:9999"
first_token_timeout = 2.5
thinking_tags = ["t"]
[limits]
queue = 7
"""

MAPPING = {
    "emit_code_references": True,
    "client": {"api_keys": ["one", "two"], "allow_anonymous": True},
    "kiro": {
        "api_key": "ksk_1",
        "endpoint": "http://127.0.0.1:9999",
        "first_token_timeout": 2.5,
        "thinking_tags": ("t",),
    },
    "limits": {"queue": 7},
}

ENVIRON = {
    "KIRO_ASGI__EMIT_CODE_REFERENCES": "yes",
    "KIRO_ASGI__CLIENT__API_KEYS": "one, two",
    "KIRO_ASGI__CLIENT__ALLOW_ANONYMOUS": "1",
    "KIRO_API_KEY": "ksk_1",
    "KIRO_ASGI__KIRO__ENDPOINT": "http://127.0.0.1:9999",
    "KIRO_ASGI__KIRO__FIRST_TOKEN_TIMEOUT": "2.5",
    "KIRO_ASGI__KIRO__THINKING_TAGS": "t",
    "KIRO_ASGI__LIMITS__QUEUE": "7",
    "PATH": "/usr/bin",
}


def problems(build: Any, *args: Any) -> list[str]:
    """The lines of the error that *build* must raise."""
    with pytest.raises(ConfigError) as caught:
        build(*args)
    assert caught.value.code == "config.invalid"
    return caught.value.message.split("\n  ")[1:]


def test_what_an_upstream_is_asked_with_can_be_set() -> None:
    """F055: the HTTP library, the service's address, the key and the time for a call; tests put a service of their own
    in the place of the real one by the second."""
    wanted = {"http_library": "httpcore2", "kiro": {"endpoint": "http://h", "api_key": "ksk_1"}}
    settings = Settings.from_mapping({**wanted, "limits": {"request_timeout": 12.5}})

    assert settings.http_library == "httpcore2"
    assert (settings.kiro.endpoint, settings.kiro.api_key, settings.limits.request_timeout) == (
        "http://h",
        "ksk_1",
        12.5,
    )


def test_defaults_of_the_source_documents() -> None:
    """F444: what the source documents name holds without any configuration."""
    settings = Settings()

    assert (settings.kiro.first_token_timeout, settings.stream.heartbeat) == (30.0, 15.0)
    assert settings.kiro.fake_reasoning_handling == "as_reasoning_content"
    assert settings.kiro.checksums == "strict"
    assert settings.retry == RetrySettings(attempts=3, base=1.0, factor=2.0, max_wait=20.0, jitter=0.1)
    assert Settings.from_env({}) == Settings.from_mapping({}) == settings


@pytest.mark.parametrize("source", ["mapping", "toml", "env", "env-and-toml"])
def test_every_source_builds_the_same_tree(source: str, tmp_path: Path) -> None:
    """A setting means the same wherever it is written."""
    file = tmp_path / "gateway.toml"
    file.write_text(TOML)
    built = {
        "mapping": lambda: Settings.from_mapping(MAPPING),
        "toml": lambda: Settings.from_toml(file),
        "env": lambda: Settings.from_env(ENVIRON),
        "env-and-toml": lambda: Settings.from_env({"KIRO_ASGI_CONFIG": str(file)}),
    }[source]()

    assert built == SAMPLE


def test_the_environment_wins_over_the_file_and_the_exact_name_over_the_alias(tmp_path: Path) -> None:
    """The nearer a value is to the process, the stronger it is; the sources say who won."""
    file = tmp_path / "gateway.toml"
    file.write_text('[kiro]\nregion = "eu-central-1"\napi_key = "ksk_file"\norigin = "CLI"\n')
    environ = {
        "KIRO_ASGI_CONFIG": str(file),
        "KIRO_API_KEY": "ksk_alias",
        "KIRO_ASGI__KIRO__API_KEY": "ksk_exact",
        "KIRO_ASGI__KIRO__REGION": "us-west-2",
    }

    assert Settings.from_env(environ).kiro == KiroSettings(region="us-west-2", api_key="ksk_exact", origin="CLI")
    assert read_environment(Settings, environ).sources == {
        "kiro.region": "KIRO_ASGI__KIRO__REGION",
        "kiro.api_key": "KIRO_ASGI__KIRO__API_KEY",
        "kiro.origin": "gateway.toml: kiro.origin",
    }


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        pytest.param({"clouds": {}}, ["clouds: no such setting"], id="slice"),
        pytest.param(
            {"kiro": {"regoin": "us-east-1"}}, ["kiro.regoin: no such setting; did you mean kiro.region?"], id="typo"
        ),
        pytest.param(
            {"retry": {"cap": 30.0}},
            ["retry.cap: is gone: retry.max_wait bounds all waiting between the tries of one request"],
            id="gone",
        ),
        pytest.param({"kiro": 3}, ["kiro: must be a table of settings"], id="slice-is-a-number"),
        pytest.param({"kiro": {"region": {"a": 1}}}, ["kiro.region: must be text, not {'a': 1}"], id="leaf-is-a-table"),
        pytest.param(
            {"client": {"trust_host": "yes"}}, ["client.trust_host: must be true or false, not 'yes'"], id="bool"
        ),
        pytest.param({"client": {"trust_host": 1}}, ["client.trust_host: must be true or false, not 1"], id="bool-1"),
        pytest.param({"limits": {"queue": 1.0}}, ["limits.queue: must be a whole number, not 1.0"], id="int"),
        pytest.param({"limits": {"queue": True}}, ["limits.queue: must be a whole number, not True"], id="int-bool"),
        pytest.param({"retry": {"base": "1"}}, ["retry.base: must be a number, not '1'"], id="float"),
        pytest.param({"retry": {"base": float("nan")}}, ["retry.base: must be a number, not nan"], id="float-nan"),
        pytest.param({"retry": {"jitter": 1.5}}, ["retry.jitter: must be from 0 to 1, not 1.5"], id="range"),
        pytest.param(
            {"limits": {"connections": 0}}, ["limits.connections: must be from 1 to 1048576, not 0"], id="range-int"
        ),
        pytest.param(
            {"kiro": {"wire_style": "soap"}}, ["kiro.wire_style: must be one of rest, rpc, not 'soap'"], id="choice"
        ),
        pytest.param(
            {"kiro": {"thinking_tags": "think"}},
            ["kiro.thinking_tags: must be a list of texts, not 'think'"],
            id="list",
        ),
        pytest.param(
            {"kiro": {"thinking_tags": ["a b"]}},
            ["kiro.thinking_tags: must be a word of letters, digits, - and _"],
            id="tag",
        ),
        pytest.param(
            {"kiro": {"region": "x.evil.test/#"}}, ["kiro.region: must be a region such as us-east-1"], id="R40-region"
        ),
        pytest.param(
            {"kiro": {"user_agent": "a\r\nX-Evil: 1"}}, ["kiro.user_agent: must be printable ASCII"], id="R27-header"
        ),
    ],
)
def test_a_mistake_is_named_by_its_path(mapping: Mapping[str, Any], expected: list[str]) -> None:
    """Values are never coerced, and a wrong one is told where it stands and what it must be."""
    assert problems(Settings.from_mapping, mapping) == expected


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:9999",
        "//host",
        "ftp://host",
        "http://",
        "https://:1",
        "http://host:99999",
        "http://host:0",
        "http://user:word@host",
        "http://host/?a=1",
        "http://host/#a",
        "http://host /",
        "http://host\r\nx",
        "http://[::1",
        "http://hôst",
    ],
)
def test_the_endpoint_is_a_plain_absolute_url(url: str) -> None:
    """R40: where requests go is fixed by an unambiguous URL, and a password in it is not repeated."""
    (line,) = problems(Settings.from_mapping, {"kiro": {"endpoint": url}})

    assert line == "kiro.endpoint: must be an absolute http or https URL without user, query or fragment"


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:9", "https://h.example", "https://h/a/b", "http://[::1]:80"])
def test_an_endpoint_may_have_a_port_and_a_path(url: str) -> None:
    """What a proxy in front of the service needs is accepted; empty means the public host."""
    assert Settings.from_mapping({"kiro": {"endpoint": url}}).kiro.endpoint == url


@pytest.mark.parametrize("url", ["http://proxy:3128", "https://user:p%40ss@[::1]:3128", "http://user@proxy"])
def test_a_proxy_may_want_a_user(url: str) -> None:
    """A proxy is a URL of HTTP, and may hold what the proxy wants to be told."""
    assert Settings.from_mapping({"kiro": {"proxy": url}}).kiro.proxy == url


@pytest.mark.parametrize(
    "url",
    ["socks5://h:1080", "proxy:3128", "http://us er@h", "http://user/x@h", "http://h:port", "http://[h", "http://h?q"],
)
def test_a_proxy_is_a_url_of_http(url: str) -> None:
    """What the HTTP library cannot go through is refused at the start, and not repeated."""
    (line,) = problems(Settings.from_mapping, {"kiro": {"proxy": url}})

    assert line == "kiro.proxy: must be an http or https URL, with user and password where the proxy wants them"


def test_one_error_names_every_mistake_of_every_source(tmp_path: Path) -> None:
    """Start-up fails once, with everything there is to repair; also what a higher layer would hide."""
    file = tmp_path / "gateway.toml"
    file.write_text('colour = "red"\n[kiro]\nchecksums = "crc"\n[retry]\nattempts = 0\n')
    environ = {
        "KIRO_ASGI_CONFIG": str(file),
        "KIRO_ASGI__RETRY__ATTEMPTS": "2",
        "KIRO_ASGI__LIMITS__QUEUE": "many",
        "KIRO_ASGI__LIMIT__QUEUE": "1",
        "KIRO_ASGI__kiro__region": "us-east-1",
        "KIRO_ASGI__CLIENT__TRUST_HOST": "on",
        "KIRO_ASGI__STREAM__HEARTBEAT": "-1",
    }

    assert problems(Settings.from_env, environ) == [
        "gateway.toml: colour: no such setting",
        "gateway.toml: kiro.checksums: must be one of strict, warn, off, not 'crc'",
        "gateway.toml: retry.attempts: must be from 1 to 100, not 0",
        "KIRO_ASGI__CLIENT__TRUST_HOST: must be true or false, not 'on'",
        "KIRO_ASGI__LIMITS__QUEUE: must be a whole number, not 'many'",
        "KIRO_ASGI__LIMIT__QUEUE: no such setting; did you mean KIRO_ASGI__LIMITS__QUEUE?",
        "KIRO_ASGI__STREAM__HEARTBEAT: must be from 0 to 86400, not -1.0",
        "KIRO_ASGI__kiro__region: no such setting; did you mean KIRO_ASGI__KIRO__REGION?",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(None, "cannot be read: No such file or directory", id="missing"),
        pytest.param(b"\xff", "cannot be read: not UTF-8", id="not-utf8"),
        pytest.param(b"a = ", "is not TOML: Invalid value (at end of document)", id="not-toml"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_mistake_like_any_other(
    content: bytes | None, expected: str, tmp_path: Path
) -> None:
    """A bad file is reported with its name, together with the rest."""
    file = tmp_path / "gateway.toml"
    if content is not None:
        file.write_bytes(content)

    assert problems(Settings.from_toml, file) == [f"{file}: {expected}"]
    assert len(problems(Settings.from_env, {"KIRO_ASGI_CONFIG": str(file), "KIRO_ASGI__X": ""})) == 2


@pytest.mark.parametrize("path", [path for path, leaf in LEAVES.items() if leaf.secret])
def test_secrets_are_never_shown(path: str) -> None:
    """R28: no key in a repr, in a description or in a message about itself."""
    canary = "canary-7f3a-91be-04"  # as long as any secret has to be
    written = {
        "proxy": f"http://user:{canary}@proxy:3128",
        "headers": f"x-key={canary}",
        "url": f"valkey://:{canary}@host",
    }
    value = written.get(LEAVES[path].name, canary)
    good = Settings.from_env({**REQUIRED, LEAVES[path].env: value})
    (row,) = (row for row in describe(good) if row.path == path)
    (line,) = problems(Settings.from_env, {**REQUIRED, LEAVES[path].env: f"{value}\n{canary}"})
    (typed,) = problems(Settings.from_mapping, {"kiro": {"api_key": [canary]}})

    assert canary in str(values_of(good)[path])
    assert not any(canary in text for text in (repr(good), str(good), repr(row), line, typed))
    assert not re.search(canary, repr(read_environment(Settings, {LEAVES[path].env: value})))


def test_settings_built_in_python_obey_the_same_rules() -> None:
    """There is no way around the rules: the tree itself refuses."""
    bad = (KiroSettings(wire_style="soap"), RetrySettings(attempts=0))

    assert problems(lambda: Settings(kiro=bad[0], retry=bad[1])) == [
        "kiro.wire_style: must be one of rest, rpc, not 'soap'",
        "retry.attempts: must be from 1 to 100, not 0",
    ]
    assert problems(lambda: evolve(Settings(), stream=StreamSettings(heartbeat=-1))) == [
        "stream.heartbeat: must be from 0 to 86400, not -1"
    ]


def test_rules_fit_what_they_are_declared_for() -> None:
    """Every number has its bounds, and nothing else has; a default is one of its choices, and within its bounds."""
    rules = {path: leaf.declared.rule for path, leaf in LEAVES.items()}

    assert {path for path, rule in rules.items() if isinstance(rule, Bounds)} == {
        path for path, leaf in LEAVES.items() if leaf.type in (int, float)
    }
    for path, rule in rules.items():
        if isinstance(rule, Bounds | Choices):
            assert rule.complaint(LEAVES[path].default) == ""


def test_every_setting_is_described() -> None:
    """The reference is made from these rows, so none may be empty."""
    rows = describe(CUSTOM)

    assert [row.path for row in rows] == [*LEAVES]
    assert all(row.doc.endswith(".") for row in rows)
    assert [row.env for row in rows if row.path == "kiro.first_token_timeout"] == [
        "KIRO_ASGI__KIRO__FIRST_TOKEN_TIMEOUT"
    ]


VALUES = {
    bool: st.sampled_from(["true", "No", "1"]),
    int: st.integers().map(str),
    float: st.floats().map(str),
    str: st.text(),
    tuple[str, ...]: st.lists(st.text()).map(",".join),
}


@given(st.data(), st.sampled_from([*LEAVES.values()]))
def test_any_text_is_a_value_or_a_named_mistake(data: st.DataObject, leaf: Any) -> None:
    """Whatever the environment holds: settings that keep the rules, or a `ConfigError` that names the variable."""
    environ = {**REQUIRED, leaf.env: data.draw(st.one_of(st.text(), VALUES[leaf.type]))}
    try:
        built = Settings.from_env(environ)
    except ConfigError as error:
        assert leaf.env in error.message
    else:
        assert evolve(built) == built
