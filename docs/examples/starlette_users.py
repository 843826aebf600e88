"""A Starlette site whose gateway is for those whom `AuthenticationMiddleware` knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from kiro_asgi import create_app

USERS = {"token-of-ada": "ada", "token-of-bob": "bob"}  # a database in a real site


class Tokens(AuthenticationBackend):
    """Users by the token that an official client sends as its key."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        token = conn.headers.get("x-api-key") or conn.headers.get("authorization", "").removeprefix("Bearer ")
        name = USERS.get(token)
        return (AuthCredentials(["authenticated"]), SimpleUser(name)) if name else None


gateway = create_app()  # KIRO_ASGI__CLIENT__TRUST_HOST=true


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    yield
    await gateway.aclose()


application = Starlette(
    routes=[Mount("/llm", gateway)],
    middleware=[Middleware(AuthenticationMiddleware, backend=Tokens())],
    lifespan=lifespan,
)
