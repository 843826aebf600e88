"""No framework: an ASGI application of a few lines."""

from __future__ import annotations

from typing import Any

from kiro_asgi import create_app, mount


async def site(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    known = scope["path"] == "/"
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200 if known else 404, "headers": headers})
    await send({"type": "http.response.body", "body": b"the site itself" if known else b"no such page"})


application = mount(site, "/llm", create_app())
