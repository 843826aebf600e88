"""A Quart site whose gateway is for those whom Quart-Auth knows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from quart import Quart, abort, request
from quart_auth import AuthUser, QuartAuth, login_required, login_user, logout_user
from werkzeug.http import parse_cookie

from kiro_asgi import create_app, mount

PASSWORDS = {"ada": "lovelace", "bob": "noyce"}  # a database of hashes in a real site

site = Quart(__name__)
site.secret_key = os.environ.get("SECRET_KEY", "only for this example")
site.config["QUART_AUTH_COOKIE_SECURE"] = "SECRET_KEY" in os.environ  # without TLS, for the example alone
auth = QuartAuth(site)


@site.post("/login")
async def login() -> str:
    form = await request.form
    if PASSWORDS.get(form["name"]) != form["password"]:
        abort(401)
    login_user(AuthUser(form["name"]))
    return "Welcome."


@site.post("/logout")
@login_required
async def logout() -> str:
    logout_user()
    return "Goodbye."


def user_of(scope: Mapping[str, Any]) -> str | None:
    """Name the user of the cookie that Quart-Auth has signed.  Over HTTP/2 cookies come in several headers."""
    cookies = b"; ".join(value for name, value in scope["headers"] if name == b"cookie")
    token = parse_cookie(cookies.decode("latin-1")).get(str(auth.cookie_name), "")
    return auth.load_token(token, site)


gateway = create_app()  # KIRO_ASGI__CLIENT__TRUST_HOST=true
application = mount(site, "/llm", gateway, principal=user_of)
