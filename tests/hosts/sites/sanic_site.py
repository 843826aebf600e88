"""Sanic as an ASGI application, below `mount`; a server of Sanic's own speaks no ASGI."""

from __future__ import annotations

from typing import Any

from sanic import Sanic
from sanic.response import text

from kiro_asgi import create_app, mount

site = Sanic("site")


@site.get("/")
async def page(request: Any) -> Any:
    return text("the site itself")


application = mount(site, "/llm", create_app())
