"""The ASGI 3 interface under short names.

What we send is checked against asgiref's types where it is made (`kiro_asgi.asgi.http`).  What we are given is read as
plain dictionaries: the ``TypedDict`` unions demand keys that the standard makes optional, and an application that is
mounted in others must read what they really pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["ASGIApp", "AnyASGIApp", "Message", "Receive", "Scope", "Send"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

AnyASGIApp = Callable[[Any, Any, Any], Awaitable[None]]
"""An application of somebody else's: each framework has types of its own for scope, receive and send."""
