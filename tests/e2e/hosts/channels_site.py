"""A Django project with WebSockets of its own: `ProtocolTypeRouter` of Channels, wrapped as a whole."""

from __future__ import annotations

from channels.generic.websocket import WebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import re_path

from kiro_asgi import mount
from tests.e2e.hosts.django_site import gateway, site


class Echo(WebsocketConsumer):
    """Sends back what it receives."""

    def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.send(text_data, bytes_data)


router = ProtocolTypeRouter({"http": site, "websocket": URLRouter([re_path("^echo$", Echo.as_asgi())])})
everything = mount(router, "/llm", gateway)
