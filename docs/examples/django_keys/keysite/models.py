"""The table of keys."""

from __future__ import annotations

from secrets import token_urlsafe
from typing import Any

from django.conf import settings
from django.db import models

from kiro_asgi import Allowance, Client, Group, Presented


class Team(models.Model):
    """People who share a budget."""

    name = models.SlugField(unique=True)
    cost_per_month = models.DecimalField(max_digits=10, decimal_places=2, default=0, help_text="0: no limit")

    def __str__(self) -> str:
        return self.name


class Key(models.Model):
    """What one program, or one user of the site, may take."""

    name = models.SlugField(unique=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    hash = models.CharField(max_length=71, unique=True, editable=False)
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.PROTECT)
    allowed = models.TextField(
        "models", blank=True, help_text="One upstream/model a line; * stands for any text. Empty: all."
    )
    requests_per_minute = models.PositiveIntegerField(default=0, help_text="0: no limit")
    cost_per_month = models.DecimalField(max_digits=10, decimal_places=2, default=0, help_text="0: no limit")
    expires = models.DateTimeField(null=True, blank=True)
    disabled = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.name

    def renew(self) -> str:
        """Make the key itself, which is kept nowhere."""
        key = f"site_{token_urlsafe(32)}"
        self.hash = Presented(key=key).hash
        return key

    def client(self) -> Client:
        """As the gateway knows its owner."""
        team = self.team and Group(name=self.team.name, limits=Allowance(cost_per_month=self.team.cost_per_month))
        return Client(
            name=self.name,
            limits=Allowance(requests_per_minute=self.requests_per_minute, cost_per_month=self.cost_per_month),
            group=team,
            models=self.allowed.split(),
            expires=self.expires,
            disabled=self.disabled,
        )


def found(shown: Presented) -> Any:
    """The row for a key, or for a user who is signed in: the first that is theirs."""
    rows = Key.objects.select_related("team").filter(owner__is_active=True)
    rows = rows.filter(hash=shown.hash) if shown.key else rows.filter(owner_id=shown.user).order_by("pk")
    return rows.first()
