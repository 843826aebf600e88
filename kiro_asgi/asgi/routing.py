"""Which path means what; and what the path is, when the application is mounted below a prefix."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import MappingProxyType

from attrs import frozen

from kiro_asgi.asgi.typing import Scope
from kiro_asgi.errors import MethodNotAllowed, RouteNotFound

__all__ = ["ROUTES", "Operation", "Route", "find_route", "is_ours", "local_paths"]


class Operation(Enum):
    """What the application can do."""

    CHAT = "openai_chat"
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
    """The rest of the path, for ``MODEL``: a model name, which may hold slashes."""


ROUTES = MappingProxyType(
    {
        "/v1/chat/completions": ("POST", Operation.CHAT),
        "/v1/messages": ("POST", Operation.MESSAGES),
        "/v1/messages/count_tokens": ("POST", Operation.COUNT_TOKENS),
        "/v1/models": ("GET", Operation.MODELS),
        "/health": ("GET", Operation.HEALTH),
    }
)
"""Path to the only method it takes, and its operation."""

_MODEL_PREFIX = "/v1/models/"


def local_paths(scope: Scope) -> Iterator[str]:
    """The path below the mount point, best guess first.

    ASGI says that ``path`` includes ``root_path``; some hosts strip it.  The prefix is taken off only where it ends
    at a segment boundary, so ``/llmx`` is never below ``/llm``.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    if root and path == root:
        yield "/"
    elif root and path.startswith(root + "/"):
        yield path[len(root) :]
    yield path


def find_route(scope: Scope) -> Route:
    """What the request asks for.

    Raises:
        RouteNotFound: No such path.
        MethodNotAllowed: The path exists, the method does not.
    """
    for path in local_paths(scope):
        method, route = _lookup(path)
        if route is None:
            continue
        if scope["method"] != method:
            raise MethodNotAllowed(f"{path} takes {method} only", allow=(method,), code="method_not_allowed")
        return route
    raise RouteNotFound("there is nothing at this path", code="route_not_found")


def is_ours(scope: Scope) -> bool:
    """Whether there is anything at the request's path, whatever the method."""
    return any(_lookup(path)[1] is not None for path in local_paths(scope))


def _lookup(path: str) -> tuple[str, Route | None]:
    if path in ROUTES:
        method, operation = ROUTES[path]
        return method, Route(operation)
    if path.startswith(_MODEL_PREFIX) and len(path) > len(_MODEL_PREFIX):
        return "GET", Route(Operation.MODEL, path[len(_MODEL_PREFIX) :])
    return "", None
