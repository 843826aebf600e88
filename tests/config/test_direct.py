"""Upstreams that are asked with a key: their slices, those that somebody names, and what must fit together."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.cli.check import examine
from kiro_asgi.config import (
    AnthropicSettings,
    DirectSettings,
    GeminiSettings,
    KiroSettings,
    OpenAISettings,
    Settings,
    read_environment,
)
from kiro_asgi.config.leaves import leaves, members_of, values_of
from kiro_asgi.errors import ConfigError

OLLAMA = OpenAISettings(endpoint="http://127.0.0.1:11434/v1", thinking_tags=("think",))
SETTINGS = Settings(custom={"ollama": OLLAMA, "lm-studio": OpenAISettings(endpoint="http://127.0.0.1:1234/v1")})

TOML = """
[custom.ollama]
endpoint = "http://127.0.0.1:11434/v1"
thinking_tags = ["think"]
[custom.lm-studio]
endpoint = "http://127.0.0.1:1234/v1"
"""


def problems(build: Any, *args: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        build(*args)
    return caught.value.message.split("\n  ")[1:]


def test_what_is_shared_means_the_same_everywhere():
    """The three slices, and every custom one, have the shared settings with the same defaults."""
    for kind in (GeminiSettings, AnthropicSettings, OpenAISettings):
        slice_ = kind()
        assert isinstance(slice_, DirectSettings)
        assert (slice_.first_token_timeout, slice_.thinking_first_token_timeout) == (60.0, 180.0)
    shared = set(leaves(DirectSettings))
    for table in ("gemini", "anthropic", "openai", "custom.x"):
        found = {leaf.name for leaf in leaves(Settings, ["custom.x"]).values() if leaf.path == f"{table}.{leaf.name}"}
        assert shared < found


def test_a_custom_upstream_has_a_name_in_every_source(tmp_path: Path):
    """A table in TOML, a mapping in Python and a part of a variable's name, in small letters, mean one thing."""
    file = tmp_path / "gateway.toml"
    file.write_text(TOML)
    mapping = {
        "custom": {
            "ollama": {"endpoint": "http://127.0.0.1:11434/v1", "thinking_tags": ["think"]},
            "lm-studio": {"endpoint": "http://127.0.0.1:1234/v1"},
        }
    }
    environ = {
        "KIRO_ASGI__CUSTOM__OLLAMA__ENDPOINT": "http://127.0.0.1:11434/v1",
        "KIRO_ASGI__CUSTOM__OLLAMA__THINKING_TAGS": "think",
        "KIRO_ASGI__CUSTOM__LM-STUDIO__ENDPOINT": "http://127.0.0.1:1234/v1",
    }

    assert Settings.from_toml(file) == Settings.from_mapping(mapping) == Settings.from_env(environ) == SETTINGS
    assert Settings.from_env({}).custom == {}


def test_the_environment_adds_to_a_table_of_the_file(tmp_path: Path):
    """The layers meet setting by setting, also in a table that only the file names; the sources say who won."""
    file = tmp_path / "gateway.toml"
    file.write_text(TOML)
    environ = {"KIRO_ASGI_CONFIG": str(file), "KIRO_ASGI__CUSTOM__OLLAMA__API_KEY": "k"}

    assert Settings.from_env(environ).custom["ollama"] == evolve(OLLAMA, api_key="k")
    assert read_environment(Settings, environ).sources == {
        "custom.ollama.endpoint": "gateway.toml: custom.ollama.endpoint",
        "custom.ollama.thinking_tags": "gateway.toml: custom.ollama.thinking_tags",
        "custom.lm-studio.endpoint": "gateway.toml: custom.lm-studio.endpoint",
        "custom.ollama.api_key": "KIRO_ASGI__CUSTOM__OLLAMA__API_KEY",
    }


def test_custom_upstreams_cannot_be_changed():
    """Settings are read-only all the way down, whatever becomes of the mapping that they were made of."""
    given_ = {"ollama": OLLAMA}
    settings = Settings(custom=given_)
    given_.clear()

    assert settings.custom == {"ollama": OLLAMA}
    with pytest.raises(TypeError):
        settings.custom["other"] = OLLAMA  # type: ignore[index]
    assert hash(settings) == hash(Settings())


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        pytest.param(
            {"ollama": {"endpiont": "http://h"}},
            ["custom.ollama.endpiont: no such setting; did you mean custom.ollama.endpoint?"],
            id="typo",
        ),
        pytest.param({"ollama": {}}, ["custom.ollama: is empty"], id="empty"),
        pytest.param({"ollama": 3}, ["custom.ollama: must be a table of settings"], id="no-table"),
        pytest.param(
            {"Ollama": {"endpoint": "http://h"}},
            ["custom.Ollama: the name must be a word of small letters, digits, - and _"],
            id="capital",
        ),
        pytest.param(
            {"a.b": {"endpoint": "http://h"}},
            ["custom.a.b: the name must be a word of small letters, digits, - and _"],
            id="dot",
        ),
        pytest.param(
            {"kiro": {"endpoint": "http://h"}},
            ["custom.kiro: the name is taken; it has settings of its own"],
            id="taken",
        ),
        pytest.param({"ollama": {"api_key": "k"}}, ["custom.ollama.endpoint: must be set"], id="no-endpoint"),
        pytest.param(
            {"ollama": {"endpoint": "http://h", "max_tokens_field": "n"}},
            ["custom.ollama.max_tokens_field: must be one of max_completion_tokens, max_tokens, not 'n'"],
            id="choice",
        ),
        pytest.param(
            {"ollama": {"models_ttl": -1.0}, "b": {"endpoint": "h"}},
            [
                "custom.ollama.models_ttl: must be from 0 to 2592000, not -1.0",
                "custom.b.endpoint: must be an absolute http or https URL without user, query or fragment",
                "custom.ollama.endpoint: must be set",
            ],
            id="several",
        ),
        pytest.param(
            {"hub": {"endpoint": "http://h", "token_url": "http://h/token"}},
            ["custom.hub.token_url: there is no key to exchange: set api_key"],
            id="no-key",
        ),
    ],
)
def test_a_mistake_in_a_custom_table_is_named_by_its_path(mapping: Mapping[str, Any], expected: list[str]):
    """Rules and suggestions are those of every other setting."""
    assert problems(Settings.from_mapping, {"custom": mapping}) == expected


def test_a_mistake_in_a_variable_is_named_by_it():
    """The name must be spelled in capitals, and be one that a table can have."""
    environ = {
        "KIRO_ASGI__CUSTOM__KIRO__ENDPOINT": "http://h",
        "KIRO_ASGI__CUSTOM__OLLAMA__ENDPIONT": "http://h",
        "KIRO_ASGI__CUSTOM__ENDPOINT": "http://h",
        "KIRO_ASGI__custom__ollama__endpoint": "http://h",
    }

    assert problems(Settings.from_env, environ) == [
        "KIRO_ASGI__CUSTOM__ENDPOINT: no such setting; did you mean KIRO_ASGI__CUSTOM__OLLAMA__ENDPOINT?",
        "KIRO_ASGI__CUSTOM__KIRO__ENDPOINT: the name is taken; it has settings of its own",
        "KIRO_ASGI__CUSTOM__OLLAMA__ENDPIONT: no such setting; did you mean KIRO_ASGI__CUSTOM__OLLAMA__ENDPOINT?",
        "KIRO_ASGI__custom__ollama__endpoint: no such setting; did you mean KIRO_ASGI__CUSTOM__OLLAMA__ENDPOINT?",
    ]


def test_python_obeys_the_same_rules():
    """A tree that is built in Python cannot hold what cannot be read."""
    assert problems(lambda: Settings(custom={"Ollama": OLLAMA, "kiro": OLLAMA})) == [
        "custom.Ollama: the name must be a word of small letters, digits, - and _",
        "custom.kiro: the name is taken; it has settings of its own",
    ]
    assert problems(lambda: Settings(custom={"ollama": OpenAISettings(token_scheme="basic")})) == [
        "custom.ollama.token_scheme: must be one of bearer, token, not 'basic'",
        "custom.ollama.endpoint: must be set",
    ]
    assert problems(lambda: Settings(custom={"ollama": OpenAISettings()})) == ["custom.ollama.endpoint: must be set"]


@pytest.mark.parametrize(
    "text",
    ["x-a", "x-a=", "=v", "x a=v", "x-a=v\r\nx-b: w", "x-a= v", "x-a=é", "Host=evil", "content-length=3", "te=gzip"],
)
@pytest.mark.parametrize("table", ["gemini", "anthropic", "openai"])
def test_a_header_is_one_header(table: str, text: str):
    """R27: nothing can be smuggled into a request, and what frames a message is the transport's; no value is told."""
    (line,) = problems(Settings.from_mapping, {table: {"headers": ["x-ok=1", text]}})

    assert line == f"{table}.headers: must be written as name=value, and no header about the message itself"


def test_a_header_may_hold_what_a_name_cannot():
    """Only the first ``=`` divides; what is behind it may hold spaces and more of them."""
    settings = Settings.from_mapping({"openai": {"headers": ["x-org=a=b c", "api-key=1"]}})

    assert settings.openai.headers == ("x-org=a=b c", "api-key=1")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (GeminiSettings(), False),
        (GeminiSettings(api_key="k"), True),
        (AnthropicSettings(fallback_api_keys=("k",)), True),
        (OpenAISettings(endpoint="http://h"), True),
        (OpenAISettings(user_agent="me"), False),
        (KiroSettings(region="us-west-2"), False),
        (KiroSettings(api_key="k"), True),
        (KiroSettings(access_token="t"), True),
        (KiroSettings(credentials_file="f"), True),
        (KiroSettings(credentials_command="c"), True),
        (KiroSettings(fallback_credentials_files=("f",)), True),
    ],
)
def test_an_upstream_is_configured_by_what_it_is_asked_with(settings: Any, expected: bool):
    """A key, or an address; what only says how to ask sets nothing up."""
    assert settings.configured is expected


@pytest.mark.parametrize(
    ("routing", "expected"),
    [
        ({"models": ["gpt-*"]}, "routing.models: must be written as pattern=upstream/model"),
        ({"models": ["gpt-*=openai/"]}, "routing.models: must be written as pattern=upstream/model"),
        ({"models": ["gpt-*=openai>"]}, "routing.models: must be written as pattern=upstream/model"),
        ({"order": ["kiro", "Open AI"]}, "routing.order: must be a word of small letters, digits, - and _"),
        ({"default": "kiro/x"}, "routing.default: must be a word of small letters, digits, - and _"),
    ],
)
def test_routing_names_upstreams(routing: Mapping[str, Any], expected: str):
    """What cannot be the name of one is told when the gateway starts."""
    (line,) = problems(Settings.from_mapping, {"routing": routing})

    assert line.startswith(expected)


def test_routing_may_name_a_custom_upstream():
    """Every form of a row: a model, none, several targets, slashes and colons in a model's name."""
    rows = ["fast=ollama/qwen3:8b", "gpt-*=openai", "claude-*=kiro>anthropic/claude-sonnet-4-5", "l=ollama/meta/l:1"]
    given_ = {"routing": {"models": rows, "default": "ollama"}, "custom": {"ollama": {"endpoint": "http://h"}}}

    assert Settings.from_mapping(given_).routing.models == tuple(rows)


@pytest.mark.parametrize("text", ["Edit.path", "path=file", "Edit.=file", "Edit.path=", ".path=file", "E.p=f g"])
def test_a_parameter_is_renamed_in_one_tool(text: str):
    """The tool, the wire's name and the client's name are all needed."""
    (line,) = problems(Settings.from_mapping, {"tools": {"parameter_names": ["mcp.x.Edit.path=file_path", text]}})

    assert line == "tools.parameter_names: must be written as tool.wire=client"


def test_check_shows_custom_upstreams_and_hides_their_secrets():
    """``kiro-asgi check`` has a row for each setting of each custom upstream, its source, and no secret."""
    secret = "canary-7f3a"
    environ = {
        "KIRO_API_KEY": "ksk_x",
        "KIRO_ASGI__CLIENT__API_KEYS": "k",
        "KIRO_ASGI__CUSTOM__HUB__ENDPOINT": "http://h/v1",
        "KIRO_ASGI__CUSTOM__HUB__API_KEY": secret,
        "KIRO_ASGI__CUSTOM__HUB__FALLBACK_API_KEYS": f"{secret}1,{secret}2",
        "KIRO_ASGI__CUSTOM__HUB__HEADERS": f"x-key={secret}",
    }
    report = examine(environ)
    rows = {row["path"]: row for row in report.settings}

    assert report.problems == ()
    assert rows["custom.hub.api_key"]["value"] == "*** (11 characters)"
    assert rows["custom.hub.fallback_api_keys"]["value"] == "*** (12 characters), *** (12 characters)"
    assert rows["custom.hub.endpoint"]["source"] == "KIRO_ASGI__CUSTOM__HUB__ENDPOINT"
    assert rows["custom.hub.first_token_timeout"] == {
        "path": "custom.hub.first_token_timeout",
        "value": "60",
        "source": "default",
        "env": "KIRO_ASGI__CUSTOM__HUB__FIRST_TOKEN_TIMEOUT",
    }
    assert secret not in repr(report)


def test_check_reports_what_does_not_go_together():
    """It is a line of the report like any other mistake, with the place where it was written."""
    good = {"KIRO_API_KEY": "ksk_1", "KIRO_ASGI__CLIENT__API_KEYS": "k"}
    report = examine({**good, "KIRO_ASGI__OPENAI__TOKEN_URL": "https://h/token"})

    assert report.problems == ("KIRO_ASGI__OPENAI__TOKEN_URL: there is no key to exchange: set api_key",)


NAMES = st.text(string.ascii_lowercase + string.digits + "-_", min_size=1, max_size=12).map("x".__add__)


@given(st.dictionaries(NAMES, st.sampled_from(["http://h", "https://h.example/v1"]), max_size=3))
def test_any_name_comes_back_from_the_environment(named: dict[str, str]):
    """Whatever a custom upstream is called, each of its settings has a variable of its own, and that sets it."""
    settings = Settings(custom={name: OpenAISettings(endpoint=url) for name, url in named.items()})
    values = values_of(settings)
    known = leaves(Settings, members_of(Settings, values))
    environ = {leaf.env: values[path] for path, leaf in known.items() if leaf.name == "endpoint"}

    assert len({leaf.env for leaf in known.values()}) == len(known) == len(values)
    assert Settings.from_env(environ) == settings


WORDS = ("http://h", "kiro")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)
KEYS = st.sampled_from(["endpoint", "api_key", "headers", "models_ttl", "bearer", "order", "default", "models"])
TABLE = st.dictionaries(KEYS | st.text(max_size=3), JSON, max_size=3) | JSON
WHOLE = st.fixed_dictionaries(
    {},
    optional={
        "custom": st.dictionaries(NAMES | st.text(max_size=3) | st.just("kiro"), TABLE, max_size=2) | JSON,
        "openai": TABLE,
        "anthropic": TABLE,
        "routing": TABLE,
    },
)


@given(WHOLE)
def test_any_mapping_is_settings_or_a_named_mistake(mapping: dict[str, Any]):
    """Whatever is written: a tree that keeps the rules, or an error that begins with a path in it."""
    try:
        built = Settings.from_mapping(mapping)
    except ConfigError as error:
        first, *_ = error.message.split("\n  ")[1:]
        assert first.partition(":")[0].partition(".")[0] in mapping
    else:
        assert evolve(built) == built
        assert set(built.custom) == set(mapping.get("custom", {}))
