"""Settings of the project; the gateway's are an entry like any other."""

from __future__ import annotations

import os

SECRET_KEY = os.environ.get("SECRET_KEY", "only for this example")
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "mysite.urls"
ASGI_APPLICATION = "mysite.asgi.application"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "mysite"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

KIRO_ASGI = {
    "client": {"trust_host": True},
    "kiro": {
        "api_key": os.environ.get("KIRO_API_KEY", "ksk_..."),
        "endpoint": os.environ.get("KIRO_ENDPOINT", ""),  # of the simulator; empty for the service
    },
}
