"""The handshake of a WebSocket, which is a request over HTTP until it is accepted or refused.

ASGI closes what is not accepted with 403.  A server that has the extension can answer with any status, with headers and
a body, and that is what clients tell "use HTTP" and "your key is wrong" apart by.

Source: https://asgi.readthedocs.io/en/latest/extensions.html#websocket-denial-response
"""

from __future__ import annotations

from typing import Final

from kiro_asgi.asgi.protocol import Message, Scope, Send

__all__ = ["handshake_send"]

_DENIAL: Final = "websocket.http.response"


def handshake_send(scope: Scope, send: Send) -> Send:
    """*send* of a WebSocket for who answers its handshake as a request over HTTP; messages of its own go as they are.

    Without the extension a refusal is 403 whatever its status, and has no body.
    """
    denies = _DENIAL in (scope.get("extensions") or ())

    async def tell(message: Message) -> None:
        kind = message["type"]
        if not kind.startswith("http."):
            await send(message)
        elif denies:
            await send({**message, "type": f"websocket.{kind}"})
        elif kind == "http.response.start":
            await send({"type": "websocket.close", "code": 1000, "reason": ""})

    return tell
