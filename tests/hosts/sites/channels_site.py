"""Channels: the gateway is one of its routes, and learns from ``path_remaining`` what is below."""

from __future__ import annotations

from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import re_path

from tests.hosts.sites.django_site import gateway, site

application = ProtocolTypeRouter(
    {
        "http": URLRouter([re_path(r"^llm/", gateway), re_path(r"", site)]),
        "websocket": URLRouter([re_path(r"^llm/", gateway)]),
    }
)
