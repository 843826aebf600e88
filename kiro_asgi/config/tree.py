"""The settings themselves: slices of plain fields with their defaults and, under each, what it means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from kiro_asgi.config.leaves import assemble, values_of
from kiro_asgi.config.reading import Reading, read, read_environment, read_mapping, read_toml
from kiro_asgi.config.rules import require, violations

__all__ = [
    "ClientSettings",
    "KiroSettings",
    "LimitSettings",
    "RetrySettings",
    "Settings",
    "StreamSettings",
]


@frozen(kw_only=True)
class ClientSettings:
    """Who may use the gateway."""

    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """Keys that a client may present as ``Authorization: Bearer`` or ``x-api-key``."""

    allow_anonymous: bool = False
    """Serve clients without a key.  Without keys, without this and without host auth the app refuses to start."""

    trust_host: bool = False
    """Take the principal that the host's middleware put in the scope (``scope["user"]`` or ``scope["state"]``)."""


@frozen(kw_only=True)
class KiroSettings:
    """The Kiro service."""

    api_key: str = field(default="", repr=False)
    """Official key (``ksk_…``); also read from ``KIRO_API_KEY``."""

    access_token: str = field(default="", repr=False)
    """A bearer token obtained elsewhere; used when there is no *api_key*."""

    profile_arn: str = ""
    """Profile for access tokens.  Never sent with an API key."""

    endpoint: str = ""
    """Base URL of the service; ``generateAssistantResponse`` is appended.  Empty: the public host of *region*."""

    region: str = "us-east-1"
    """Region of the service; only used where *endpoint* is empty."""

    wire_style: str = "rest"
    """``rest`` (POST /generateAssistantResponse) or ``rpc`` (POST / with X-Amz-Target)."""

    origin: str = "AI_EDITOR"
    """The ``origin`` that every request names."""

    agent_mode: str = "vibe"
    """The agent mode that every request names."""

    user_agent: str = ""
    """What we call ourselves.  Empty: ``kiro-asgi/<version>``."""

    first_token_timeout: float = 15.0
    """Seconds from sending the request to the first upstream event."""

    thinking_first_token_timeout: float = 90.0
    """The same where the client asked for thinking."""

    models_ttl: float = 3600.0
    """Seconds that a fetched model list is believed."""

    fake_reasoning_enabled: bool = True
    """Ask for thinking in tags, and look for them, where a model has no native thinking."""

    fake_reasoning_handling: str = "as_reasoning_content"
    """What becomes of thinking in tags: ``as_reasoning_content``, ``remove``, ``pass`` or ``strip_tags``."""

    thinking_scan: str = "start"
    """Where a thinking tag counts: ``start`` or ``anywhere``."""

    thinking_tags: tuple[str, ...] = ("thinking", "think", "reasoning", "thought")
    """Names of the tags that hold thinking."""

    drop_repeated_content: bool = False
    """Drop a text delta that equals the one before.  Off: it turns ``ha ha`` into ``ha``."""

    drop_equal_tool_calls: bool = True
    """Drop a tool call whose name and arguments equal an earlier one's in the same answer."""

    checksums: str = "strict"
    """What a wrong frame checksum leads to: an error (``strict``), a notice (``warn``) or nothing (``off``)."""


@frozen(kw_only=True)
class StreamSettings:
    """How answers are sent to clients."""

    heartbeat: float = 15.0
    """Seconds of silence after which the client gets a sign of life; 0 switches it off."""

    early_commit_after: float = 15.0
    """Seconds after which the response head goes out even without an event; later failures go in-stream.  0: never."""

    idle_timeout: float = 300.0
    """Seconds without an upstream event, not counting time spent waiting for the client; 0 switches it off."""

    tool_emission: str = "complete"
    """When a tool call is sent: ``complete`` (its JSON is), ``end`` (after everything else) or ``incremental``."""

    lead_in: str = ""
    """Text put before an answer that begins with a tool call; empty for none."""


@frozen(kw_only=True)
class LimitSettings:
    """What one client may cost."""

    body_bytes: int = 32 * 1024 * 1024
    """Largest request body, in bytes."""

    body_timeout: float = 30.0
    """Seconds for the whole request body to arrive."""

    connections: int = 512
    """Upstream connections at once."""

    queue: int = 1024
    """Requests that may wait for a connection; more are refused with 503."""

    keep_alive: float = 55.0
    """Seconds an idle upstream connection is kept."""

    connect_timeout: float = 10.0
    """Seconds for an upstream connection to be made, TLS included."""

    request_timeout: float = 3600.0
    """Seconds for one whole upstream call."""

    tool_input_bytes: int = 16 * 1024 * 1024
    """Largest arguments of one tool call, in bytes."""


@frozen(kw_only=True)
class RetrySettings:
    """What is tried again before anything was sent."""

    attempts: int = 3
    """Tries in all."""

    timeout_attempts: int = 1
    """Tries in all where the service was merely silent: asking a slow model again does not make it faster."""

    base: float = 1.0
    """Seconds before the second try."""

    factor: float = 2.0
    """How much longer each further delay is."""

    cap: float = 30.0
    """Longest delay, in seconds."""

    jitter: float = 0.1
    """Share of a delay that is drawn at random."""


@frozen(kw_only=True)
class Settings:
    """Everything that can be set.

    Raises:
        ConfigError: A value breaks its rule; the message lists every such path.
    """

    client: ClientSettings = field(factory=ClientSettings)
    kiro: KiroSettings = field(factory=KiroSettings)
    stream: StreamSettings = field(factory=StreamSettings)
    limits: LimitSettings = field(factory=LimitSettings)
    retry: RetrySettings = field(factory=RetrySettings)

    http_library: str = "httpcore"
    """What makes connections to services: ``httpcore``, or ``httpcore2``, its maintained fork."""

    emit_code_references: bool = False
    """Send licensed sources as an Anthropic event of their own; the official SDKs do not know it."""

    def __attrs_post_init__(self) -> None:
        require(violations(type(self), values_of(self)))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Settings:
        """Settings from nested mappings, e.g. ``{"kiro": {"region": "eu-central-1"}}``.

        Raises:
            ConfigError: Unknown keys, wrong types or impossible values; all of them at once.
        """
        return cls._of(read(cls, read_mapping(cls, mapping)))

    @classmethod
    def from_toml(cls, path: Path | str) -> Settings:
        """Settings from a TOML file whose tables are the slices.

        Raises:
            ConfigError: As for `from_mapping`, or the file cannot be read.
        """
        return cls._of(read(cls, read_toml(cls, Path(path))))

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Settings from environment variables, and from the TOML file that ``KIRO_ASGI_CONFIG`` names.

        Raises:
            ConfigError: As for `from_toml`; a variable with our prefix that names no setting is an error too.
        """
        return cls._of(read_environment(cls, environ))

    @classmethod
    def _of(cls, reading: Reading) -> Settings:
        require(reading.problems)
        return assemble(cls, reading.values)
