"""A FastAPI site with the gateway below ``/llm``, by FastAPI's own mount."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from kiro_asgi import create_app

gateway = create_app()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    await gateway.aclose()  # FastAPI tells what is mounted nothing of its lifespan


application = FastAPI(lifespan=lifespan)


@application.get("/", response_class=PlainTextResponse)
async def front_page() -> str:
    return "The site itself."


application.mount("/llm", gateway)
