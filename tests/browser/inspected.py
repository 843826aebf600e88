"""A Django site, on loopback, whose staff may look at the inspector of the gateway below its prefix."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anyio
import django
import uvicorn
from attrs import frozen
from django.conf import settings
from django.contrib.auth import aget_user
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.core.asgi import get_asgi_application
from django.core.handlers.asgi import ASGIRequest
from django.urls import path

from kiro_asgi import App, Settings, create_app, mount, simulator
from kiro_asgi.inspector.site import Inspector
from tests.parts import part_of
from tests.tapes.recording import services

PREFIX: Final = "/tools/llm"
PASSWORD: Final = "correct horse"

_FORM: Final = '<title>Log in</title><form method="post">{% csrf_token %}{{ form }}<button>Log in</button></form>'


@frozen
class Site:
    """A running site."""

    url: str
    gateway: App

    @property
    def inspector(self) -> str:
        return f"{self.url}{PREFIX}/inspector/"


async def is_staff(scope: Any) -> bool:
    """Whether the session of the request's cookie is that of somebody of the staff."""
    request = ASGIRequest(scope, BytesIO())
    request.session = SessionStore(request.COOKIES.get("sessionid"))
    return (await aget_user(request)).is_staff


def _configure(folder: Path) -> None:
    from django.core.management import call_command

    settings.configure(
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="only for tests",
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": folder / "users.db"}},
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "OPTIONS": {"loaders": [("django.template.loaders.locmem.Loader", {"registration/login.html": _FORM})]},
            }
        ],
        LOGIN_REDIRECT_URL=f"{PREFIX}/inspector/",
    )
    django.setup()
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import User
    from django.contrib.auth.views import LoginView

    for name, staff in (("alice", True), ("bob", False)):
        User.objects.create_user(name, password=PASSWORD, is_staff=staff)
    urlpatterns.append(path("login/", LoginView.as_view()))


urlpatterns: list[Any] = []


@contextmanager
def inspected_site(folder: Path, **slices: Any) -> Iterator[Site]:
    """The site, until the end of the block; clients show the key ``k``."""
    _configure(folder)
    listener = socket.create_server(("127.0.0.1", 0))
    made: list[App] = []
    ready = threading.Event()

    async def serve() -> None:
        async with simulator.serve() as service:
            kiro = {"api_key": "ksk_test", "endpoint": service.url}
            retry = {"base": 0.2, "capacity_base": 0.2, "rate_base": 0.2, "attempts": 2, "quota_probe": 0.0}
            inspector = {
                "enabled": True,
                "trust_host": True,
                "content": "full",
                "calls": 20_000,
                "bytes": 2**30,
            }
            others = services(service)
            others["custom"]["away"] = {"endpoint": "http://127.0.0.1:1/v1"}
            routing = {"models": ["fallen=away/x>kiro/claude-sonnet-4.5"]}
            read = {"client": {"api_keys": ["k"]}, "kiro": kiro, "retry": retry, "inspector": inspector}
            read |= {"prices": {"models": ["claude-*=3/15"]}}
            read |= {**others, "routing": routing, **slices}
            made.append(create_app(Settings.from_mapping(read), may_inspect=is_staff))
            server.config.app = mount(get_asgi_application(), PREFIX, made[0])
            ready.set()
            await server.serve(sockets=[listener])
            await made[0].aclose()

    server = uvicorn.Server(uvicorn.Config("", log_level="error", lifespan="off"))
    thread = threading.Thread(target=anyio.run, args=(serve,), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield Site(f"http://127.0.0.1:{listener.getsockname()[1]}", made[0])
    finally:
        server.should_exit = server.force_exit = True
        thread.join(20)


def clear(site: Site) -> None:
    """Delete all calls."""
    part_of(site.gateway, Inspector).calls.delete("")


def ask(site: Site, content: Any, model: str = "claude-sonnet-4.5", agent: str = "test", **more: Any) -> str:
    """Ask a question, and read all of the answer; its id."""
    question = [{"role": "user", "content": content}]
    body = json.dumps({"model": model, "max_tokens": 1000, "stream": True, "messages": question, **more}).encode()
    headers = {"content-type": "application/json", "x-api-key": "k", "user-agent": agent}
    try:
        with urlopen(Request(f"{site.url}{PREFIX}/v1/messages", body, headers), timeout=60) as answer:
            answer.read()
            return str(answer.headers["request-id"])
    except HTTPError as error:
        error.close()
        return str(error.headers["request-id"])
