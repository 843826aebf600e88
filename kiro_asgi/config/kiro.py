"""Settings of the Kiro service."""

from __future__ import annotations

from attrs import field, frozen

__all__ = ["KiroSettings"]


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

    first_token_timeout: float = 30.0
    """Seconds from sending the request to the first upstream event, and one more for every 4,000 tokens of the
    prompt."""

    thinking_first_token_timeout: float = 90.0
    """The same at least, where the client asked for thinking."""

    models_ttl: float = 3600.0
    """Seconds that a fetched model list is believed.  It is asked for in the background while requests go on as the
    built-in table has it, and corrects that.  0: only who asks for the list, or for a name that is not known, waits for
    it, each time."""

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
    """Ask for thinking in tags where a model has no native thinking, and look for tags wherever it was asked for."""

    fake_reasoning_handling: str = "as_reasoning_content"
    """What becomes of thinking, be it in tags or the model's own: ``as_reasoning_content``, ``remove``, ``pass`` (as
    text between tags) or ``strip_tags`` (as text)."""

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

    @property
    def configured(self) -> bool:
        """Whether anything is named that a credential could come from."""
        files = (self.credentials_file, self.credentials_command, *self.fallback_credentials_files)
        return any((self.api_key, self.access_token, *files))
