"""A Django project whose lazy users come to the gateway, asked in this process: ``python -m …django_users asyncio``."""

from __future__ import annotations

import json
import os
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import django
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse

from kiro_asgi import Settings, create_app
from kiro_asgi.asgi.protocol import ASGIApp, Receive, Scope, Send
from tests.asgi.driver import Exchange, http_scope

DATABASE = Path("site.sqlite3").absolute()

settings.configure(
    SECRET_KEY="only for this test",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(DATABASE)}},
    USE_TZ=True,
)
django.setup()


def with_django_user(app: ASGIApp) -> ASGIApp:
    """Hand on the user of Django's own session, as lazy as Django's middlewares make it."""
    from django.contrib.auth.middleware import AuthenticationMiddleware
    from django.contrib.sessions.middleware import SessionMiddleware

    def respond(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        request = ASGIRequest(scope, BytesIO())
        SessionMiddleware(respond).process_request(request)
        AuthenticationMiddleware(respond).process_request(request)
        await app({**scope, "user": request.user}, receive, send)

    return guarded


def signed_in() -> str:
    """The key of a session of a new user."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore
    from django.core.management import call_command
    from django.db import connections

    call_command("migrate", verbosity=0)
    user, session = User.objects.create_user("ada"), SessionStore()
    session[SESSION_KEY], session[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session.create()
    connections.close_all()
    return str(session.session_key)


def open_database_files() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(str(DATABASE))
        except FileNotFoundError:  # the one that listed the folder
            continue
    return found


async def main() -> dict[str, Any]:
    key = await anyio.to_thread.run_sync(signed_in)
    state = {"engine": "memory"}  # decided, so nobody is told why a response is missing
    app = create_app(
        Settings.from_mapping({"client": {"trust_host": True}, "kiro": {"api_key": "ksk_test"}, "state": state})
    )
    statuses = []
    for cookie in (f"sessionid={key}", "sessionid=made-up", ""):
        scope = http_scope("GET", "/v1/responses/resp_none", [("cookie", cookie)])
        statuses.append((await Exchange(scope).run(with_django_user(app))).status)
    await app.aclose()
    return {"statuses": statuses, "open": open_database_files()}


if __name__ == "__main__":
    print(json.dumps(anyio.run(main, backend=sys.argv[1])))
