"""Settings for ``manage.py runserver``, which serves ASGI only where daphne comes first."""

from __future__ import annotations

from mysite.settings import *  # noqa: F403
from mysite.settings import INSTALLED_APPS as APPS

DEBUG = True
INSTALLED_APPS = ["daphne", *APPS]
