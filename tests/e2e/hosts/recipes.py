"""Every recipe of ``docs/how-to/authentication.rst`` below a prefix of its own; Ada and Bob are users of each."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import proxied
import quart_users
import starlette_users
from mysite import asgi, routing  # sets Django up, so nothing above needs a model

from kiro_asgi.asgi.protocol import Receive, Scope, Send

SITES = {
    "django": asgi.application,
    "channels": routing.application,
    "starlette": starlette_users.application,
    "quart": quart_users.application,
    "proxied": proxied.application,
}


def sign_up(name: str) -> None:
    """Make a user of the Django project with a token and a session."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.models import Session
    from django.utils.timezone import now
    from mysite.models import Token

    user = User.objects.create_user(name)
    Token.objects.create(owner=user, digest=Token.digest_of(f"token-of-{name}"))
    values = {
        SESSION_KEY: str(user.pk),
        HASH_SESSION_KEY: user.get_session_auth_hash(),
        BACKEND_SESSION_KEY: "django.contrib.auth.backends.ModelBackend",
    }
    Session.objects.save(f"session-of-{name}", values, now() + timedelta(hours=1))


def set_up() -> None:
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connections

    settings.SESSION_SAVE_EVERY_REQUEST = True  # so that Channels adds a cookie to what the gateway answers
    os.chdir(os.environ["RECIPES_ROOM"])  # where the project makes its database
    call_command("migrate", run_syncdb=True, verbosity=0)
    for name in ("ada", "bob"):
        sign_up(name)
    connections.close_all()


set_up()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Hand on to the site that the path begins with."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    name = scope["path"].split("/")[1]
    site: Any = SITES[name]
    await site({**scope, "root_path": f"/{name}"}, receive, send)
