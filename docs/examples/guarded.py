"""The gateway behind an authentication of the host's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from kiro_asgi import Settings, create_app

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

BADGES = {b"badge-of-ada": "ada"}


def with_badge(app: App) -> App:
    """Name the user whose badge the request shows; everybody else stays a stranger, and the gateway says 401."""

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            badge = dict(scope["headers"]).get(b"x-badge", b"")
            scope = {**scope, "state": {**scope.get("state", {}), "principal": BADGES.get(badge, "")}}
        await app(scope, receive, send)

    return guarded


gateway = create_app(Settings.from_mapping({"client": {"trust_host": True}, "kiro": {"api_key": "ksk_..."}}))
application = with_badge(gateway)
