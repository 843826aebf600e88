"""The user whom the host's middlewares have established: ``scope["user"]``, or in ``scope["state"]``.

A user counts who says so: an object whose ``is_authenticated`` is true.  A text says nothing, whoever put it there,
except as ``scope["state"]["principal"]``, which exists for this gateway.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any, Final

import anyio.to_thread
from asgiref.sync import sync_to_async

from kiro_asgi.asgi.typing import Scope

__all__ = ["host_user"]

_NAMES: Final = ("identity", "pk", "display_name", "username")
"""Attributes that may name a user, of Starlette's and Django's."""


async def host_user(scope: Scope) -> str:
    """The name of the user that the host has authenticated; empty for nobody.

    Raises:
        Exception: The host's own, where a lazy user cannot be found out.
    """
    state = scope.get("state")
    left = state if isinstance(state, Mapping) else {}
    principal = left.get("principal")
    if isinstance(principal, str) and principal:
        return principal
    for user in (scope.get("user"), principal, left.get("user")):
        if name := await _settled(user) if _lazy(user) else _name(user):
            return name
    return ""


def _name(user: Any) -> str:
    """What an authenticated user is called; empty for any other."""
    if _attribute(user, "is_authenticated") is not True:
        return ""
    values = (_attribute(user, name) for name in _NAMES)
    return next((str(value) for value in values if value is not None and value != ""), "user")


def _attribute(user: Any, name: str) -> Any:
    try:
        return getattr(user, name, None)
    except NotImplementedError:  # Starlette's BaseUser declares what its subclasses need not have
        return None


def _lazy(user: Any) -> bool:
    """Whether *user* is one of Django's that may have to ask a database who it is."""
    functional = sys.modules.get("django.utils.functional")
    return functional is not None and isinstance(user, functional.LazyObject)


async def _settled(user: Any) -> str:
    """As `_name`, where Django allows a database to be asked: never in the thread of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # trio, on which Django has no rule about threads
        return await anyio.to_thread.run_sync(_asked, user)
    return await sync_to_async(_asked)(user)


def _asked(user: Any) -> str:
    """As `_name`; connections that are too old are closed before and after, as Django does around each request."""
    close_old = sys.modules["django.db"].close_old_connections
    close_old()
    try:
        return _name(user)
    finally:
        close_old()
