"""Presets: what is set where nothing else is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from kiro_asgi import ConfigError, Settings
from kiro_asgi.cli.check import examine
from kiro_asgi.config import read_environment
from kiro_asgi.config.leaves import leaves, preset_values, values_of
from kiro_asgi.config.validation import violations
from kiro_asgi.setting import Choices
from kiro_asgi.upstreams.kiro.contract import ContractOptions
from kiro_asgi.upstreams.kiro.contract.answer import LEAD_IN

CONTRACT = {"preset": "contract"}


def test_presets_are_the_choices_and_hold_legal_values():
    """Every preset that a setting knows can be chosen, and changes it."""
    defaults, known = values_of(Settings()), leaves(Settings)
    rule = known["preset"].declared.rule

    assert isinstance(rule, Choices)
    assert {"native"}.union(*(leaf.declared.presets for leaf in known.values())) == {*rule.words}
    for preset in rule.words:
        values = preset_values(Settings, preset)
        assert violations(Settings, (), values) == ()
        assert not [path for path, value in values.items() if defaults[path] == value]


def test_native_is_the_default_and_changes_nothing():
    """What is said of no preset is said of ``native``."""
    assert Settings.from_mapping({"preset": "native"}) == Settings.from_mapping({}) == Settings()


def test_the_contract():
    """Text for earlier tool calls, 256 characters, no reminders, the lead-in, two ends (F191, F217, F361, F444)."""
    settings = Settings.from_mapping(CONTRACT)

    assert (settings.kiro.translation, settings.kiro.tool_history) == ("contract", "text")
    assert settings.kiro.description_limit == ContractOptions().description_limit == 256
    assert settings.kiro.strip_system_reminders is settings.kiro.sanitize_text is True
    assert settings.kiro.legacy_stop_map is settings.emit_code_references is True
    assert settings.stream.lead_in == LEAD_IN
    assert tuple(map(int, settings.kiro.effort_budgets)) == ContractOptions().effort_budgets
    assert (settings.kiro.first_token_timeout, settings.stream.heartbeat) == (30.0, 15.0)
    assert settings.kiro.fake_reasoning_handling == "as_reasoning_content"


def test_whatever_is_said_wins():
    """A preset is the lowest layer, even where somebody says what the default is."""
    settings = Settings.from_mapping({**CONTRACT, "kiro": {"description_limit": 10_000, "tool_history": "auto"}})

    assert (settings.kiro.description_limit, settings.kiro.tool_history) == (10_000, "auto")
    assert settings.kiro.translation == "contract"


def test_file_and_environment_lie_above_the_preset(tmp_path: Path):
    """The environment may choose the preset for a file, and each says where its values come from."""
    file = tmp_path / "gateway.toml"
    file.write_text("[kiro]\ndescription_limit = 300\n", "utf-8")
    environ = {
        "KIRO_ASGI_CONFIG": str(file),
        "KIRO_ASGI__PRESET": "contract",
        "KIRO_ASGI__STREAM__LEAD_IN": "Well:",
    }
    settings, reading = Settings.from_env(environ), read_environment(Settings, environ)

    assert (settings.kiro.description_limit, settings.stream.lead_in) == (300, "Well:")
    assert settings.kiro.tool_history == "text"
    assert reading.sources["kiro.description_limit"] == "gateway.toml: kiro.description_limit"
    assert reading.sources["stream.lead_in"] == "KIRO_ASGI__STREAM__LEAD_IN"
    assert reading.sources["kiro.tool_history"] == "preset contract"


def test_check_shows_where_a_value_comes_from():
    """``kiro-asgi check`` names the preset as the source."""
    report = examine({"KIRO_ASGI__PRESET": "contract", "KIRO_API_KEY": "ksk_x", "KIRO_ASGI__CLIENT__API_KEYS": "k"})
    rows = {row["path"]: (row["value"], row["source"]) for row in report.settings}

    assert report.problems == ()
    assert rows["kiro.description_limit"] == ("256", "preset contract")
    assert rows["kiro.region"] == ("us-east-1", "default")


def test_an_unknown_preset_is_a_problem():
    """It is reported with the others, and sets nothing."""
    with pytest.raises(ConfigError, match="preset: must be one of native, contract"):
        Settings.from_mapping({"preset": "best"})
