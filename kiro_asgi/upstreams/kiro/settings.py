"""Settings of the Kiro service."""

from __future__ import annotations

from typing import Final, Self

from attrs import evolve, frozen

from kiro_asgi.setting import (
    ALIAS,
    COUNT,
    DAY,
    KEY,
    LINE,
    MOMENT,
    PATH,
    PROXY,
    REGION,
    URL,
    WORD,
    Bounds,
    Choices,
    setting,
)

HANDLINGS: Final = ("as_reasoning_content", "remove", "pass", "strip_tags")


@frozen(kw_only=True)
class KiroSettings:
    """The Kiro service."""

    api_key: str = setting("", KEY, secret=True, variable="KIRO_API_KEY")
    """Official key (``ksk_…``); also read from ``KIRO_API_KEY``."""

    access_token: str = setting("", KEY, secret=True)
    """A bearer token that another program obtained; used when there is no *api_key*."""

    profile_arn: str = setting("", KEY)
    """Profile for access tokens.  Never sent with an API key."""

    external_idp: bool = False
    """The *access_token* was issued by a company's own identity provider."""

    credentials_file: str = setting("", PATH)
    """Token file of a signed-in client: JSON as ``kiro-asgi login`` writes it, or the command line's SQLite store."""

    credentials_command: str = ""
    """Program, with its arguments, that prints a token file's JSON.  It is run again when the token expires."""

    fallback_credentials_files: tuple[str, ...] = setting((), PATH)
    """More token files, tried in this order where the credential before them is refused or its quota is spent."""

    write_back: str = setting("files", Choices(("files", "stores", "nowhere")))
    """Where refreshed tokens are kept: ``files`` (JSON files), ``stores`` (SQLite stores too) or ``nowhere``."""

    auth_endpoint: str = setting("", URL)
    """Base URL for token refresh.  Empty: the public host of the sign-in region."""

    auth_region: str = setting("", REGION)
    """Region of the sign-in.  Empty: the one that the token file names, else ``us-east-1``."""

    refresh_margin: float = setting(300.0, Bounds(0, DAY))
    """Seconds before its expiry at which a token is refreshed."""

    discover_profile: bool = True
    """Ask for the account's profile where an access token comes without one."""

    endpoint: str = setting("", URL)
    """Base URL of the service, for answers and web searches.  Empty: the public host of *region*, see *hosts*."""

    management_endpoint: str = setting("", URL)
    """Base URL of the service for lists: of models, profiles and usage.  Empty: *endpoint*, where that is set, and else
    the public host of *region*."""

    hosts: str = setting("auto", Choices(("auto", "kiro.dev", "amazonaws")))
    """The public hosts: ``kiro.dev``, ``amazonaws``, or ``auto``: those that the credential suggests, and the others
    where these say that it does not belong there.  What is set as *endpoint* is never left."""

    region: str = setting("us-east-1", REGION)
    """Region of the service; only used where *endpoint* is empty."""

    wire_style: str = setting("rest", Choices(("rest", "rpc")))
    """Form of requests for answers: ``rest`` (POST /generateAssistantResponse) or ``rpc`` (POST / with X-Amz-Target).
    The hosts of ``kiro.dev`` know the latter only."""

    origin: str = setting("AI_EDITOR", WORD)
    """The ``origin`` that every request names."""

    agent_mode: str = setting("vibe", WORD)
    """The agent mode that every request names."""

    user_agent: str = setting("", LINE)
    """The user agent.  Empty: ``kiro-asgi/<version>``."""

    proxy: str = setting("", PROXY, secret=True)
    """URL of an HTTP proxy for all connections to the service and to the sign-in service, as ``http://host:3128`` or
    ``http://user:password@host:3128``.  Empty: none; the environment's proxies are not used."""

    cache_points: str = setting("off", Choices(("off", "prefix")))
    """**Experimental.**  Mark with ``cachePoint`` how far the service may keep a prompt: ``prefix`` marks the message
    with the system text, the last one of the user's before the newest, and the newest.  Public reports disagree: some
    saw fewer credits, one saw no effect beside the service's own cache.  A mark among tools is refused, so there is
    none.  The inspector shows the credits of each turn, with and without it."""

    conversation_salt: str = setting("", KEY, secret=True)
    """A secret from which the names of conversations are made that are sent to the service; the same in all processes
    that serve the same clients.  Empty: each process has its own."""

    first_token_timeout: float = setting(30.0, Bounds(MOMENT, DAY))
    """Seconds from sending the request to the first upstream event, and one more for every 4,000 tokens of the
    prompt."""

    thinking_first_token_timeout: float = setting(90.0, Bounds(MOMENT, DAY))
    """The same at least, where the client asked for thinking, or the model may think without being asked: all but
    Claude up to 4.6, and Qwen3 Coder."""

    models_ttl: float = setting(3600.0, Bounds(0, 30 * DAY))
    """Seconds that a fetched model list is believed.  It is asked for in the background while requests go on as the
    built-in table has it, and corrects that.  0: only who asks for the list, or for a name that is not known, waits for
    it, each time."""

    model_aliases: tuple[str, ...] = setting((), ALIAS)
    """Names of your own for models, each as ``name=model``."""

    tool_history: str = setting("auto", Choices(("native", "text", "auto")), presets={"contract": "text"})
    """Form of earlier tool calls: as structures (``native``), as ``text``, or ``auto``: as structures, and once
    more as text where the service finds that improperly formed."""

    replay_thinking: bool = True
    """Hand signed thinking of earlier answers back."""

    description_limit: int = setting(10_000, Bounds(1, 10_000), presets={"contract": 256})
    """Characters of a tool description; what is beyond moves to the system text."""

    max_images: int = setting(20, Bounds(0, 1000))
    """Images of one request; of more the newest are sent, and a sentence stands where each of the others was."""

    payload_bytes: int = setting(600_000, Bounds(0, 2**40))
    """Largest request in bytes, images and documents not counted, for a context window of 200,000 tokens; in proportion
    for other windows.  What is larger is refused as too long.  0: no limit."""

    trim_history: bool = False
    """Leave the oldest exchanges out where a request is larger than that, with a note to the model, instead."""

    rules_off: tuple[str, ...] = ()
    """Rules not to apply to requests, by their names."""

    sanitize_text: bool = setting(False, presets={"contract": True})
    """Take terminal escape sequences and control characters out of all texts."""

    strip_system_reminders: bool = setting(False, presets={"contract": True})
    """Take complete ``<system-reminder>`` blocks out of all texts."""

    web_search: bool = True
    """Run the service's own web search where a client offers its API's hosted one."""

    server_tool_timeout: float = setting(60.0, Bounds(MOMENT, DAY))
    """Seconds for one call of a tool that the gateway runs."""

    translation: str = setting("native", Choices(("native", "contract")), presets={"contract": "contract"})
    """Form of rendered prompts: ``native``, or as the ``contract`` of the first gateways has it."""

    inline_tool_context: bool = False
    """Of the contract's translator: write tool calls and results into the turn that they belong to."""

    send_sidecar_fields: bool = False
    """Of the contract's translator: send the tool manifest and the tool choice as members of their own."""

    legacy_stop_map: bool = setting(False, presets={"contract": True})
    """Of the contract's translator: a stop sequence ends an answer as ``end_turn``."""

    log_bodies: bool = False
    """Log requests to the service, at level DEBUG: users' texts, but no secrets and no images."""

    plan_mode_key: str = "plan_mode"
    """Of the contract's translator: the member of ``metadata`` that switches plan mode on."""

    effort_budgets: tuple[str, ...] = setting(("50", "200"), COUNT)
    """Of the contract's translator: the largest thinking budgets, in tokens, that mean low and medium effort."""

    fake_reasoning_enabled: bool = True
    """Ask for thinking in tags where a model has no native thinking, and look for tags wherever it was asked for."""

    fake_reasoning_handling: str = setting("as_reasoning_content", Choices(HANDLINGS))
    """Handling of thinking, be it in tags or the model's own: ``as_reasoning_content``, ``remove``, ``pass`` (as
    text between tags) or ``strip_tags`` (as text)."""

    thinking_scan: str = setting("start", Choices(("start", "anywhere")))
    """Where a thinking tag counts: ``start`` or ``anywhere``."""

    thinking_tags: tuple[str, ...] = setting(("thinking", "think", "reasoning", "thought"), WORD)
    """Names of the tags that hold thinking."""

    drop_repeated_content: bool = False
    """Drop a text delta that equals the one before.  Off: it turns ``ha ha`` into ``ha``."""

    drop_equal_tool_calls: bool = True
    """Drop a tool call whose name and arguments equal an earlier one's in the same answer."""

    checksums: str = setting("strict", Choices(("strict", "warn", "off")))
    """Handling of a wrong frame checksum: an error (``strict``), a notice (``warn``) or nothing (``off``)."""

    @property
    def configured(self) -> bool:
        """Whether a source of credentials is set."""
        files = (self.credentials_file, self.credentials_command, *self.fallback_credentials_files)
        return any((self.api_key, self.access_token, *files))

    def keyed(self, key: str) -> Self:
        """The same with *key* as the only credential."""
        return evolve(
            self,
            api_key=key,
            access_token="",
            profile_arn="",
            credentials_file="",
            credentials_command="",
            fallback_credentials_files=(),
        )

    def simulated(self, url: str) -> Self:
        """The same with a simulator at *url* as the service, and as where tokens are renewed."""
        return evolve(self, endpoint=url, management_endpoint="", auth_endpoint=url)
