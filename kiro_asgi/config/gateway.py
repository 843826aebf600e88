"""Settings of the gateway itself, and the formats of their texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.limits import ANSWER_BYTES, TOOL_INPUT_BYTES
from kiro_asgi.setting import DAY, KEY, MOMENT, PATH, UPSTREAM, WORD, Bounds, Choices, Shape, setting


def _is_host(text: str) -> bool:
    name, _, port = text.removeprefix("*.").partition(":")
    *_, last = name.split(".")
    numeric = last.isdecimal() or not name.isascii()
    return bool(_HOST.fullmatch(text)) and not numeric and (not port or 0 < int(port) < 65_536)


_HOST: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]{1,5})?")

HOST: Final = Shape(
    _is_host, "names of hosts, such as images.example.com, *.example.com or example.com:8443, and nothing else"
)
PARAMETER: Final = Shape(re.compile(r"[^=\s]+\.[^=.\s]+=[^=\s]+").fullmatch, "written as tool.wire=client")
REPAIR: Final = Shape(
    frozenset({"control_characters", "trailing_commas", "repetitions", "byte_order_mark"}).__contains__,
    "names of repairs: control_characters, trailing_commas, repetitions, byte_order_mark",
)
PAGE: Final = Shape(
    re.compile(
        r"\*|null|[a-z][a-z0-9+.-]*://[a-z0-9._-]+(:[0-9]{1,5})?|[a-z][a-z0-9+.-]*://\[[0-9a-f:.]+\](:[0-9]{1,5})?"
    ).fullmatch,
    "origins in small letters without a path, such as https://app.example, or null, or *",
)
STATE_URL: Final = Shape(
    re.compile(r"((valkeys?|rediss?)(\+sentinel|\+cluster)?://[^\s/]+(/\S*)?|unix://\S+)").fullmatch,
    "an address such as valkey://host:6379/0, valkeys://, unix://, valkey+sentinel:// or valkey+cluster://",
)
ROUTE: Final = Shape(
    re.compile(r"[^=\s]+=[a-z][a-z0-9_-]*(/[^>\s]+)?(>[a-z][a-z0-9_-]*(/[^>\s]+)?)*").fullmatch,
    "written as pattern=upstream/model, or pattern=upstream/model>upstream/model",
)
SECRET: Final = Shape(re.compile(r"[!-~]{16,}").fullmatch, "16 or more printable ASCII characters without spaces")
SITE: Final = Shape(
    re.compile(r"[a-z0-9.-]+|\[[0-9a-f:.]+\]").fullmatch, "names of hosts in small letters, without ports"
)
PRICE: Final = Shape(
    re.compile(r".+=[0-9]{1,9}(\.[0-9]{1,9})?(/[0-9]{1,9}(\.[0-9]{1,9})?){1,3}").fullmatch,
    "written as model=input/output, or model=input/output/cache read/cache write",
)
ONE_PRICE: Final = Shape(re.compile(r".+=[0-9]{1,9}(\.[0-9]{1,9})?").fullmatch, "written as model=price")


@frozen(kw_only=True)
class ClientSettings:
    """Authentication of clients."""

    api_keys: tuple[str, ...] = setting((), KEY, secret=True)
    """Keys that a client may present as ``Authorization: Bearer`` or ``x-api-key``."""

    allow_anonymous: bool = False
    """Serve clients without a key.  Without keys, without this and without host auth the app refuses to start."""

    trust_host: bool = False
    """Let in whom the host's middleware has authenticated: a user in ``scope["user"]`` or ``scope["state"]["user"]``
    whose ``is_authenticated`` is true, or a name in ``scope["state"]["principal"]``."""

    keys_ttl: float = setting(10.0, Bounds(0, DAY))
    """Seconds for which it holds what the host said of a key or a user in ``create_app(keys=…)``: a key that is
    revoked there is refused after them at the latest.  0: every request asks."""

    keys_timeout: float = setting(5.0, Bounds(MOMENT, DAY))
    """Seconds within which the host must have said it, and who is signed in (``mount(principal=…)``); after them the
    request is answered with 503."""


@frozen(kw_only=True)
class CorsSettings:
    """Pages that may use the gateway from a browser."""

    origins: tuple[str, ...] = setting((), PAGE)
    """Origins of pages that may, as browsers write them (``https://app.example``, ``app://obsidian.md``, ``null``), or
    ``*`` for all.  Empty: none, and no header of this kind is sent, so a host or proxy in front may send its own."""


@frozen(kw_only=True)
class InspectorSettings:
    """A page below ``inspector/`` that shows calls as they happen, and what was used."""

    enabled: bool = False
    """Serve it.  Otherwise there is nothing at its path, and calls are not kept.  ``kiro-asgi serve --inspect`` sets
    this, with a secret for as long as it runs."""

    secret: str = setting("", SECRET, secret=True)
    """Opens the page, which shows the calls of all clients; no client's key opens it."""

    trust_host: bool = False
    """Let the host decide who may open the page, by ``create_app(may_inspect=…)``; then it asks for no secret."""

    hosts: tuple[str, ...] = setting((), SITE)
    """Host names under which browsers may open it, in addition to those of the machine itself (``localhost``,
    ``127.0.0.1``, ``[::1]``): any other may come from a hostile page (DNS rebinding).  With ``inspector.trust_host``
    the host checks that."""

    calls: int = setting(1000, Bounds(1, 100_000))
    """Calls that are kept, in the memory of each process; the oldest make room for new ones."""

    bytes: int = setting(32 * 1024 * 1024, Bounds(1024 * 1024, 2**40))
    """Memory that they may take, with what *content* adds to them."""

    content: str = setting("none", Choices(("none", "masked", "full")))
    """Recording of the bytes that clients and services sent, from which each step of an answer can be shown:
    ``none``; ``masked`` shows no word of prompts and answers, only their shape; ``full`` shows everything but secrets.
    Where memory is short, bytes of old calls go first.  ``kiro-asgi serve --inspect`` sets ``full``, and
    ``--inspect=masked`` or ``--inspect=none`` the others."""

    @staticmethod
    def conflicts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Name and complaint for values that do not go together."""
        if values.get("enabled") and not (values.get("secret") or values.get("trust_host")):
            yield "secret", "must be set where inspector.enabled is, unless inspector.trust_host says who may look"


@frozen(kw_only=True)
class PriceSettings:
    """Prices of models, in any currency: for the cost of what was used, and for limits in money.

    In a row, ``*`` in the name of a model, or of ``upstream/model``, stands for any text, and the first row that fits
    counts.
    """

    models: tuple[str, ...] = setting((), PRICE)
    """Prices of a million tokens, each as ``model=input/output``; ``/`` and the price of reading from a cache and of
    writing to it may follow, which else cost what the input does."""

    thinking: tuple[str, ...] = setting((), ONE_PRICE)
    """The same for thinking, each as ``model=price``, where it has another price than the rest of an answer."""

    images: tuple[str, ...] = setting((), ONE_PRICE)
    """The same for images in answers, each as ``model=price``, where the service counts their tokens and they have
    another price than the rest."""

    requests: tuple[str, ...] = setting((), ONE_PRICE)
    """Prices of one request, each as ``model=price``."""

    credits: tuple[str, ...] = setting((), ONE_PRICE)
    """Prices of one credit, as the service meters them, each as ``model=price``, e.g. ``kiro/*=0.04``."""

    file: str = setting("", PATH)
    """A file with prices in the form of LiteLLM's ``model_prices_and_context_window.json``, for models that no row of
    *models* fits.  It is read at the start, and never fetched."""

    currency: str = setting("USD", WORD)
    """The currency of all of them, for messages."""

    header: bool = False
    """Say in the head of an answer that is sent whole what it cost: ``x-kiro-asgi-cost`` by what the service has
    counted, and ``x-kiro-asgi-estimated-cost`` by what was estimated.  The head of a stream is sent before anybody
    knows."""


@frozen(kw_only=True)
class RoutingSettings:
    """Choice of the upstream for a model.

    Upstreams have the names of their tables: ``kiro``, ``gemini``, ``anthropic``, ``openai``, and those in ``custom``.
    A client that asks for ``upstream/model`` names one itself.
    """

    models: tuple[str, ...] = setting((), ROUTE)
    """Rows, each as ``pattern=upstream/model``; more targets follow after ``>``, each used where those before it fail.
    In a pattern, ``*`` stands for any text, and the most specific one counts.  Without ``/model``, the name stays."""

    order: tuple[str, ...] = setting((), UPSTREAM)
    """Upstreams in the order in which they are preferred for a model that several of them list."""

    default: str = setting("", UPSTREAM)
    """The upstream of models that no upstream lists.  Empty: the first."""


@frozen(kw_only=True)
class ToolSettings:
    """Repairs of tool calls that arrive broken."""

    remap_arguments: bool = True
    """Rename an argument to the client's schema, where a model used another common name or another spelling
    (``filePath`` for ``file_path``)."""

    parameter_names: tuple[str, ...] = setting((), PARAMETER)
    """Names of arguments to put back, each as ``tool.wire=client``: where a model calls that tool with ``wire``, the
    client gets ``client``."""

    filter_unknown: bool = True
    """Leave out arguments that the client's schema does not declare, where it has ``additionalProperties: false``."""

    repair_encoding: bool = True
    """Decode arguments that are JSON within a string, where the client's schema does not want a string."""

    repairs_off: tuple[str, ...] = setting((), REPAIR)
    """Repairs of arguments that are not valid JSON, to be switched off: ``control_characters`` (unescaped in a string),
    ``trailing_commas``, ``repetitions``, ``byte_order_mark``.  Arguments that cannot be read then are withheld as
    malformed."""

    mcp_bridge: bool = True
    """Read calls of MCP tools that a model wrote as XML in its text."""

    fuzzy_names: bool = True
    """Correct a tool name that the client did not offer to the offered one that it nearly is."""

    leaked_calls: bool = False
    """Read tool calls that a model wrote into its text in other ways, as ``[Called …]`` or ``<invoke …>``."""


@frozen(kw_only=True)
class StreamSettings:
    """How answers are sent to clients."""

    heartbeat: float = setting(15.0, Bounds(0, DAY))
    """Seconds of silence after which the client gets a sign of life; 0 switches it off."""

    heartbeat_style: str = setting("auto", Choices(("auto", "comment")))
    """Form of a sign of life: ``auto`` (in the Responses API an event that changes nothing, as the idle timer of Codex
    ignores comments; in the Messages API a ``ping``; else a comment) or ``comment`` (in the Responses API a comment,
    too)."""

    early_commit_after: float = setting(15.0, Bounds(0, DAY))
    """Seconds after which the response head is sent even without an event; a failure after that which no retry helps
    is sent in the stream.  0: never.
    A first try that may take no longer than this is waited for."""

    idle_timeout: float = setting(300.0, Bounds(0, DAY))
    """Seconds without an upstream event, not counting time spent waiting for the client; 0 switches it off."""

    tool_emission: str = setting("complete", Choices(("complete", "end", "incremental")))
    """When a tool call is sent: ``complete`` (once its JSON is complete), ``end`` (after everything else) or
    ``incremental``."""

    lead_in: str = setting("", presets={"contract": "I will call a tool to help with this:"})
    """Text put before an answer that begins with a tool call; empty for none."""

    language: str = setting("en", Choices(("en", "zh")))
    """Language of notes to people, that the network failed in the middle of an answer, that a tool call could not be
    read, and on what pages an answer rests: ``en`` or ``zh``."""

    synthetic: bool = False
    """Wait for the whole answer, then send it as a stream."""

    sentences: bool = False
    """Send the text of such a stream sentence by sentence."""

    usage_chunk: str = setting("own", Choices(("own", "finish")))
    """Place of the token counts in a stream of Chat Completions: ``own`` (a chunk after all others, for a client that
    asks with ``stream_options.include_usage``) or ``finish`` (in the chunk with the ``finish_reason``, for all clients;
    some read them only there)."""

    relay: str = setting("auto", Choices(("auto", "unrepaired", "never")))
    """Whether answers of a service that has the client's own API go through as they are: ``auto`` (where the gateway
    has nothing to change in them), ``unrepaired`` (also where the client has tools, so that calls come as the service
    wrote them) or ``never`` (they are translated like all others)."""


@frozen(kw_only=True)
class StructuredSettings:
    """Answers that must be JSON (structured output)."""

    streaming: str = setting("checked", Choices(("checked", "unchecked")))
    """How they are streamed: ``checked`` (sent when they are complete and have been checked, unless the service itself
    guarantees their form) or ``unchecked`` (sent as they come; the log has what is wrong with them)."""


@frozen(kw_only=True)
class PromiseSettings:
    """What is done about an answer that lacks what its request demands."""

    tool_choice: str = setting("enforce", Choices(("enforce", "ask")))
    """A call that ``tool_choice`` demands: ``enforce`` (the model is asked once more, then the client gets an error) or
    ``ask`` (the client gets the answer as it came, with a notice after it).  Calls of tools that it does not allow are
    withheld either way."""


@frozen(kw_only=True)
class FetchSettings:
    """Images and documents that requests name by their ``https`` addresses, for services that take bytes only.

    A service that fetches addresses itself is sent the addresses.
    """

    allow: tuple[str, ...] = setting((), HOST)
    """Hosts to fetch from, e.g. ``images.example.com``; ``*.example.com`` are all below that one, ``example.com:8443``
    is another port than 443.  Empty: nothing is fetched."""

    max_bytes: int = setting(10 * 1024 * 1024, Bounds(1, 2**40))
    """Largest file, in bytes.  What is fetched counts towards ``limits.body_bytes_in_flight``."""

    timeout: float = setting(10.0, Bounds(MOMENT, DAY))
    """Seconds for all that one request names."""


@frozen(kw_only=True)
class LimitSettings:
    """Bounds of the memory, connections and time that requests may take."""

    body_bytes: int = setting(32 * 1024 * 1024, Bounds(1, 2**40))
    """Largest request body, in bytes."""

    body_bytes_in_flight: int = setting(128 * 1024 * 1024, Bounds(2, 2**41))
    """Request bodies held at once, in bytes, each from its arrival to the end of its answer; one for which there is no
    room is refused with 503.  Each may be as large as what the others leave free, so at least twice ``body_bytes``.
    Vectors of embeddings count likewise.  So do stored responses and conversations while they are read or built on;
    what one client holds of these may be as much as the rest leaves free.  ``kiro-asgi serve`` has as much room again
    for messages over WebSocket that it has not taken yet.  The default has room for 500 answers at once to requests of
    250 kB."""

    known_bytes: int = setting(32 * 1024 * 1024, Bounds(0, 2**40))
    """Memory for tools and messages of earlier requests, in bytes, in each process.  An agent sends them again with
    each turn; what stands as it stood is not read anew.  Each client has its own, a quarter at most, for 15 minutes.
    0 remembers none.  What is sent, and every note, are the same either way."""

    body_timeout: float = setting(30.0, Bounds(MOMENT, DAY))
    """Seconds for the whole request body to arrive."""

    connections: int = setting(512, Bounds(1, 2**20))
    """Upstream connections at once."""

    queue: int = setting(1024, Bounds(0, 2**20))
    """Requests that may wait for a connection; more are refused with 503."""

    keep_alive: float = setting(55.0, Bounds(0, DAY))
    """Seconds an idle upstream connection is kept."""

    connect_timeout: float = setting(10.0, Bounds(MOMENT, DAY))
    """Seconds for an upstream connection to be made, TLS included."""

    request_timeout: float = setting(3600.0, Bounds(MOMENT, DAY))
    """Seconds for one whole upstream call, the wait for a connection included."""

    write_timeout: float = setting(60.0, Bounds(MOMENT, DAY))
    """Seconds for which a client may read nothing; then it is dropped, and its upstream call ended.  Where
    other requests wait for a connection: a twelfth to a sixth of that."""

    tool_input_bytes: int = setting(TOOL_INPUT_BYTES, Bounds(1, 2**40))
    """Largest arguments of one tool call, in bytes."""

    answer_bytes: int = setting(ANSWER_BYTES, Bounds(1, 2**40))
    """Room for what has to be kept of one answer, in bytes of memory: all of a collected one, of one of the Responses
    API and of one with ``stream.synthetic``, else calls that have not ended and what waits for them.  Beyond it the
    answer ends with the error ``answer_too_large``.  A longer one would not fit into the next request anyway."""


@frozen(kw_only=True)
class ResponsesSettings:
    """The Responses API."""

    websocket: bool = True
    """Take requests over WebSocket as well.  Switched off, a handshake is answered with 426, and clients use HTTP."""

    websockets: int = setting(256, Bounds(1, 2**20))
    """WebSockets that one client may have open at once, in each process; the handshake of a further one is refused with
    503."""

    frame_bytes: int = setting(32 * 1024 * 1024, Bounds(1, 2**40))
    """Largest frame of a client's, in bytes; a WebSocket with a larger one is closed with 1009.  A server has a limit
    of its own, mostly 16 MiB: ``kiro-asgi serve`` takes this one when it starts."""

    idle_timeout: float = setting(3600.0, Bounds(MOMENT, DAY))
    """Seconds that a WebSocket may wait for its next request; then it is closed with 1001."""

    lifetime: float = setting(3600.0, Bounds(MOMENT, DAY))
    """Seconds that a WebSocket is used; then it is closed with 1001, after the answer that is under way."""

    background: int = setting(32, Bounds(0, 1000))
    """Responses that are made in the background at once, in each process; 0 refuses them all.  One client may have as
    many of them as the others leave free, so a sole client has half."""

    background_timeout: float = setting(3600.0, Bounds(MOMENT, DAY))
    """Seconds that one may take; then it fails."""

    background_bytes: int = setting(32 * 1024 * 1024, Bounds(1, 2**40))
    """Bytes of the events of one; they are kept for clients that stream it again, and with more of them it fails."""

    compact_output: str = setting("messages", Choices(("messages", "item")))
    """Output of ``/v1/responses/compact``: the last messages of the user and the compaction (``messages``, as with
    OpenAI), or the compaction alone (``item``): the official Python SDK in its strict mode accepts no message."""


@frozen(kw_only=True)
class RetrySettings:
    """Retries before anything was sent to the client, and cooldowns of credentials that are at fault."""

    attempts: int = setting(3, Bounds(1, 100))
    """Tries in all.  With more than one, errors ask the gateway's clients not to retry by themselves."""

    max_wait: float = setting(20.0, Bounds(0, DAY))
    """Seconds that one request waits between its tries, all of them together.  Where a service asks for a longer wait,
    the client gets the error at once, with the time to wait."""

    timeout_attempts: int = setting(2, Bounds(1, 100))
    """Tries in all where the service was merely silent, and no more than ``retry.attempts``."""

    base: float = setting(1.0, Bounds(0, DAY))
    """Seconds before the second try."""

    factor: float = setting(2.0, Bounds(1, 100))
    """Factor by which each further delay is longer."""

    jitter: float = setting(0.1, Bounds(0, 1))
    """Share of a delay that is drawn at random."""

    rate_base: float = setting(8.0, Bounds(0, DAY))
    """Seconds before the second try where the account's rate was exceeded: sooner, it only counts as one more."""

    capacity_base: float = setting(5.0, Bounds(0, DAY))
    """Seconds before the second try where the model has no capacity."""

    refused_base: float = setting(2.0, Bounds(0, DAY))
    """Seconds that a credential rests after the service refused it (401, 403), doubled by each further refusal."""

    refused_cap: float = setting(60.0, Bounds(0, DAY))
    """Longest such rest, in seconds."""

    quota_probe: float = setting(300.0, Bounds(0, DAY))
    """Seconds between two requests that try a credential whose quota is spent, until it is renewed.  0: it does not
    rest."""

    suspicion: float = setting(1800.0, Bounds(0, 30 * DAY))
    """Seconds that a credential rests after the service reported suspicious activity or a suspension."""


@frozen(kw_only=True)
class RecoverySettings:
    """Notices to the model, in the next request, about an answer that was cut short."""

    enabled: bool = True
    """Remember answers whose tool call was cut, and add a notice for the model to the next request."""

    ttl: float = setting(3600.0, Bounds(0, 30 * DAY))
    """Seconds that such an answer is remembered."""


@frozen(kw_only=True)
class StateSettings:
    """State that is kept between requests: responses that clients refer to, answers that were cut, and signatures of
    tool calls."""

    engine: str = setting("auto", Choices(("auto", "memory", "sqlite", "valkey")))
    """Where it is kept: in the ``memory`` of the process; in a file, ``sqlite``, for all processes of a machine; or on
    a Valkey or Redis server, ``valkey``, for those of several machines.  ``auto``: in a file of the user's state folder
    with ``kiro-asgi serve``, in memory in every other application."""

    path: str = setting("", PATH)
    """Path of the SQLite file; with ``auto``, one that ``kiro-asgi serve`` takes instead of its own."""

    url: str = setting("", STATE_URL, secret=True)
    """That server: ``valkey://[user[:password]@]host[:port][/database]``, ``valkeys://`` with TLS, ``unix:///path``;
    ``valkey+sentinel://host:port,host:port/name`` for the primary that sentinels know by that name, and
    ``valkey+cluster://host:port`` for a cluster.  ``redis`` means the same as ``valkey``, ``rediss`` as ``valkeys``."""

    ttl: float = setting(86_400.0, Bounds(0, 30 * DAY))
    """Seconds that a response, or a signature, is kept."""

    timeout: float = setting(2.0, Bounds(MOMENT, 300))
    """Seconds that one use of a store from outside (`create_app(store=…)`, an installed package's) may take.  Beyond
    it, a request goes on without what is kept if it can, and gets 503 if it cannot; the log and ``/ready`` say so."""

    entries: int = setting(10_000, Bounds(0, 2**20))
    """Responses, answers that were cut, and signatures, kept at once; with ``valkey``, of each client."""

    bytes: int = setting(64 * 1024 * 1024, Bounds(0, 2**40))
    """Room for all of them; those used longest ago make room for new ones.  With ``valkey``, room of each client, in
    which those that end first do."""

    usage: bool = False
    """Keep what is used by day, client, upstream and model, where the other state is: ``kiro-asgi usage`` reads it from
    a file or a server.  In memory it is for the inspector alone, as long as the process lives."""

    seal_key: str = setting("", KEY, secret=True)
    """Secret that seals the ``encrypted_content`` of reasoning; the same for all processes.  Empty: a random one, for
    as long as the process lives; with ``kiro-asgi serve`` and ``auto``, one that is kept beside the file."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes may find what this one keeps."""
        return self.engine not in ("auto", "memory")
