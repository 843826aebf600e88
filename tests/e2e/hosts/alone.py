"""The gateway without a host, and around one."""

from __future__ import annotations

import os

from quart import Quart

from kiro_asgi import Settings, create_app

application = create_app()

inner = Quart(__name__)


@inner.get("/")
async def page() -> str:
    return "quart /"


around = create_app(Settings.from_env(os.environ), inner=inner)
