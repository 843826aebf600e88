"""What the project stores."""

from __future__ import annotations

from hashlib import sha256

from django.conf import settings
from django.db import models


class Token(models.Model):
    """A key that a user's programs show; only its digest is stored."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    digest = models.CharField(max_length=64, unique=True)

    @staticmethod
    def digest_of(token: str) -> str:
        return sha256(token.encode()).hexdigest()
