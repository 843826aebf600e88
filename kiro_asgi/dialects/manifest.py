"""The manifest of a client API: what the gateway knows of it without its code, the names of its headers included."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import ceil, floor
from shlex import quote
from typing import Any, Final, Protocol, cast, runtime_checkable

import attrs
from attrs import Attribute, evolve, field, frozen

from kiro_asgi.dialects.base import JSON, Dialect
from kiro_asgi.dialects.errors import RETRY_HEADERS
from kiro_asgi.errors import ConfigError
from kiro_asgi.interface import fields_lack, must_be, must_be_named, must_be_texts, must_stand_for
from kiro_asgi.model.rules import Rule, declared_rules
from kiro_asgi.setting import setting
from kiro_asgi.wire.json import dumps

_KINDS: Final = ("requests", "tokens")
_QUOTA_NAME: Final = re.compile(r"[a-z0-9-]*(\{kind\}[a-z0-9-]*\{part\}|\{part\}[a-z0-9-]*\{kind\})[a-z0-9-]*")


def duration(seconds: float, now: float) -> str:
    """*seconds* as OpenAI writes them: ``1s``, ``6m0s``, ``1h0m0s``, and ``20ms`` below a second."""
    if seconds < 1:
        return f"{ceil(seconds * 1000)}ms"
    minutes, rest = divmod(ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def instant(seconds: float, now: float) -> str:
    """The moment *seconds* after *now* as RFC 3339 has it."""
    return datetime.fromtimestamp(ceil(now + seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@frozen
class QuotaHeaders:
    """Names of the headers, and the format of times in them."""

    name: str
    """With ``{kind}`` for ``requests`` or ``tokens``, and ``{part}`` for ``limit``, ``remaining`` or ``reset``."""

    time: Callable[[float, float], str]
    """From seconds until all is there again, and the time now since the epoch."""

    def __attrs_post_init__(self) -> None:
        lack = next(fields_lack(self), "")
        if not lack and not _QUOTA_NAME.fullmatch(self.name):
            lack = "name must hold {kind} and {part}, as x-ratelimit-{part}-{kind} does, and no other braces"
        if lack:
            raise ConfigError(f"{self}: {lack}", code="config.manifest")

    @property
    def names(self) -> tuple[bytes, ...]:
        """All of them, in lower case."""
        parts = ("limit", "remaining", "reset")
        return tuple(self.name.format(kind=kind, part=part).encode() for kind in _KINDS for part in parts)

    def lines(
        self, kind: str, limit: float, remaining: float, reset_after: float, now: float
    ) -> Iterator[tuple[bytes, bytes]]:
        """The headers about the limit of one *kind*."""
        values = {
            "limit": str(floor(limit)),
            "remaining": str(floor(remaining)),
            "reset": self.time(reset_after, now),
        }
        for part, value in values.items():
            yield self.name.format(kind=kind, part=part).encode(), value.encode()


DURATIONS: Final = QuotaHeaders("x-ratelimit-{part}-{kind}", duration)
"""OpenAI's, which most other services have as well."""


_KEY: Final = "kiro_asgi.dialect"
"""Where a field's metadata hold the manifest of the client API whose settings it has."""

ANSWER: Final = "answer"
"""Operation: read a request, ask an upstream, answer."""

COUNT: Final = "count"
"""Operation: read a request, count the tokens of its prompt; for a `kiro_asgi.dialects.base.CountingDialect`."""

EMBED: Final = "embed"
"""Operation: read a request for embeddings, ask an upstream, answer; for a
`kiro_asgi.dialects.base.EmbeddingDialect`."""

MODELS: Final = "models"
"""Operation: list the models of all upstreams; for a `kiro_asgi.dialects.base.ListingDialect`."""

MODEL: Final = "model"
"""Operation: describe the model that the path names; for a `kiro_asgi.dialects.base.ListingDialect`."""

CONSTANT: Final = "constant"
"""Operation: answer with the endpoint's own `Endpoint.content`, see `constant`."""

REFUSE: Final = "refuse"
"""Operation: say why there is nothing at the path, which the description leaves out; of the API's own."""

WEBSOCKET: Final = "WEBSOCKET"
"""In the place of a method: the path takes the handshake of a WebSocket."""


_METHOD: Final = re.compile("[A-Z]+")
_PATH: Final = re.compile(r"[^{}]*(\{\w+(:path)?\}[^{}]*){0,2}")


def _check_method(endpoint: Endpoint, attribute: Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not _METHOD.fullmatch(value):
        raise ConfigError(f"{endpoint}: the method must be in capitals, such as POST", code="config.manifest")


def _check_path(endpoint: Endpoint, attribute: Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ConfigError(f"{endpoint}: the path must begin with a slash", code="config.manifest")
    if not _PATH.fullmatch(value):
        words = "each name in the path must be in braces, and there can be two: /items/{id}/parts/{part}"
        raise ConfigError(f"{endpoint}: {words}", code="config.manifest")


@frozen
class Endpoint:
    """A path of an API and the method that it takes there.

    Raises:
        ConfigError: A method in small letters, or a path without a slash, which no request would meet.
    """

    method: str = field(validator=_check_method)
    """Of HTTP, in capitals, or `WEBSOCKET`."""

    path: str = field(validator=_check_path)
    """Below the mount point.  ``{id}`` is one or more characters but ``/``, ``{id:path}`` any.  The operation
    is handed the segment that begins with it, or with what is written before the brace; where there are two names, all
    from the first to the end of the second."""

    operation: str = ANSWER
    """One of `ANSWER`, `COUNT`, `MODELS`, `MODEL` and `CONSTANT`, or one of the API's own by the name that
    `kiro_asgi.dialects.base.OperatingDialect` has for it."""

    content: bytes = b""
    """The body of every answer, for `CONSTANT`."""

    content_type: bytes = JSON
    """Of that."""

    verbs: tuple[str, ...] = ()
    """What may stand behind the last colon of the path, where that says what is to be done; else none."""

    def __attrs_post_init__(self) -> None:
        if lack := next(fields_lack(self), ""):
            raise ConfigError(f"{self}: {lack}", code="config.manifest")


@runtime_checkable
class RoutedDialect(Protocol):
    """A client API whose requests differ from path to path."""

    def at(self, endpoint: Endpoint, argument: str, /) -> Dialect:
        """The dialect that reads a request at *endpoint*, as the manifest has it, and writes its answer.

        Args:
            endpoint: One of the manifest's.
            argument: Name in the path; empty where the path names nothing.
        """
        ...


def constant(path: str, value: Any, *, method: str = "GET") -> Endpoint:
    """An endpoint whose answer is always the same JSON *value*, such as a version; it needs a key like any other.

    Raises:
        ConfigError: It is none, or as for `Endpoint`.
    """
    try:
        content = dumps(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the constant at {path!r:.60} must be JSON: {error}", code="config.manifest") from None
    return Endpoint(method, path, CONSTANT, content)


@frozen(kw_only=True)
class DialectSettings:
    """Settings that every client API from outside has; one with more of them derives its own class from this."""

    enabled: bool = setting(True)
    """Serve this API.  Of an installed package it is served where any of its settings is written, if only this one."""


@frozen(kw_only=True)
class DialectOptions:
    """The operator's options for the answers of an API; one that lacks a feature ignores its option."""

    emit_code_references: bool = False
    """Whether streams name licensed sources in events that official SDKs do not know."""

    usage_chunk: str = "separate"
    """Where streams have token counts: in a chunk of their own, or in the one with the reason for the answer's end
    (``finish``)."""

    settings: Any = None
    """Of the API's own: an instance of its manifest's class; ``None`` for one that comes with the package."""


def _refused(manifest: DialectManifest, words: str) -> ConfigError:
    return ConfigError(f"the manifest of the client API {manifest.name!r:.60}: {words}", code="config.manifest")


def _endpoints(endpoints: Iterable[Endpoint] | Endpoint) -> tuple[Endpoint, ...]:
    return tuple(endpoints) if isinstance(endpoints, Iterable) else (endpoints,)


def _check_endpoints(manifest: DialectManifest, attribute: Attribute[Any], value: tuple[object, ...]) -> None:
    for at, endpoint in enumerate(value):
        if not isinstance(endpoint, Endpoint):
            raise _refused(manifest, f"endpoints[{at}] must be an Endpoint, not {endpoint!r:.60}")


def _make(options: DialectOptions, /) -> Dialect:
    raise NotImplementedError


def _unlike(request: Mapping[str, Any], /) -> int:
    return 0


def _check_prefix(manifest: DialectManifest, attribute: Attribute[str], value: object) -> None:
    if not isinstance(value, str) or (value and (not value.startswith("/") or value.endswith("/") or "{" in value)):
        raise _refused(manifest, f"prefix must begin with a slash, and end without one, not {value!r:.60}")


def _check_example(manifest: DialectManifest, attribute: Attribute[Any], value: object) -> None:
    try:
        if isinstance(value, Mapping) and dumps({**value}):
            return
    except (TypeError, ValueError):
        pass
    raise _refused(manifest, f"example must be a Mapping that is JSON, not {value!r:.60}")


def _check_headers(manifest: DialectManifest, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, tuple) or any(type(name) is not bytes or name != name.lower() for name in value):
        raise _refused(manifest, f"{attribute.name} must be a tuple of names as bytes, in lower case: {value!r:.60}")


def _rules(rules: Iterable[str | Rule]) -> tuple[Rule, ...]:
    return declared_rules(rules, "a client API")


@frozen(kw_only=True)
class DialectManifest:
    """One client API.

    It is read at every start, so `make` imports the code that reads requests and writes answers.

    Raises:
        ConfigError: A member is not what it has to be; the message names it.
    """

    name: str = field(validator=must_be(str, "text", _refused))
    """Name of its table of settings, in options of the command, and in upstreams that speak it."""

    title: str = field(validator=must_be(str, "text", _refused))
    """As its documentation calls it."""

    endpoints: tuple[Endpoint, ...] = field(converter=_endpoints, validator=_check_endpoints)
    """Every path of it, below `prefix`.  Errors at them, and at unknown paths below `root`, have this API's form."""

    make: Callable[[DialectOptions], Dialect] = field(validator=must_stand_for(_make, _refused))
    """Everything that takes no waiting; a setting that cannot work is a `ConfigError`."""

    prefix: str = field(default="", validator=_check_prefix)
    """Path before those of all endpoints, e.g. ``/api``; empty where they are written whole."""

    settings: type[Any] = field(default=DialectSettings, validator=must_be(type, "type", _refused))
    """The class of its own settings, a frozen attrs class; they stand in a table of the API's name, and reach `make` as
    `DialectOptions.settings`.  APIs that come with the package have none."""

    base: str = field(default="", validator=must_be(str, "text", _refused))
    """Beginning of its paths that clients expect in their base URL, such as ``/v1``; empty where they add it."""

    example: Mapping[str, Any] = field(factory=dict, eq=False, validator=_check_example)
    """A small request that shows whether it works, without the model; empty for none."""

    key_headers: tuple[bytes, ...] = field(default=(b"authorization",), validator=_check_headers)
    """Request headers, in lower case, in which its clients show a key; ``authorization`` holds it behind ``Bearer``."""

    key_parameters: tuple[str, ...] = field(default=(), validator=must_be_texts(_refused))
    """Parameters of the query in which its clients show a key.  No log of the gateway's holds a query."""

    marks: tuple[bytes, ...] = field(default=(), validator=_check_headers)
    """Request headers, in lower case, that only its clients send: at paths of no API they get errors of this one, and
    at ``/v1/models`` its list, where it has an endpoint for `MODELS`."""

    request_id_headers: tuple[bytes, ...] = field(default=(b"x-request-id",), validator=_check_headers)
    """Response headers, in lower case, in which its clients look for the id of a request."""

    retry_count_headers: tuple[bytes, ...] = field(default=(), validator=_check_headers)
    """Request headers, in lower case, in which its clients count how often they have sent a request before."""

    exposed_headers: tuple[bytes, ...] = field(default=RETRY_HEADERS, validator=_check_headers)
    """Further response headers, in lower case, that its clients read: pages of other origins may read them, too."""

    quota_headers: QuotaHeaders = field(default=DURATIONS, validator=must_be(QuotaHeaders, "QuotaHeaders", _refused))
    """Response headers in which its clients look for their remaining quota."""

    replaces: tuple[str, ...] = field(default=(), validator=must_be_texts(_refused))
    """Paths of older APIs; an error there names the first endpoint."""

    likeness: Callable[[Mapping[str, Any]], int] = field(default=_unlike, validator=must_stand_for(_unlike, _refused))
    """Likeness of a request body to those of this API: 2 for surely, 1 for probably, -1 for not at all."""

    rules: tuple[Rule, ...] = field(default=(), converter=_rules)
    """What its notes may name, beside the rules about what is not read: names of the catalogue, rules of its own."""

    operations: str = field(default="kiro_asgi.apis.operations:Operations", validator=must_be_named(_refused))
    """Where the class is whose methods are the endpoints' operations, as ``module:name``: what awaits for an API stands
    above the application, and is imported when one is made."""

    def curl(self, base: str, model: str, key: str = "") -> str:
        """A command for a shell that sends the example for *model* to the gateway at *base*, with *key*."""
        shown = f" -H 'authorization: Bearer {key}'" if key else ""
        body = quote(dumps({"model": model, **self.example}).decode())
        return f"curl {base}{self.root} -H 'content-type: application/json'{shown} -d {body}"

    @property
    def routes(self) -> tuple[Endpoint, ...]:
        """The endpoints with their whole paths, in their order."""
        return tuple(evolve(it, path=self.prefix + it.path) for it in self.endpoints)

    @property
    def root(self) -> str:
        """The prefix; without one the path at which answers are asked for, up to the first segment that names
        something."""
        return self.prefix or self.endpoints[0].path.partition("/{")[0]


def dialect_slice(manifest: DialectManifest) -> Any:
    """Declare a field that holds the settings of *manifest*; without any of them it has their defaults."""
    return field(factory=manifest.settings, metadata={_KEY: manifest})


def dialects_in(tree: type) -> Iterator[tuple[str, DialectManifest]]:
    """Field and manifest of every client API that the class *tree* has settings for."""
    for it in attrs.fields(tree):
        if (manifest := cast(DialectManifest | None, it.metadata.get(_KEY))) is not None:
            yield it.name, manifest


def served(tree: object) -> Iterator[tuple[DialectManifest, Any]]:
    """Manifest and settings of every client API that *tree* has settings for and does not switch off."""
    for name, manifest in dialects_in(type(tree)):
        if (settings := getattr(tree, name)).enabled:
            yield manifest, settings
