"""A Quart app with routes and hooks of its own and the gateway below ``/llm``."""

from __future__ import annotations

from quart import Quart, request

from kiro_asgi import create_app, mount

site = Quart(__name__)
started: list[str] = []


@site.before_serving
async def begin() -> None:
    started.append("begun")


@site.after_serving
async def end() -> None:
    print("after_serving has run", flush=True)


@site.get("/hooks")
async def hooks() -> str:
    return ",".join(started)


@site.get("/", defaults={"rest": ""})
@site.get("/<path:rest>")
async def page(rest: str) -> str:
    return f"quart {request.path}"


everything = mount(site, "/llm", create_app())
