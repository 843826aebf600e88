"""A Starlette site with the gateway below ``/llm``, by Starlette's own mount."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from kiro_asgi import create_app

gateway = create_app()


async def front_page(request: Request) -> PlainTextResponse:
    return PlainTextResponse("The site itself.")


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    yield
    await gateway.aclose()  # Starlette tells what is mounted nothing of its lifespan


application = Starlette(routes=[Route("/", front_page), Mount("/llm", gateway)], lifespan=lifespan)
