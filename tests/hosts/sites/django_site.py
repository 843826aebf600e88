"""Django with sessions, a middleware of each kind and GZip, below `mount`; and all of it below a script name."""

from __future__ import annotations

import os
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse

SCRIPT_NAME = os.environ.get("SITE_SCRIPT_NAME")

settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="only for this test",
    INSTALLED_APPS=["django.contrib.sessions"],
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    FORCE_SCRIPT_NAME=SCRIPT_NAME,
    MIDDLEWARE=[
        "django.middleware.gzip.GZipMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        f"{__name__}.Synchronous",
        f"{__name__}.Asynchronous",
    ],
)


class Synchronous:
    """A middleware from before Django knew coroutines."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.session["visits"] = request.session.get("visits", 0) + 1
        return self.get_response(request)  # type: ignore[no-any-return]


class Asynchronous:
    """A middleware that awaits."""

    async_capable, sync_capable = True, False

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        response: HttpResponse = await self.get_response(request)
        response["x-awaited"] = "1"
        return response


def page(request: HttpRequest) -> HttpResponse:
    """Say where the site believes itself to be, and how often this session has come."""
    visits = request.session["visits"]
    return HttpResponse(f"the site itself at {reverse('page')}, visit {visits}", content_type="text/plain")


urlpatterns = [path("", page, name="page")]

from django.core.asgi import get_asgi_application  # noqa: E402 - needs the settings

from kiro_asgi import create_app, mount  # noqa: E402

site = get_asgi_application()
gateway = create_app()
application = mount(site, f"{SCRIPT_NAME or ''}/llm", gateway)
