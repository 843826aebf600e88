"""A streaming gateway as a raw ASGI application: the OpenAI and Anthropic APIs in front of Kiro and other services."""

from __future__ import annotations

from kiro_asgi._version import __version__
from kiro_asgi.asgi.app import App, create_app
from kiro_asgi.asgi.mount import mount
from kiro_asgi.config import Settings
from kiro_asgi.errors import ConfigError, KiroAsgiError, RequestError, UpstreamError

__all__ = [
    "App",
    "ConfigError",
    "KiroAsgiError",
    "RequestError",
    "Settings",
    "UpstreamError",
    "__version__",
    "create_app",
    "mount",
]
