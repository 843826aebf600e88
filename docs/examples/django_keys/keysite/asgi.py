"""What a server is given: the site, and the gateway below ``/llm``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "keysite.settings")
site = get_asgi_application()  # from here on, models can be imported

from django.contrib.auth.middleware import AuthenticationMiddleware  # noqa: E402
from django.contrib.sessions.middleware import SessionMiddleware  # noqa: E402
from django.core.handlers.asgi import ASGIRequest  # noqa: E402
from django.db import close_old_connections  # noqa: E402
from django.http import HttpResponse  # noqa: E402

from keysite.models import found  # noqa: E402
from kiro_asgi import Client, Presented, Settings, create_app, mount  # noqa: E402


async def client_of(shown: Presented) -> Client | None:
    """The client in the table, looked up where Django's own synchronous code runs."""
    return await sync_to_async(look_up)(shown)


def look_up(shown: Presented) -> Client | None:
    """This is no request of Django's, so nobody else closes connections that are too old."""
    close_old_connections()
    try:
        key = found(shown)
        return key.client() if key else None
    finally:
        close_old_connections()


def user_of(scope: Mapping[str, Any]) -> Any:
    """The user of Django's session, whom the gateway looks up in a thread."""
    request = ASGIRequest({"method": "GET", **scope}, BytesIO())
    SessionMiddleware(HttpResponse).process_request(request)
    AuthenticationMiddleware(HttpResponse).process_request(request)
    return request.user


def with_gateway(options: Mapping[str, Any]) -> Any:
    gateway = create_app(Settings.from_mapping(options), keys=client_of)
    return mount(site, "/llm", gateway, principal=user_of)


application = with_gateway(settings.KIRO_ASGI)
