"""FastAPI, with a mount of its own; below it, the same inside four middlewares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from kiro_asgi import create_app
from tests.hosts.sites.layers import LAYERS


def site(middleware: Sequence[Any] = ()) -> FastAPI:
    app = FastAPI(middleware=middleware)

    @app.get("/", response_class=PlainTextResponse)
    async def page() -> str:
        return "the site itself"

    app.mount("/llm", create_app())
    return app


application = site()
layered = site(LAYERS)
