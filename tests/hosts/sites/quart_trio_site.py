"""Quart on trio, below `mount`."""

from __future__ import annotations

from quart_trio import QuartTrio

from kiro_asgi import create_app, mount

site = QuartTrio(__name__)


@site.get("/")
async def page() -> str:
    return "the site itself"


application = mount(site, "/llm", create_app())
