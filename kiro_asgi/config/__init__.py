"""Settings: one frozen tree, built once, passed down.

Every field has the same path everywhere: ``kiro.first_token_timeout`` in Python and in a mapping, ``[kiro]
first_token_timeout`` in TOML, ``KIRO_ASGI__KIRO__FIRST_TOKEN_TIMEOUT`` in the environment.

Times are seconds, sizes bytes.
"""

from __future__ import annotations

from kiro_asgi.config.gateway import (
    ClientSettings,
    CorsSettings,
    FetchSettings,
    InspectorSettings,
    LimitSettings,
    PriceSettings,
    PromiseSettings,
    RecoverySettings,
    ResponsesSettings,
    RetrySettings,
    RoutingSettings,
    StateSettings,
    StreamSettings,
    StructuredSettings,
    ToolSettings,
)
from kiro_asgi.config.reading import SettingsReading, read_environment
from kiro_asgi.config.tree import SettingRow, Settings, describe
from kiro_asgi.quota.settings import CredentialSettings, GroupSettings, KeySettings, QuotaSettings
from kiro_asgi.tapes.settings import TapeSettings
from kiro_asgi.upstreams.builtin import AnthropicSettings, BedrockSettings, GeminiSettings, KiroSettings, OpenAISettings
from kiro_asgi.upstreams.settings import DirectSettings

__all__ = [
    "AnthropicSettings",
    "BedrockSettings",
    "ClientSettings",
    "CorsSettings",
    "CredentialSettings",
    "DirectSettings",
    "FetchSettings",
    "GeminiSettings",
    "GroupSettings",
    "InspectorSettings",
    "KeySettings",
    "KiroSettings",
    "LimitSettings",
    "OpenAISettings",
    "PriceSettings",
    "PromiseSettings",
    "QuotaSettings",
    "RecoverySettings",
    "ResponsesSettings",
    "RetrySettings",
    "RoutingSettings",
    "SettingRow",
    "Settings",
    "SettingsReading",
    "StateSettings",
    "StreamSettings",
    "StructuredSettings",
    "TapeSettings",
    "ToolSettings",
    "describe",
    "read_environment",
]
