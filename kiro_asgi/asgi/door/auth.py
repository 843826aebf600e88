"""Authentication by a key or by the host's middleware, and the permission of pages of other origins.

A browser asks first for a page of another origin (a preflight), and hides answers that do not name that origin.

Source: https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from inspect import isawaitable
from logging import getLogger
from math import ceil
from typing import Any, Final

import anyio
import anyio.to_thread
from asgiref.sync import sync_to_async
from attrs import field, frozen

from kiro_asgi.asgi.door.client_table import ClientTable, Find, Presented, fresh_connections
from kiro_asgi.asgi.exchange.reports import COST_HEADERS
from kiro_asgi.asgi.principals import ASK, HOST, KEY
from kiro_asgi.asgi.protocol import (
    Headers,
    Message,
    Scope,
    Send,
    header_values,
    query_values,
    response_body,
    response_start,
)
from kiro_asgi.config import Settings
from kiro_asgi.errors import (
    ConfigError,
    ForeignOrigin,
    KeyExpired,
    KeysUnavailable,
    Unauthorized,
    UnsupportedMediaType,
)
from kiro_asgi.limits import KEY_CHARACTERS, PREFLIGHT_BYTES, PREFLIGHT_NAMES
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.quota.clients import Client, clients_of, limited_by
from kiro_asgi.quota.settings import SOON, hash_of
from kiro_asgi.setting import DAY

_log = getLogger("kiro_asgi")

NO_CLIENT: Final = (
    "no client could authenticate: set client.api_keys or keys, or client.trust_host where a host's middleware "
    "authenticates, or client.allow_anonymous to serve clients without a key"
)
"""Why no gateway starts where nobody could use it."""

_ORIGIN: Final = b"origin"
_METHOD: Final = b"access-control-request-method"
_HEADERS: Final = b"access-control-request-headers"
_ALLOW_ORIGIN: Final = b"access-control-allow-origin"

_TOKEN: Final = re.compile(rb"[\w!#$%&'*+.^`|~-]+", re.ASCII)
"""Source: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2"""

_FORBIDDEN: Final = frozenset({b"cookie", b"cookie2"})
"""Headers that no page may be allowed to set; browsers refuse them as well."""

_EXPOSED: Final = (b"x-kiro-asgi-rules", *COST_HEADERS, b"allow")
"""Headers of answers, whatever the client API, that a page may read."""

_MAX_AGE: Final = b"7200"
"""Seconds for which a browser need not ask again; Chromium takes no more."""

_JSON: Final = re.compile(
    rb"[ \t]*+application/(?:[\w.-]++\+)?json[ \t]*+(?:;.*)?", re.ASCII | re.IGNORECASE | re.DOTALL
)


@frozen
class CrossOrigin:
    """The origins whose pages may use the gateway, as browsers write them; none switches everything off."""

    _origins: tuple[str, ...] = ()
    _exposed: tuple[bytes, ...] = ()
    """Headers of answers that clients of the APIs read."""

    def admits(self, origin: bytes) -> bool:
        """Whether a page of *origin* may read answers."""
        return any(origin == each.encode() for each in self._origins) or "*" in self._origins

    def is_preflight(self, scope: Scope) -> bool:
        """Whether a browser asks for permission before it sends a request."""
        return (
            bool(self._origins)
            and scope["method"] == "OPTIONS"
            and bool(header_values(scope, _ORIGIN))
            and bool(header_values(scope, _METHOD))
        )

    async def answer(self, scope: Scope, methods: Iterable[str], send: Send) -> None:
        """Answer a preflight: 204 with what is allowed, *methods* among it, or 403 without any permission.

        No key is needed: browsers send none here.
        """
        origin = self._admitted(scope)
        headers: Headers = [(b"vary", b"Origin")] if origin is None else [*_permissions(origin, methods, scope)]
        await send(response_start(403 if origin is None else 204, headers))
        await send(response_body(b""))

    def readable(self, scope: Scope, send: Send) -> Send:
        """*send* that makes every response, whatever its status, readable for the page that asked, if it may."""
        if not self._origins:
            return send
        origin = self._admitted(scope)
        added = [(b"vary", b"Origin")]
        if origin is not None:
            exposed = b", ".join((*self._exposed, *_EXPOSED))
            added += [(_ALLOW_ORIGIN, origin), (b"access-control-expose-headers", exposed)]

        async def send_readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        return send_readable

    def require_same_site(self, scope: Scope) -> None:
        """Refuse what a page of another site may have made a browser send, with the cookies of a user who is signed in.

        Browsers send a form, or text without a type, wherever a page wants, without a preflight; they name the page's
        origin.  Requests that show a key need no such guard: a page would have to know it.

        Raises:
            ForeignOrigin: The page is another site's, and none that may use the gateway.
            UnsupportedMediaType: The body does not say that it is JSON.
        """
        for origin in header_values(scope, _ORIGIN):
            if not (self.admits(origin) or _is_own(origin, scope)):
                raise ForeignOrigin(
                    "a page of another origin sent this on behalf of a user who is signed in; "
                    "cors.origins names the origins that may",
                    code="foreign_origin",
                )
        if scope["method"] == "POST" and not any(map(_JSON.fullmatch, header_values(scope, b"content-type"))):
            raise UnsupportedMediaType(
                "send the request body with content-type: application/json", code="unsupported_media_type"
            )

    def _admitted(self, scope: Scope) -> bytes | None:
        """The origin that the request comes from, if its pages may use the gateway."""
        origins = header_values(scope, _ORIGIN)
        return origins[0] if len(origins) == 1 and self.admits(origins[0]) else None


def _permissions(origin: bytes, methods: Iterable[str], scope: Scope) -> Iterator[tuple[bytes, bytes]]:
    """Headers that permit a page of *origin* its request."""
    yield _ALLOW_ORIGIN, origin
    yield b"access-control-allow-methods", ", ".join(methods).encode()
    yield b"access-control-max-age", _MAX_AGE
    yield b"vary", b"Origin, Access-Control-Request-Headers"
    if names := b", ".join(_requested(scope)):
        yield b"access-control-allow-headers", names


def _requested(scope: Scope) -> Iterator[bytes]:
    """The names of headers that a page wants to send, in lower case: any, but for those that are no page's business.

    SDKs add names with every release, so a fixed list would keep them out; ``*`` would not cover ``authorization``.
    """
    asked = b",".join(header_values(scope, _HEADERS))
    if len(asked) <= PREFLIGHT_BYTES:
        for name in asked.lower().split(b",")[:PREFLIGHT_NAMES]:
            if _TOKEN.fullmatch(name := name.strip(b" \t")) and name not in _FORBIDDEN:
                yield name


def _is_own(origin: bytes, scope: Scope) -> bool:
    """Whether a page came from where the request went.  The scheme is left out: a proxy may have ended TLS."""
    scheme, found, place = origin.lower().partition(b"://")
    hosts = header_values(scope, b"host")
    return bool(found and scheme) and len(hosts) == 1 and _bare(place) == _bare(hosts[0].lower())


def _bare(place: bytes) -> bytes:
    """A host without the ports that stand for http and https."""
    return place.removesuffix(b":80").removesuffix(b":443")


_NAMES: Final = ("identity", "pk", "display_name", "username")
"""Attributes that may name a user, of Starlette's and Django's."""


async def host_user(scope: Scope) -> str:
    """The name of the user that the host has authenticated; empty where there is none.

    Raises:
        Exception: The host's own, where a lazy user cannot be loaded, or where the function that it gave `mount` fails.
    """
    state = scope.get("state")
    left = state if isinstance(state, Mapping) else {}
    if ASK in left:
        return await _told(left[ASK])
    principal = left.get("principal")
    if isinstance(principal, str) and principal:
        return principal
    for user in (scope.get("user"), principal, left.get("user")):
        if name := await _settled(user) if _lazy(user) else _name(user):
            return name
    return ""


async def _told(ask: Callable[[], Any]) -> str:
    """The name of whom *ask* gives, which may be awaited.

    Raises:
        TypeError: That is nobody who could have signed in.
    """
    who = ask()
    if not _lazy(who) and isawaitable(who):
        who = await who
    if _lazy(who):  # first: to look at what it is would load it here, in the event loop
        return await _settled(who)
    if who is None or isinstance(who, str):
        return who or ""
    if _attribute(who, "is_authenticated") is None:
        raise TypeError(f"mount(principal=…) gave {type(who).__name__}; give a user's name, a user, or None")
    return _name(who)


def _name(user: Any) -> str:
    """Name of an authenticated user; empty for any other."""
    if _attribute(user, "is_authenticated") is not True:
        return ""
    values = (_attribute(user, name) for name in _NAMES)
    return next((str(value) for value in values if value is not None and value != ""), "user")


def _attribute(user: Any, name: str) -> Any:
    try:
        return getattr(user, name, None)
    except NotImplementedError:  # Starlette's BaseUser declares what its subclasses need not have
        return None


def _lazy(user: Any) -> bool:
    """Whether *user* is one of Django's that may have to ask a database who it is."""
    functional = sys.modules.get("django.utils.functional")
    return functional is not None and isinstance(user, functional.LazyObject)


async def _settled(user: Any) -> str:
    """As `_name`, where Django allows a database to be asked: never in the thread of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # trio, on which Django has no rule about threads
        return await anyio.to_thread.run_sync(_asked, user)
    return await sync_to_async(_asked)(user)


def _asked(user: Any) -> str:
    """As `_name`."""
    with fresh_connections():
        return _name(user)


_ANONYMOUS = "anonymous"
_AUTHORIZATION = b"authorization"


@frozen
class Identified:
    """Whom a request is from."""

    principal: str
    """A short text without secrets: ``key:`` and the key's name, or eight digits of its hash where it has none,
    ``host:`` and the host's name for its user or client, or ``anonymous``."""

    client: Client


@frozen
class Authenticator:
    """Identifies clients: by the keys of the settings, and by what the host knows."""

    _settings: Settings
    _cross_origin: CrossOrigin = field(factory=CrossOrigin)
    _names: tuple[bytes, ...] = (_AUTHORIZATION, b"x-api-key")
    """Headers in which clients show a key."""

    _parameters: tuple[str, ...] = ()
    """Parameters of the query in which they do."""

    _find: Find | None = None
    """Asks the host's own table; ``None`` where it has none."""

    _clocks: Clocks = Clocks()  # noqa: RUF009 - a frozen value
    _table: ClientTable | None = field(init=False, repr=False)
    _reminded: dict[str, float] = field(init=False, factory=dict, repr=False)
    """Principal to the day on which the log had its end last."""

    _keys: Mapping[str, Identified] = field(init=False, repr=False)
    """By hash, those of the settings."""

    clients: Mapping[str, Client] = field(init=False, repr=False)
    """Those that have keys in the settings, by the names of their keys."""

    _anyone: Client = field(init=False, repr=False)
    """A client of whom nothing is known but who it is."""

    def __attrs_post_init__(self) -> None:
        settings, keys = self._settings.client, dict[str, Identified]()
        anyone = Client(name=_ANONYMOUS, limits=self._settings.quotas)
        for key in settings.api_keys:
            known = hash_of(key.encode())
            keys[known] = Identified(f"{KEY}{known.rpartition(':')[2][:8]}", anyone)
        unnamed = {each.principal for each in keys.values()}
        named = self._settings.keys
        clients = clients_of(named, self._settings.groups, self._settings.quotas)
        for name, client in clients.items():
            if named[name].hash in keys:
                raise ConfigError(
                    f"keys.{name}.hash: is the hash of another key, too; remove one of them", code="keys.hash"
                )
            if f"{KEY}{name}" in unnamed:
                raise ConfigError(
                    f"keys.{name}: a key of client.api_keys has this name, by eight digits of its hash, and each could "
                    "read what the other has stored; choose another name",
                    code="keys.name",
                )
            keys[named[name].hash] = Identified(f"{KEY}{name}", client)
        if not (keys or settings.allow_anonymous or settings.trust_host or self._find):
            raise ConfigError(NO_CLIENT, code="no_client_auth")
        object.__setattr__(self, "_keys", keys)
        object.__setattr__(self, "clients", clients)
        object.__setattr__(self, "_anyone", anyone)
        object.__setattr__(self, "_table", None if self._find is None else self._new_table(self._find))

    def _new_table(self, find: Find) -> ClientTable:
        settings = self._settings
        completed = partial(limited_by, usual=settings.quotas, groups=settings.groups)
        return ClientTable(find, completed, settings.client.keys_ttl, settings.client.keys_timeout, self._clocks.steady)

    async def identify(self, scope: Scope) -> Identified:
        """The client: the host's user, where the host is trusted and has one, or else that of the key.

        Raises:
            Unauthorized: There is no known key; as `KeyExpired`, it is not good any more.
            KeysUnavailable: The host cannot say whose it is.
            ForeignOrigin: A page of another site may have sent it in the name of the host's user.
            UnsupportedMediaType: The same.
        """
        peer = str((scope.get("client") or ("",))[0])
        if scope["type"] == "websocket":  # browsers send no preflight for it, and let any page read the answers
            self._cross_origin.require_same_site(scope)
        if self._settings.client.trust_host and (name := await self._host_user(scope)):
            keyed = await self._of_keys(self._presented(scope), peer)
            if keyed is None:
                self._cross_origin.require_same_site(scope)
            return self._good(await self._user(name, peer) or keyed, "user's access")
        if self._settings.client.allow_anonymous and not self._has_keys:
            return Identified(_ANONYMOUS, self._anyone)
        presented = self._presented(scope)
        found = await self._of_keys(presented, peer) if self._has_keys else None
        if found is not None:
            return self._good(found, "API key")
        raise Unauthorized(self._refusal(presented), code="invalid_api_key")

    async def _host_user(self, scope: Scope) -> str:
        """As of `host_user`, within the time that the host has to say who shows what.

        Raises:
            KeysUnavailable: It takes longer.
        """
        seconds = self._settings.client.keys_timeout
        with anyio.move_on_after(seconds):
            return await host_user(scope)
        _log.error("the host did not say within %g s who is signed in (client.keys_timeout)", seconds)
        raise KeysUnavailable(
            "the application that this gateway is part of does not say who is signed in; try again later",
            code="keys.timeout",
            retry_after=1.0,
        )

    @property
    def is_failing(self) -> bool:
        """Whether the host could not say whose a key is when it was asked last."""
        return self._table is not None and self._table.is_failing

    @property
    def _has_keys(self) -> bool:
        return bool(self._keys) or self._table is not None

    async def _user(self, name: str, peer: str) -> Identified | None:
        """The host's user of that *name*; ``None`` where the host's table does not have it."""
        if self._table is None:
            return Identified(f"{HOST}{name}", self._anyone)
        client = await self._table.client(Presented(user=name), peer)
        return None if client is None else Identified(f"{HOST}{client.name}", client)

    async def _of_keys(self, presented: list[bytes], peer: str) -> Identified | None:
        """The client of one of the keys *presented*; those of the settings come first."""
        found = self._match(presented)
        if found is not None or self._table is None:
            return found
        for key in dict.fromkeys(key for key in presented if len(key) <= KEY_CHARACTERS):
            client = await self._table.client(Presented(key=key.decode(errors="replace")), peer)
            if client is not None:
                return Identified(f"{HOST}{client.name}", client)
        return None

    def _good(self, found: Identified | None, what: str) -> Identified:
        """*found*.

        Raises:
            KeyExpired: It has expired, or is switched off.
            Unauthorized: It is nobody: the host has signed in a user that its table does not have.
        """
        if found is None:
            raise Unauthorized(
                "the user who is signed in at the application that the gateway is part of may not use the gateway",
                code="unknown_user",
            )
        if found.client.disabled:
            raise KeyExpired(f"this {what} is disabled; ask for another one", "disabled_api_key", found.principal)
        left = found.client.expires_at - self._clocks.wall()
        if left <= 0:
            raise KeyExpired(f"this {what} has expired; ask for a new one", "expired_api_key", found.principal)
        if left <= SOON:
            self._remind(found.principal, left)
        return found

    def _remind(self, principal: str, left: float) -> None:
        """Log that a client's access ends in *left* seconds: once a day, as long as it is used."""
        today = self._clocks.wall() // DAY
        if self._reminded.get(principal) != today:
            for old in [name for name, day in self._reminded.items() if day != today]:
                self._reminded.pop(old, None)
            self._reminded[principal] = today
            _log.warning("%s expires in %d days, and is used", principal, ceil(left / DAY))

    def _refusal(self, presented: list[bytes]) -> str:
        """Why a request that shows the keys *presented* is let in by none of them."""
        if not self._has_keys and presented:
            return "this key is none that the application knows which the gateway is part of; ask its operator for one"
        if not self._has_keys:
            return "no user is signed in at the application that the gateway is part of; sign in there"
        if presented:
            return "this API key is none of the gateway's; ask its operator for one: keys of services do not open it"
        names = [name.decode() for name in self._names if name != _AUTHORIZATION]
        ways = " or ".join(("Authorization: Bearer KEY", *(f"{name}: KEY" for name in names)))
        return f"the request shows no API key; send one key of the gateway's, as {ways}"

    def _presented(self, scope: Scope) -> list[bytes]:
        """The keys that a request shows."""
        return [*_in_headers(scope, self._names), *_in_query(scope, self._parameters)]

    def _match(self, presented: list[bytes]) -> Identified | None:
        """The client of a key of the settings, by its hash: nobody can choose a key whose hash is nearly another's, so
        the time that it takes to look shows nothing."""
        offers = (hash_of(key) for key in presented if len(key) <= KEY_CHARACTERS)
        return next((self._keys[offer] for offer in offers if offer in self._keys), None)


def _in_query(scope: Scope, names: Iterable[str]) -> Iterator[bytes]:
    """The keys that a request shows in its query; where one of *names* occurs twice, that shows none."""
    query = query_values(scope) if names and scope.get("query_string") else {}
    for name in names:
        if len(values := query.get(name, [])) == 1:
            yield values[0].encode(errors="replace")


def _in_headers(scope: Scope, names: Iterable[bytes]) -> list[bytes]:
    """The keys that a request shows in headers of these *names*; where one of them occurs twice, it shows none."""
    offers = []
    for name in names:
        values = header_values(scope, name)
        if len(values) > 1:
            return []
        for key in values:
            if name == _AUTHORIZATION:
                scheme, _, token = key.partition(b" ")
                key = token if scheme.lower() == b"bearer" else b""
            if key:
                offers.append(key.strip())
    return offers
