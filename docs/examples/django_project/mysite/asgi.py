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
from mysite.access import user_of  # noqa: E402


def with_gateway(options: Mapping[str, Any]) -> Any:
    gateway = create_app(Settings.from_mapping(options))
    return mount(site, "/llm", gateway, principal=user_of)


application = with_gateway(settings.KIRO_ASGI)
