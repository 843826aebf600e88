"""The same site with Channels: who is signed in is found by `AuthMiddlewareStack`, as for consumers."""

from __future__ import annotations

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.urls import re_path

from kiro_asgi import Settings, create_app
from mysite.asgi import site  # it names the settings, and makes models importable

gateway = create_app(Settings.from_mapping(settings.KIRO_ASGI))
below = re_path(r"^llm/", AuthMiddlewareStack(gateway))
application = ProtocolTypeRouter({"http": URLRouter([below, re_path(r"", site)]), "websocket": URLRouter([below])})
