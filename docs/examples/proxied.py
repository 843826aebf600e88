"""The gateway behind a proxy that signs users in, and names them in a header."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from kiro_asgi import create_app

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

HEADER = b"x-forwarded-user"
PROXIES = {"127.0.0.1", "::1"}
"""Addresses that nobody but the proxy connects from."""


def with_proxy_user(app: App) -> App:
    """Name the user of the proxy's header, where the proxy has sent the request and named one user."""

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            address, _ = scope.get("client") or ("", 0)
            names = [value for name, value in scope["headers"] if name == HEADER]
            user = names[0].decode("latin-1") if len(names) == 1 and address in PROXIES else ""
            scope = {**scope, "state": {**scope.get("state", {}), "principal": user}}
        await app(scope, receive, send)

    return guarded


gateway = create_app()  # KIRO_ASGI__CLIENT__TRUST_HOST=true
application = with_proxy_user(gateway)
