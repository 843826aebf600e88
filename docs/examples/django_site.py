"""A Django site with the gateway below ``/llm``."""

from __future__ import annotations

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from kiro_asgi import create_app, mount

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="only for this example")


def front_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("The site itself.")


urlpatterns = [path("", front_page)]

application = mount(get_asgi_application(), "/llm", create_app())
