"""Pages of the site itself."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path


async def front_page(request: HttpRequest) -> HttpResponse:
    user = await request.auser()
    return HttpResponse(f"Hello, {user.get_username() or 'stranger'}.")


urlpatterns = [path("", front_page)]
