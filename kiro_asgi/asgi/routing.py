"""Which path means what; and what the path is, when the application is mounted below a prefix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import islice
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kiro_asgi.asgi.typing import Scope
from kiro_asgi.errors import MethodNotAllowed, RouteNotFound

__all__ = ["PATTERNS", "ROUTES", "Operation", "Route", "find_route", "intended", "is_ours", "local_paths", "methods"]


class Operation(Enum):
    """What the application can do."""

    CHAT = "openai_chat"
    RESPONSES = "openai_responses"
    RESPONSE = "response"
    DELETE_RESPONSE = "delete_response"
    CANCEL_RESPONSE = "cancel_response"
    INPUT_ITEMS = "input_items"
    INPUT_TOKENS = "input_tokens"
    MESSAGES = "anthropic"
    COUNT_TOKENS = "count_tokens"
    MODELS = "models"
    MODEL = "model"
    HEALTH = "health"


@frozen
class Route:
    """A matched path."""

    operation: Operation
    argument: str = ""
    """What the path names: a model, or a response."""


ROUTES = MappingProxyType(
    {
        "/v1/chat/completions": ("POST", Operation.CHAT),
        "/v1/responses": ("POST", Operation.RESPONSES),
        "/v1/responses/input_tokens": ("POST", Operation.INPUT_TOKENS),
        "/v1/messages": ("POST", Operation.MESSAGES),
        "/v1/messages/count_tokens": ("POST", Operation.COUNT_TOKENS),
        "/v1/models": ("GET", Operation.MODELS),
        "/health": ("GET", Operation.HEALTH),
    }
)
"""Path to the only method it takes, and its operation."""

PATTERNS: Final = (
    ("/v1/models/{model}", MappingProxyType({"GET": Operation.MODEL})),
    ("/v1/responses/{id}", MappingProxyType({"GET": Operation.RESPONSE, "DELETE": Operation.DELETE_RESPONSE})),
    ("/v1/responses/{id}/cancel", MappingProxyType({"POST": Operation.CANCEL_RESPONSE})),
    ("/v1/responses/{id}/input_items", MappingProxyType({"GET": Operation.INPUT_ITEMS})),
)
"""Path that names something, to the operations by method."""

_NAMED: Final = MappingProxyType({"{model}": "(.+)", "{id}": "(resp_[^/]+)"})
"""What may stand there: the name of a model may hold slashes; what is not called like a response of ours is no path."""

_PATTERNS: Final = tuple(
    (re.compile(re.sub(r"\{\w+\}", lambda name: _NAMED[name[0]], template), re.DOTALL), operations)
    for template, operations in PATTERNS
)


_METHODS: Final = tuple(
    dict.fromkeys([*(method for method, _ in ROUTES.values()), *(name for _, named in PATTERNS for name in named)])
)

_MAX_ECHO: Final = 80
"""Characters of a path that are repeated."""


_SHOWN: Final = 200
"""Characters of a path that are told back."""

_MOUNTS: Final = 16
"""Prefixes within each other that are looked at."""

_DOUBLED: Final = re.compile(r"^(?:/v1)+/")

_OLD: Final = MappingProxyType({"/v1/completions": "/v1/chat/completions", "/v1/complete": "/v1/messages"})
"""Paths of APIs that these ones have replaced."""


def local_paths(scope: Scope) -> Iterator[str]:
    """The path below the mount point, best guess first.

    ASGI says that ``path`` includes ``root_path``.  Some hosts strip it, some strip only what was theirs before they
    added a prefix of their own, and Channels tells in ``path_remaining`` what is below.  A prefix is taken off only
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


def _tails(root: str) -> Iterator[str]:
    """*root*, then the same without its first segment, and so on."""
    while root:
        yield root
        after = root.find("/", 1)
        root = root[after:] if after > 0 else ""


def find_route(scope: Scope) -> Route:
    """What the request asks for.

    Raises:
        RouteNotFound: No such path.
        MethodNotAllowed: The path exists, the method does not.
    """
    for path in local_paths(scope):
        routes = _lookup(path)
        if not routes:
            continue
        if scope["method"] not in routes:
            allow = tuple(routes)
            raise MethodNotAllowed(
                f"{path[:_MAX_ECHO]} takes {' or '.join(allow)} only", allow=allow, code="method_not_allowed"
            )
        return routes[scope["method"]]
    path = next(local_paths(scope))
    raise RouteNotFound(f"there is nothing at {scope['method']} {path[:_SHOWN]}{_hint(path)}", code="route_not_found")


def intended(scope: Scope) -> str:
    """The request's path, or the one that it probably means where there is nothing at it."""
    path = next(local_paths(scope))
    return path if is_ours(scope) else next(_alternatives(path), path)


def _hint(path: str) -> str:
    """What somebody ought to be told who asks for *path*."""
    meant = next(_alternatives(path), "")
    if not meant:
        return "; the APIs are /v1/chat/completions, /v1/responses and /v1/messages"
    if path.startswith("/v1/v1/"):
        return f"; take one /v1 from the client's base URL, so that it asks for {meant}"
    return f"; did you mean {meant}?"


def _alternatives(path: str) -> Iterator[str]:
    """Paths of ours that *path* may be meant for."""
    tidy = _DOUBLED.sub("/v1/", re.sub("/{2,}", "/", path).rstrip("/"))
    tidy = tidy if tidy.startswith("/v1/") else f"/v1{tidy}"
    for candidate in (tidy, _OLD.get(tidy, "")):
        if candidate != path and _lookup(candidate):
            yield candidate


def is_ours(scope: Scope) -> bool:
    """Whether there is anything at the request's path, whatever the method."""
    return any(_lookup(path) for path in local_paths(scope))


def methods(scope: Scope) -> tuple[str, ...]:
    """The methods that the request's path takes; those of all paths where it is none."""
    return next((tuple(routes) for path in local_paths(scope) if (routes := _lookup(path))), _METHODS)


def _lookup(path: str) -> Mapping[str, Route]:
    """Methods to what they mean; none where there is no such path.  Litestar ends every path with a slash."""
    path = path.removesuffix("/")
    if path in ROUTES:
        method, operation = ROUTES[path]
        return {method: Route(operation)}
    for pattern, operations in _PATTERNS:
        if found := pattern.fullmatch(path):
            return {method: Route(operation, found[1]) for method, operation in operations.items()}
    return {}
