"""A Sanic site with the gateway below ``/llm``."""

from __future__ import annotations

from sanic import HTTPResponse, Request, Sanic, text

from kiro_asgi import create_app, mount

app = Sanic("site")


@app.get("/")
async def front_page(request: Request) -> HTTPResponse:
    return text("The site itself.")


application = mount(app, "/llm", create_app())
