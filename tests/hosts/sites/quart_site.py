"""Quart, below `mount`; and the same inside a middleware around the application."""

from __future__ import annotations

from quart import Quart

from kiro_asgi import create_app, mount
from tests.hosts.sites.layers import Timing

site = Quart(__name__)


@site.get("/")
async def page() -> str:
    return "the site itself"


application = mount(site, "/llm", create_app())
layered = Timing(application)
