"""Keys in the admin site: a new one is shown once."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages

from keysite.models import Key, Team

admin.site.register(Team)


@admin.register(Key)
class KeyAdmin(admin.ModelAdmin):
    list_display = ("name", "owner", "team", "expires", "disabled")
    list_filter = ("team", "disabled")
    actions = ("renew",)

    def save_model(self, request: Any, obj: Key, form: Any, change: bool) -> None:
        if not change:
            self.message_user(request, f"The key of {obj.name}, shown only now: {obj.renew()}", messages.WARNING)
        super().save_model(request, obj, form, change)

    @admin.action(description="Make another key in the place of each")
    def renew(self, request: Any, chosen: Any) -> None:
        for key in chosen:
            self.message_user(request, f"The key of {key.name}, shown only now: {key.renew()}", messages.WARNING)
            key.save()
