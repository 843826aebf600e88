"""``python -m tests.attack.again serve …``: the command, with a middleware in front of the gateway that reads each body
and then gives it again and again, as one does that keeps it for a log."""

from __future__ import annotations

import sys
from typing import Any

from kiro_asgi.cli import main
from kiro_asgi.cli.signals import Reloadable


def _read_again(app: Any) -> Any:
    async def serve(self: Any, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(self, scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)

        async def again() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        await app(self, scope, again, send)

    return serve


if __name__ == "__main__":
    Reloadable.__call__ = _read_again(Reloadable.__call__)
    sys.exit(main())
