"""Who may use the gateway: whoever is signed in, and whoever shows a token of ours."""

from __future__ import annotations

from collections.abc import Mapping
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


async def user_of(scope: Mapping[str, Any]) -> AbstractBaseUser | None:
    """The owner of the token that an official client sends as its key, or else the user of Django's session."""
    headers = dict(scope["headers"])
    token = headers.get(b"x-api-key") or headers.get(b"authorization", b"").removeprefix(b"Bearer ")
    owner = await sync_to_async(owner_of)(token.decode("latin-1")) if token else None
    return owner or user_of_session(scope)


def user_of_session(scope: Mapping[str, Any]) -> Any:
    """A lazy user: the gateway looks in a thread who that is.  The handshake of a WebSocket is a ``GET``."""
    request = ASGIRequest({"method": "GET", **scope}, BytesIO())
    SessionMiddleware(HttpResponse).process_request(request)
    AuthenticationMiddleware(HttpResponse).process_request(request)
    return request.user


def owner_of(token: str) -> AbstractBaseUser | None:
    """Look the token up.  This is no request of Django's, so nobody else closes connections that are too old."""
    close_old_connections()
    try:
        tokens = Token.objects.select_related("owner").filter(owner__is_active=True)
        known = tokens.filter(digest=Token.digest_of(token)).first()
        return known.owner if known else None
    finally:
        close_old_connections()
