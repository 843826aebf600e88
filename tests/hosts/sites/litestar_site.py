"""Litestar, with a mount of its own; below it, the same inside its compression, its CORS and a middleware."""

from __future__ import annotations

from typing import Any

from litestar import Litestar, MediaType, asgi, get
from litestar.config.compression import CompressionConfig
from litestar.config.cors import CORSConfig
from litestar.exceptions import NotFoundException
from litestar.types import Receive, Scope, Send

from kiro_asgi import create_app
from tests.hosts.sites.layers import Timing

gateway = create_app()


@get("/", media_type=MediaType.TEXT)
async def page() -> str:
    return "the site itself"


@asgi("/llm", is_mount=True, copy_scope=True)
async def llm(scope: Scope, receive: Receive, send: Send) -> None:
    if not scope["path"].startswith("/"):
        raise NotFoundException  # Litestar's mount takes /llmx as well
    await gateway(scope, receive, send)


def site(**options: Any) -> Litestar:
    return Litestar(route_handlers=[page, llm], on_shutdown=[gateway.aclose], openapi_config=None, **options)


application = site()
layered = site(
    compression_config=CompressionConfig(backend="gzip", minimum_size=1),
    cors_config=CORSConfig(allow_origins=["https://app.example"]),
    middleware=[Timing],
)
