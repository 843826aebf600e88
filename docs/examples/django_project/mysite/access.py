"""Who may use the gateway: whoever is signed in, and whoever shows a token of ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from io import BytesIO
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpResponse

from mysite.models import Token

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


def with_session_user(app: App) -> App:
    """Name the user of Django's session; who that is is looked up when the gateway asks, not before."""
    sessions, users = SessionMiddleware(HttpResponse), AuthenticationMiddleware(HttpResponse)

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            request = ASGIRequest(scope, BytesIO())
            sessions.process_request(request)
            users.process_request(request)
            scope = {**scope, "user": request.user}
        await app(scope, receive, send)

    return guarded


def with_token_user(app: App) -> App:
    """Name the owner of the token that an official client sends as its key."""

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        token = headers.get(b"x-api-key") or headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        owner = await sync_to_async(owner_of)(token.decode("latin-1")) if token else None
        await app({**scope, "user": owner} if owner else scope, receive, send)

    return guarded


def owner_of(token: str) -> AbstractBaseUser | None:
    """Look the token up.  This is no request of Django's, so nobody else closes connections that are too old."""
    close_old_connections()
    try:
        tokens = Token.objects.select_related("owner").filter(owner__is_active=True)
        known = tokens.filter(digest=Token.digest_of(token)).first()
        return known.owner if known else None
    finally:
        close_old_connections()
