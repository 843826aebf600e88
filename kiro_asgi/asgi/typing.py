"""The ASGI 3 interface, as asgiref types it, under short names.

Messages and scopes are plain dictionaries here: asgiref's ``TypedDict`` unions demand keys that the standard makes
optional, and an application that is mounted in others must read what they really pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["ASGIApp", "Message", "Receive", "Scope", "Send"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
