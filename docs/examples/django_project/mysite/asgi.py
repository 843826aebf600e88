"""What a server is given: the site, and the gateway below ``/llm``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
site = get_asgi_application()  # from here on, models can be imported

from kiro_asgi import Settings, create_app, mount  # noqa: E402
from mysite.access import App, with_session_user, with_token_user  # noqa: E402


def with_gateway(options: Mapping[str, Any]) -> App:
    gateway = create_app(Settings.from_mapping(options))
    return mount(site, "/llm", with_session_user(with_token_user(gateway)))


application = with_gateway(settings.KIRO_ASGI)
