"""A Litestar site with the gateway below ``/llm``, by Litestar's own mount, so that its middlewares stand around it."""

from __future__ import annotations

from litestar import Litestar, MediaType, asgi, get
from litestar.exceptions import NotFoundException
from litestar.types import Receive, Scope, Send

from kiro_asgi import create_app

gateway = create_app()


@get("/", media_type=MediaType.TEXT)
async def front_page() -> str:
    return "The site itself."


@asgi("/llm", is_mount=True, copy_scope=True)
async def llm(scope: Scope, receive: Receive, send: Send) -> None:
    if not scope["path"].startswith("/"):
        raise NotFoundException  # /llmx, which the mount takes as well
    await gateway(scope, receive, send)


application = Litestar([front_page, llm], on_shutdown=[gateway.aclose])
