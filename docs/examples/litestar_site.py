"""A Litestar site with the gateway below ``/llm``."""

from __future__ import annotations

from litestar import Litestar, MediaType, get

from kiro_asgi import create_app, mount


@get("/", media_type=MediaType.TEXT)
async def front_page() -> str:
    return "The site itself."


application = mount(Litestar([front_page]), "/llm", create_app())
