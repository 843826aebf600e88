"""Starlette, with a mount of its own; below it, the same inside four middlewares."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from kiro_asgi import create_app
from tests.hosts.sites.layers import LAYERS


async def page(request: Any) -> PlainTextResponse:
    return PlainTextResponse("the site itself")


routes = [Route("/", page), Mount("/llm", create_app())]

application = Starlette(routes=routes)
layered = Starlette(routes=routes, middleware=LAYERS)
