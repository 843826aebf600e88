"""Settings of the project."""

from __future__ import annotations

import os

SECRET_KEY = os.environ.get("SECRET_KEY", "only for this example")
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "keysite.urls"
ASGI_APPLICATION = "keysite.asgi.application"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "keysite",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
PROCESSORS = ["auth.context_processors.auth", "messages.context_processors.messages"]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                *(f"django.contrib.{name}" for name in PROCESSORS),
            ]
        },
    }
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
USE_TZ = True

KIRO_ASGI = {
    "client": {"trust_host": True, "keys_ttl": 5.0},
    "kiro": {"api_key": os.environ.get("KIRO_API_KEY", "ksk_...")},
    "prices": {"credits": ["kiro/*=0.04"]},
}
