"""A Quart site with the gateway below ``/llm``."""

from __future__ import annotations

from quart import Quart

from kiro_asgi import create_app, mount

app = Quart(__name__)


@app.get("/")
async def front_page() -> str:
    return "The site itself."


application = mount(app, "/llm", create_app())
