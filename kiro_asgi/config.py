"""Settings: one frozen tree, built once, passed down.

Every field has the same path everywhere: ``kiro.first_token_timeout`` in Python and in a mapping, ``[kiro]
first_token_timeout`` in TOML, ``KIRO_ASGI__KIRO__FIRST_TOKEN_TIMEOUT`` in the environment.  Times are seconds, sizes bytes.
"""

from __future__ import annotations

from attrs import field, frozen

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
    wire_style: str = "rest"
    """``rest`` (POST /generateAssistantResponse) or ``rpc`` (POST / with X-Amz-Target)."""

    origin: str = "AI_EDITOR"
    agent_mode: str = "vibe"
    user_agent: str = ""
    """Empty: ``kiro-asgi/<version>``."""

    first_token_timeout: float = 15.0
    """Seconds from sending the request to the first upstream event."""

    thinking_first_token_timeout: float = 90.0
    """The same where the client asked for thinking."""

    models_ttl: float = 3600.0
    """How long a fetched model list is believed."""

    fake_reasoning_enabled: bool = True
    """Ask for thinking in tags, and look for them, where a model has no native thinking."""

    fake_reasoning_handling: str = "as_reasoning_content"
    """``as_reasoning_content``, ``remove``, ``pass`` or ``strip_tags``."""

    thinking_scan: str = "start"
    """``start`` or ``anywhere``: where a thinking tag counts."""

    thinking_tags: tuple[str, ...] = ("thinking", "think", "reasoning", "thought")

    drop_repeated_content: bool = False
    """Drop a text delta that equals the one before.  Off: it turns ``ha ha`` into ``ha``."""

    drop_equal_tool_calls: bool = True
    """Drop a tool call whose name and arguments equal an earlier one's in the same answer."""

    checksums: str = "strict"
    """``strict``, ``warn`` or ``off``."""


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
    """``complete`` (when its JSON is complete), ``end`` (after everything else) or ``incremental``."""


@frozen(kw_only=True)
class LimitSettings:
    """What one client may cost."""

    body_bytes: int = 32 * 1024 * 1024
    body_timeout: float = 30.0
    """Seconds for the whole request body to arrive."""

    connections: int = 512
    """Upstream connections at once."""

    queue: int = 1024
    """Requests that may wait for a connection; more are refused with 503."""

    keep_alive: float = 55.0
    """Seconds an idle upstream connection is kept."""

    connect_timeout: float = 10.0
    request_timeout: float = 3600.0
    """Seconds for one whole upstream call."""

    tool_input_bytes: int = 16 * 1024 * 1024
    """Arguments of one tool call."""


@frozen(kw_only=True)
class RetrySettings:
    """What is tried again before anything was sent."""

    attempts: int = 3
    """Tries in all."""

    base: float = 1.0
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 0.1
    """Share of a delay that is drawn at random."""


@frozen(kw_only=True)
class Settings:
    """Everything that can be set."""

    client: ClientSettings = field(factory=ClientSettings)
    kiro: KiroSettings = field(factory=KiroSettings)
    stream: StreamSettings = field(factory=StreamSettings)
    limits: LimitSettings = field(factory=LimitSettings)
    retry: RetrySettings = field(factory=RetrySettings)
    emit_code_references: bool = False
    """Send licensed sources as an Anthropic event of their own; the official SDKs do not know it."""
