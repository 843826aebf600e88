"""Authentication of a host's own, as an ASGI middleware around the gateway."""

from __future__ import annotations

from kiro_asgi.asgi.protocol import ASGIApp, Receive, Scope, Send

USERS = {b"session-of-ada": "ada"}


class User:
    """A user as a host's middleware leaves it in the scope."""

    is_authenticated = True

    def __init__(self, name: str) -> None:
        self.display_name = name


def session_required(app: ASGIApp, *, in_state: bool) -> ASGIApp:
    """Turn away requests without a session that we know; tell *app* who comes with the others."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        name = USERS.get(dict(scope["headers"]).get(b"x-session", b""))
        if name is None:
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"sign in first"})
        elif in_state:
            await app({**scope, "state": {**scope.get("state", {}), "principal": name}}, receive, send)
        else:
            await app({**scope, "user": User(name)}, receive, send)

    return guarded
