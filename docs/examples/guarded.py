"""The gateway behind an authentication of the host's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiro_asgi import Settings, create_app, mount

BADGES = {b"badge-of-ada": "ada"}


async def site(scope: Any, receive: Any, send: Any) -> None:
    """The host: another ASGI application."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body"})


def user_of(scope: Mapping[str, Any]) -> str:
    """Name the user whose badge the request shows; everybody else stays a stranger, and the gateway says 401."""
    return BADGES.get(dict(scope["headers"]).get(b"x-badge", b""), "")


gateway = create_app(Settings.from_mapping({"client": {"trust_host": True}, "kiro": {"api_key": "ksk_..."}}))
application = mount(site, "/llm", gateway, principal=user_of)
