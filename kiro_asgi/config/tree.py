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
    "RecoverySettings",
    "RetrySettings",
    "Settings",
    "StateSettings",
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

    external_idp: bool = False
    """The *access_token* was issued by a company's own identity provider."""

    credentials_file: str = ""
    """Token file of a signed-in client: JSON as ``kiro-asgi login`` writes it, or the command line's SQLite store."""

    credentials_command: str = ""
    """Program, with its arguments, that prints a token file's JSON.  It is run again when the token expires."""

    fallback_credentials_files: tuple[str, ...] = ()
    """More token files, tried in this order where the credential before them is refused or its quota is spent."""

    write_back: str = "files"
    """Where refreshed tokens are kept: ``files`` (JSON files), ``stores`` (SQLite stores too) or ``nowhere``."""

    auth_endpoint: str = ""
    """Base URL for token refresh.  Empty: the public host of the sign-in region."""

    auth_region: str = ""
    """Region of the sign-in.  Empty: the one that the token file names, else ``us-east-1``."""

    refresh_margin: float = 300.0
    """Seconds before its expiry at which a token is refreshed."""

    discover_profile: bool = True
    """Ask for the account's profile where an access token comes without one."""

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

    proxy: str = field(default="", repr=False)
    """URL of an HTTP proxy for all connections to the service and to the sign-in service, as ``http://host:3128`` or
    ``http://user:password@host:3128``.  Empty: none; the environment's proxies are not used."""

    conversation_salt: str = field(default="", repr=False)
    """A secret from which the names of conversations are made that the service is told; the same in all processes that
    serve the same clients.  Empty: each process has its own."""

    first_token_timeout: float = 15.0
    """Seconds from sending the request to the first upstream event."""

    thinking_first_token_timeout: float = 90.0
    """The same where the client asked for thinking."""

    models_ttl: float = 3600.0
    """Seconds that a fetched model list is believed."""

    model_aliases: tuple[str, ...] = ()
    """Names of your own for models, each as ``name=model``."""

    tool_history: str = "auto"
    """How earlier tool calls are told: as structures (``native``), as ``text``, or ``auto``: as structures, and once
    more as text where the service finds that improperly formed."""

    replay_thinking: bool = True
    """Hand signed thinking of earlier answers back."""

    description_limit: int = 10_000
    """Characters of a tool description; what is beyond moves to the system text."""

    max_images: int = 20
    """Images of one request; of more the newest are sent, and a sentence stands where each of the others was."""

    payload_bytes: int = 600_000
    """Largest request in bytes, images and documents not counted, for a context window of 200,000 tokens; in proportion
    for other windows.  What is larger is refused as too long.  0: no limit."""

    trim_history: bool = False
    """Leave the oldest exchanges out where a request is larger than that, and say so to the model, instead."""

    rules_off: tuple[str, ...] = ()
    """Rules not to apply to requests, by their names."""

    sanitize_text: bool = False
    """Take terminal escape sequences and control characters out of all texts."""

    strip_system_reminders: bool = False
    """Take complete ``<system-reminder>`` blocks out of all texts."""

    web_search: bool = True
    """Run the service's own web search where a client offers its API's hosted one."""

    server_tool_timeout: float = 60.0
    """Seconds for one call of a tool that the gateway runs."""

    translation: str = "native"
    """How a prompt is put: ``native``, or as the ``contract`` of the first gateways has it."""

    inline_tool_context: bool = False
    """Of the contract's translator: tell tool calls and results in the turn that they belong to."""

    send_sidecar_fields: bool = False
    """Of the contract's translator: send the tool manifest and the tool choice as members of their own."""

    legacy_stop_map: bool = False
    """Of the contract's translator: a stop sequence ends an answer as ``end_turn``."""

    log_bodies: bool = False
    """Log what the service is sent, at level DEBUG: people's words, but no secrets and no images."""

    plan_mode_key: str = "plan_mode"
    """Of the contract's translator: the member of ``metadata`` that switches plan mode on."""

    effort_budgets: tuple[str, ...] = ("50", "200")
    """Of the contract's translator: the largest thinking budgets, in tokens, that mean low and medium effort."""

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
    """Seconds after which the response head goes out even without an event; later failures go in-stream.  0: never.
    A first try that may take no longer than this is waited for."""

    idle_timeout: float = 300.0
    """Seconds without an upstream event, not counting time spent waiting for the client; 0 switches it off."""

    tool_emission: str = "complete"
    """When a tool call is sent: ``complete`` (its JSON is), ``end`` (after everything else) or ``incremental``."""

    lead_in: str = ""
    """Text put before an answer that begins with a tool call; empty for none."""

    language: str = "en"
    """Language in which people are told that the network failed in the middle of an answer: ``en`` or ``zh``."""

    synthetic: bool = False
    """Wait for the whole answer, then send it as a stream."""

    sentences: bool = False
    """Send the text of such a stream sentence by sentence."""


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

    rate_base: float = 8.0
    """Seconds before the second try where the account's rate was exceeded: sooner, it only counts as one more."""

    rate_cap: float = 60.0
    """Longest such delay, in seconds."""

    capacity_base: float = 5.0
    """Seconds before the second try where the model has no capacity."""

    capacity_cap: float = 20.0
    """Longest such delay, in seconds."""

    suspicion: float = 1800.0
    """Seconds that a credential rests, and the service is not asked with it, after the service spoke of suspicious
    activity."""

    rest: float = 3600.0
    """Longest rest after any other fault of the account (its quota is spent, it is suspended), in seconds."""


@frozen(kw_only=True)
class RecoverySettings:
    """What the next request is told about an answer that was cut short."""

    enabled: bool = True
    """Remember answers whose tool call was cut, and tell the model on the next request."""

    ttl: float = 3600.0
    """Seconds that such an answer is remembered."""


@frozen(kw_only=True)
class StateSettings:
    """What is kept between requests: responses that clients go back to, and answers that were cut."""

    engine: str = "memory"
    """Where it is kept: in the ``memory`` of the process, or in a file, ``sqlite``, for all processes of a machine."""

    path: str = ""
    """That file."""

    ttl: float = 86_400.0
    """Seconds that a response is kept."""

    entries: int = 10_000
    """Responses, and answers that were cut, kept at once."""

    bytes: int = 64 * 1024 * 1024
    """Room for all of them; those used longest ago make room for new ones."""

    seal_key: str = field(default="", repr=False)
    """Secret by which ``encrypted_content`` of reasoning is known again; the same for all processes.  Empty: a random
    one, for as long as the process lives."""


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
    recovery: RecoverySettings = field(factory=RecoverySettings)
    state: StateSettings = field(factory=StateSettings)

    preset: str = "native"
    """What is set where nothing else is said: ``native``, or ``contract``, which is what the first gateways promised.
    It counts where settings are read, from a mapping, a file or the environment."""

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
