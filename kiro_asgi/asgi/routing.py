"""Endpoints by path and method, also where the application is mounted below a prefix."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain, islice
from typing import Final, TypeVar
from urllib.parse import unquote

from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.protocol import Scope, header_values
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import (
    CountingDialect,
    DescribedDialect,
    Dialect,
    EmbeddingDialect,
    ListingDialect,
    OperatingDialect,
    RecallingDialect,
)
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.manifest import (
    COUNT,
    EMBED,
    MODEL,
    MODELS,
    WEBSOCKET,
    DialectManifest,
    DialectOptions,
    Endpoint,
    RoutedDialect,
    served,
)
from kiro_asgi.dialects.passthrough import TransparentDialect
from kiro_asgi.dialects.unserved import why_no_path
from kiro_asgi.errors import ConfigError, KiroAsgiError, MethodNotAllowed, NoWebSocket, RouteNotFound
from kiro_asgi.interface import lacks, offers

Name = TypeVar("Name", bytes, str)

GREETINGS: Final = (
    Endpoint("HEAD", "/", "greeting"),
    Endpoint("HEAD", "/api/hello", "greeting"),
)
"""Paths where Claude Code looks whether anybody is there, before its first request.

They are no more than that: every other method finds nothing there, and of an application that is composed with ours
they stay its own.
"""

PROBES: Final = (
    Endpoint("GET", "/health", "health"),
    Endpoint("HEAD", "/health", "health"),
    Endpoint("GET", "/ready", "ready"),
    Endpoint("HEAD", "/ready", "ready"),
    *GREETINGS,
)
"""Paths that need no key, and that observers do not see."""

GATEWAY: Final = (
    Endpoint("GET", "/v1/models", "models"),
    Endpoint("GET", "/v1/models/{model:path}", "model"),
    *PROBES,
)
"""Paths that belong to no single client API."""

DESCRIPTION: Final = Endpoint("GET", "/openapi.json", "description")
"""Another one, which the settings switch on."""


@frozen
class RouteMatch:
    """The endpoint that a request asks for."""

    endpoint: Endpoint
    argument: str = ""
    """Name in the path: of a model, a response, a conversation, or a conversation and an item in it."""


@frozen
class _Named:
    """Paths that name something, as one template has them."""

    _before: str
    _between: str
    """Text between two names; empty where there is one."""

    _after: str
    _fixed: int
    """Characters of the path before the segment that names it."""

    _slashes: bool
    """Whether a slash may be part of the name."""

    @classmethod
    def read(cls, template: str) -> _Named:
        before, _, rest = template.partition("{")
        name, _, rest = rest.partition("}")
        between, _, second = rest.partition("{")
        after = second.partition("}")[2] if second else between
        return cls(before, between if second else "", after, before.rfind("/") + 1, name.endswith(":path"))

    def find(self, path: str) -> str:
        """Name in *path*, of two both with what stands between them; empty where *path* does not match."""
        end = len(path) - len(self._after)
        if not (path.startswith(self._before) and path.endswith(self._after) and len(self._before) < end):
            return ""
        named = path[len(self._before) : end]
        if self._between:
            first, _, second = named.partition(self._between)
            return path[self._fixed : end] if first and second and "/" not in first + second else ""
        return "" if "/" in named and not self._slashes else path[self._fixed : end]


_SHOWN_IN_ALLOW: Final = 80
_SHOWN: Final = 200
"""Characters of a path that a message repeats, where it exists and where it does not."""

_ALIKE: Final = 0.9
"""Least likeness of a path to one that it was probably meant to be, of 1."""

_NAME: Final = re.compile(r"\{[^{}]*+\}")
_SOME_NAME: Final = "a name"

_MOUNTS: Final = 16
"""Most nested prefixes that are tried."""

_DOUBLED: Final = re.compile(r"^(?:/v1)+/")


def local_paths(scope: Scope) -> Iterator[str]:
    """The path below the mount point, best guess first.

    ASGI says that ``path`` includes ``root_path``.  Some hosts strip it, some strip only what was theirs before they
    added a prefix of their own, and Channels puts the rest into ``path_remaining``.  A prefix is taken off only
    where it ends at a segment boundary, so ``/llmx`` is never below ``/llm``.
    """
    path: str = scope["path"]
    remaining = scope.get("path_remaining")
    if isinstance(remaining, str):
        yield "/" + remaining.removeprefix("/")
    for root in islice(_tails((scope.get("root_path") or "").rstrip("/")), _MOUNTS):
        if path == root or path.startswith(root + "/"):
            yield path[len(root) :] or "/"
    yield path


def root_of(scope: Scope) -> str:
    """The prefix below which the host has mounted the gateway; empty for none."""
    remaining = scope.get("path_remaining")
    if isinstance(remaining, str):
        return str(scope["path"]).removesuffix("/" + remaining.removeprefix("/"))
    root = str(scope.get("root_path") or "").rstrip("/")
    taken = _taken(scope, root)
    return root if root.endswith(taken) else root + taken


def _taken(scope: Scope, root: str) -> str:
    """What a host has taken from the beginning of ``path`` without adding it to ``root_path``, as Litestar does: the
    path as it was sent still has it.  Below *root*; empty for nothing."""
    sent = _below(root, unquote(scope.get("raw_path") or b"")).rstrip("/")
    path = _below(root, scope["path"]).rstrip("/")
    return sent[: -len(path)] if path and sent.endswith(path) else ""


def _is_sent_with_slash(scope: Scope) -> bool:
    """Whether a slash at the end of the path is the client's: Litestar ends every path with one."""
    sent = scope.get("raw_path")
    return not sent or bytes(sent).endswith(b"/")


def _below(root: str, path: str) -> str:
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


def _tails(root: str) -> Iterator[str]:
    """*root*, then the same without its first segment, and so on."""
    while root:
        yield root
        after = root.find("/", 1)
        root = root[after:] if after > 0 else ""


@define
class Routes:
    """Every path of one application.

    Raises:
        ConfigError: Two client APIs have the same name or path, or one has no path.
    """

    _apis: tuple[DialectManifest, ...]
    """Errors at paths that no API has are those of the first."""

    own: tuple[Endpoint, ...] = GATEWAY
    """Paths that belong to none of them."""

    _exact: dict[str, dict[str, RouteMatch]] = field(init=False, factory=dict)
    """Path to method to match."""

    _named: dict[_Named, dict[str, Endpoint]] = field(init=False, factory=dict)
    _owners: dict[Endpoint, DialectManifest] = field(init=False, factory=dict)
    """The API of each endpoint."""

    def __attrs_post_init__(self) -> None:
        if twice := [name for name, times in Counter(api.name for api in self._apis).items() if times > 1]:
            raise ConfigError(f"dialects: two client APIs are named {twice[0]}; rename one", code="dialects")
        if bare := [api.name for api in self._apis if not api.endpoints]:
            raise ConfigError(f"dialects: {bare[0]} has no endpoint; give it one to answer at", code="dialects")
        for api in self._apis:
            for endpoint in api.routes:
                self._add(endpoint)
                self._owners[endpoint] = api
        for endpoint in self.own:
            if endpoint not in GREETINGS:
                self._add(endpoint)
        self._require_all_met()

    def _require_all_met(self) -> None:
        for endpoint in self._owners:
            found = self._lookup(_NAME.sub(_SOME_NAME, endpoint.path)).get(endpoint.method)
            if found is None or found.endpoint is not endpoint:
                why = "no slash at the end counts" if found is None else f"{found.endpoint.path} is before it"
                message = f"dialects: no request would meet {endpoint.path}, as {why}; choose another path"
                raise ConfigError(message, code="dialects")

    def _add(self, endpoint: Endpoint) -> None:
        method, path = endpoint.method, endpoint.path
        named = self._named.setdefault(_Named.read(path), {}) if "{" in path else {}
        exact = {} if "{" in path else self._exact.setdefault(path, {})
        if method in named or method in exact:
            raise ConfigError(f"dialects: {method} {path} is taken; choose another path", code="dialects")
        named[method], exact[method] = endpoint, RouteMatch(endpoint)

    def find(self, scope: Scope) -> RouteMatch:
        """Find the endpoint that the request asks for.

        Raises:
            RouteNotFound: No such path.
            MethodNotAllowed: The path exists, the method does not.
            NoWebSocket: The path exists, for HTTP only.
        """
        for path in local_paths(scope):
            found = self._lookup(path) or _greeted(scope, path)
            if not found:
                continue
            if scope["method"] not in found:
                shown = _prefix(scope) + path[:_SHOWN_IN_ALLOW]
                raise _not_taken(scope["method"], shown, tuple(_methods(found)))
            return self._own(scope, found[scope["method"]])
        path, prefix = next(local_paths(scope)), _prefix(scope)
        shown = path.removesuffix("" if _is_sent_with_slash(scope) else "/")[:_SHOWN]
        words = f"there is nothing at {scope['method']} {prefix}{shown}{self._hint(path, prefix)}"
        raise RouteNotFound(words, code="route_not_found")

    def _own(self, scope: Scope, match: RouteMatch) -> RouteMatch:
        """Replace *match*, if several APIs share it, by the endpoint of the API that the request is marked as."""
        if match.endpoint in self._owners:
            return match
        wanted = match.endpoint.operation
        own = (each for api in self._marked(scope) for each in api.routes if each.operation == wanted)
        return evolve(match, endpoint=next(own, match.endpoint))

    def contains(self, scope: Scope) -> bool:
        """Whether there is anything at the request's path, whatever the method."""
        return any(self._lookup(path) for path in local_paths(scope))

    def is_probe(self, scope: Scope) -> bool:
        """Whether the request is a probe: a balancer or supervisor sends one every few seconds."""
        found = ((self._lookup(path) or _greeted(scope, path)).get(scope["method"]) for path in local_paths(scope))
        return any(match is not None and match.endpoint in PROBES for match in found)

    def methods(self, scope: Scope) -> tuple[str, ...]:
        """The methods that the request's path takes; those of all paths where it is none."""
        for path in local_paths(scope):
            if found := self._lookup(path):
                return tuple(_methods(found))
        return tuple(_methods(dict.fromkeys(chain(*self._exact.values(), *self._named.values()))))

    def api(self, scope: Scope) -> DialectManifest:
        """The API whose errors the client reads: that of the path, or of the path that it probably means, or one whose
        clients send a header of its own."""
        found = next(filter(None, map(self._lookup, local_paths(scope))), {}).get(scope["method"])
        if found is not None and found.endpoint in self._owners:
            return self._owners[found.endpoint]
        path = next(local_paths(scope))
        if not self.contains(scope):
            path = next(self._alternatives(path), path)
        above = [api for api in self._apis if path == api.root or path.startswith(f"{api.root}/")]
        owners = sorted(above, key=lambda api: len(api.root), reverse=True)  # the nearest: roots may be nested
        return next(chain(owners, self._marked(scope), self._apis))

    def _marked(self, scope: Scope) -> Iterator[DialectManifest]:
        """The APIs that a header of the request marks it as."""
        return (api for api in self._apis if any(header_values(scope, mark) for mark in api.marks))

    @property
    def key_headers(self) -> tuple[bytes, ...]:
        """Names of the headers in which clients of any API show a key."""
        return _union(api.key_headers for api in self._apis)

    @property
    def key_parameters(self) -> tuple[str, ...]:
        """Names of the parameters in which clients of any API show a key."""
        return _union(api.key_parameters for api in self._apis)

    @property
    def request_id_headers(self) -> tuple[bytes, ...]:
        """Names of the response headers in which clients of any API look for the id of a request."""
        return _union(api.request_id_headers for api in self._apis)

    @property
    def retry_count_headers(self) -> tuple[bytes, ...]:
        """Names of the request headers in which clients of any API count their tries."""
        return _union(api.retry_count_headers for api in self._apis)

    @property
    def exposed_headers(self) -> tuple[bytes, ...]:
        """Names of the response headers that clients of any API read."""
        each = ((*api.exposed_headers, *api.quota_headers.names) for api in self._apis)
        return _union((self.request_id_headers, *each))

    def _hint(self, path: str, prefix: str) -> str:
        """End of the message for an unknown *path* below *prefix*: the path that was probably intended, or the APIs
        there are, or the reason why there is none."""
        meant = next(self._alternatives(path), "")
        if not meant:
            if why := why_no_path(_tidy(path)):
                return f": {why}"
            *paths, last = (prefix + api.root for api in self._apis)
            return f"; the APIs are {', '.join(paths)} and {last}" if paths else f"; the API is {last}"
        if path.startswith("/v1/v1/"):
            return f"; take one /v1 from the client's base URL, so that it asks for {prefix}{meant}"
        return f"; did you mean {prefix}{meant}?"

    def _alternatives(self, path: str) -> Iterator[str]:
        """Known paths that *path* was probably meant to be."""
        tidy = _tidy(path)
        for candidate in (tidy, *(api.root for api in self._apis if tidy in api.replaces)):
            if candidate != path and self._lookup(candidate):
                yield candidate
        if len(tidy) <= _SHOWN and not why_no_path(tidy):
            yield from self._near(tidy)

    def _near(self, tidy: str) -> Iterator[str]:
        """Known paths that end *tidy*, that it begins, or that are written nearly alike."""
        yield from (path for path in self._exact if path.startswith("/v1/") and tidy.endswith(path))
        if tidy.count("/") > 1:
            yield from (path for path in self._exact if path.startswith(f"{tidy}/"))
        yield from get_close_matches(tidy, self._exact, 1, _ALIKE)

    def _lookup(self, path: str) -> Mapping[str, RouteMatch]:
        """Method to match; empty where there is no such path.  Litestar ends every path with a slash."""
        path = path.removesuffix("/")
        if path in self._exact:
            return self._exact[path]
        for template, methods in self._named.items():
            if name := template.find(path):
                return {method: RouteMatch(endpoint, name) for method, endpoint in methods.items()}
        return {}


def _tidy(path: str) -> str:
    """*path* with one ``/v1`` before it, single slashes, and none at its end."""
    tidy = _DOUBLED.sub("/v1/", re.sub("/{2,}", "/", path).rstrip("/"))
    return tidy if tidy.startswith("/v1/") else f"/v1{tidy}"


def _greeted(scope: Scope, path: str) -> Mapping[str, RouteMatch]:
    """Method to match, where the request is one of `GREETINGS`."""
    if scope["method"] != "HEAD":
        return {}
    return {it.method: RouteMatch(it) for it in GREETINGS if it.path.rstrip("/") == path.rstrip("/")}


def _prefix(scope: Scope) -> str:
    """The prefix as messages show it: clients know no other paths.  A front may take it from anybody's header."""
    return root_of(scope)[:_SHOWN]


def _methods(found: Iterable[str]) -> Iterator[str]:
    """The methods of HTTP in *found*."""
    return (method for method in found if method != WEBSOCKET)


def _not_taken(method: str, path: str, allow: tuple[str, ...]) -> KiroAsgiError:
    if method == WEBSOCKET:
        return NoWebSocket(f"{path} takes no WebSocket; use HTTP", code="websocket_not_supported")
    return MethodNotAllowed(f"{path} takes {' or '.join(allow)} only", allow=allow, code="method_not_allowed")


def _union(names: Iterable[tuple[Name, ...]]) -> tuple[Name, ...]:
    """All of *names*, each once, in their order."""
    return tuple(dict.fromkeys(chain.from_iterable(names)))


def new_dialects(settings: Settings) -> dict[DialectManifest, Dialect]:
    """The client APIs that are served: those that come with the package, then those that *settings* have a table for.

    Raises:
        ConfigError: A setting of one of them cannot work, or what its manifest makes is no dialect.
    """
    usual = DialectOptions(emit_code_references=settings.emit_code_references, usage_chunk=settings.stream.usage_chunk)
    made = {api: api.make(usual) for api in BUILTIN}
    return made | {api: _made(api, evolve(usual, settings=own)) for api, own in served(settings)}


_INTERFACES: Final[Mapping[str, tuple[type, str]]] = {
    COUNT: (CountingDialect, ""),
    EMBED: (EmbeddingDialect, ""),
    MODELS: (ListingDialect, "render_models"),
    MODEL: (ListingDialect, "render_model"),
}
"""Operation to what a dialect must have for it, where that is more than `Dialect`: an interface, or a method of one."""


def _made(api: DialectManifest, options: DialectOptions) -> Dialect:
    """The dialect of an API from outside.

    Raises:
        ConfigError: As for `new_dialects`.
    """
    dialect = api.make(options)
    place = f"{api.name}: the client API's make gave a {type(dialect).__name__}"
    more = (_INTERFACES[it.operation] for it in api.endpoints if it.operation in _INTERFACES)
    for interface, method in dict.fromkeys(((Dialect, ""), *more)):
        if lack := next(lacks(dialect, interface, (method,) if method else ()), ""):
            message = f"{place}, which is no {interface.__name__}: {lack}; see kiro_asgi.dialects.{interface.__name__}"
            raise ConfigError(message, code="config.manifest")
    if dialect.name != api.name:
        raise ConfigError(f"{place} whose name is {dialect.name!r:.60}; it must be the API's", code="config.manifest")
    for trait, interface in (("transparent", TransparentDialect), ("recalls", RecallingDialect)):
        if getattr(dialect.traits, trait) and (lack := next(lacks(dialect, interface), "")):
            raise ConfigError(f"{place} whose traits.{trait} is true: {lack}", code="config.manifest")
    for interface in (RoutedDialect, OperatingDialect, DescribedDialect):
        if offers(dialect, interface) and (lack := next(lacks(dialect, interface), "")):
            raise ConfigError(f"{place}: {lack}; see kiro_asgi.dialects.{interface.__name__}", code="config.manifest")
    return dialect
