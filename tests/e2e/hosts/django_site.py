"""A Django project with one page of its own and the gateway below ``/llm``; Django refuses all but HTTP."""

from __future__ import annotations

import os

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path

from kiro_asgi import Settings, create_app, mount
from tests.e2e.hosts.guards import session_required

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="only for this test", MIDDLEWARE=[])


async def page(request: HttpRequest, **_: str) -> HttpResponse:
    return HttpResponse(f"django {request.path}")


urlpatterns = [path("", page), re_path(r"^(?P<rest>.+)$", page)]

site = get_asgi_application()
gateway = create_app()
application = mount(site, "/llm", gateway)

trusting = create_app(
    Settings.from_mapping(
        {
            "client": {"trust_host": True},
            "kiro": {"endpoint": os.environ["KIRO_ASGI__KIRO__ENDPOINT"], "api_key": "ksk_test"},
        }
    )
)
by_user = mount(application, "/user", session_required(trusting, in_state=False))
everything = mount(by_user, "/state", session_required(trusting, in_state=True))
