"""Putting the gateway below a prefix of somebody else's application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kiro_asgi.asgi.app import App
from kiro_asgi.asgi.lifespan import host_lifespan
from kiro_asgi.asgi.routing import local_paths
from kiro_asgi.asgi.typing import AnyASGIApp, ASGIApp, Receive, Scope, Send
from kiro_asgi.asgi.wrapped import wrapped_in

__all__ = ["mount"]

Closing = Callable[[], Awaitable[None]]
"""Releases what an application holds."""


def mount(host_app: AnyASGIApp, prefix: str, gateway: AnyASGIApp, *, aclose: Closing | None = None) -> ASGIApp:
    """Serve *gateway* below *prefix*, and *host_app* everywhere else.

    The prefix matches at segment boundaries only: ``/llmx`` is the host's.  The gateway sees what ASGI asks for:
    ``root_path`` longer by the prefix, and ``path`` with all of it, also where a server or a proxy took its own away.

    Lifespan goes to the host.  When the host has shut down, or has no lifespan (Django has none), the gateway's own
    resources are released.

    Args:
        host_app: Any ASGI 3 application.
        prefix: A path such as ``/llm``; not the root.
        gateway: A `kiro_asgi.App`, or any middleware around one.
        aclose: Releases the gateway's resources.  Without it the gateway's own ``aclose`` does, or that of every
            `kiro_asgi.App` that is found within it: in attributes, collections, closures, partial functions.

    Raises:
        ValueError: *prefix* is not a path, or is the root; or nothing tells how the gateway is closed.
    """
    prefix = "/" + prefix.strip("/")
    if prefix == "/":
        raise ValueError("the prefix must not be the root")
    close = _closer(gateway) if aclose is None else aclose

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await host_lifespan(host_app, close, scope, receive, send)
        elif (below := _below(prefix, scope)) is None:
            await host_app(scope, receive, send)
        else:
            root = (scope.get("root_path") or "").rstrip("/") + prefix
            await gateway({**scope, "root_path": root, "path": root + below}, receive, send)

    return mounted


def _below(prefix: str, scope: Scope) -> str | None:
    """What of the path is below the prefix: empty, or from a slash on; ``None`` where the path is the host's."""
    for path in local_paths(scope):
        if path == prefix or path.startswith(prefix + "/"):
            return path[len(prefix) :]
    return None


def _closer(gateway: AnyASGIApp) -> Closing:
    """What releases the resources of *gateway*.

    Raises:
        ValueError: Nobody can tell.
    """
    own: Closing | None = getattr(gateway, "aclose", None)
    if own is not None:
        return own
    apps = wrapped_in(gateway, App)
    if not apps:
        raise ValueError("no kiro_asgi.App was found in the gateway: say what closes it, mount(…, aclose=app.aclose)")

    async def close() -> None:
        for app in apps:
            await app.aclose()

    return close
