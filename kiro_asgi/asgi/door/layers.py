"""What stands around the operations: each layer takes some requests itself, and hands all others on to the next.

A layer is a function that makes one application of another.  It returns what the next one returns, an awaitable, and
does not wait for it: no layer costs a request a coroutine more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from kiro_asgi.asgi.door.auth import CrossOrigin
from kiro_asgi.asgi.protocol import AnyASGIApp, Listener, Receive, Scope, Send
from kiro_asgi.asgi.routing import Routes

Answers = Callable[[Scope, Receive, Send], Awaitable[object]]
"""An application for scopes of one type; what it returns is nobody's."""

Layer = Callable[[Answers], Answers]


class Pages(Protocol):
    """Pages for people beside the APIs, such as the inspector's."""

    def contains(self, scope: Scope) -> bool:
        """Whether the request is for one of them."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it."""
        ...

    def close(self) -> None:
        """End the streams to viewers: the gateway is being stopped."""
        ...


def layered(innermost: Answers, layers: Sequence[Layer]) -> Answers:
    """*innermost* with *layers* around it, of which the first sees a request first."""
    for layer in reversed(layers):
        innermost = layer(innermost)
    return innermost


def with_pages(pages: Pages) -> Layer:
    """Requests for *pages* are theirs, before the host's application: they are part of this one."""

    def layer(inner: Answers) -> Answers:
        def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[object]:
            if pages.contains(scope):
                return pages(scope, Listener(receive), send)
            return inner(scope, receive, send)

        return answer

    return layer


def with_host(host: AnyASGIApp, routes: Routes) -> Layer:
    """Whatever is not at one of *routes* is the *host*'s, as if this were its middleware."""

    def layer(inner: Answers) -> Answers:
        def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[object]:
            return (inner if routes.contains(scope) else host)(scope, receive, send)

        return answer

    return layer


def with_cross_origin(cross_origin: CrossOrigin, routes: Routes) -> Layer:
    """Browsers are told what pages of other origins may do, in answers to preflights and in headers of all others."""

    def layer(inner: Answers) -> Answers:
        def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[object]:
            if cross_origin.is_preflight(scope):
                return cross_origin.answer(scope, routes.methods(scope), send)
            return inner(scope, receive, cross_origin.readable(scope, send))

        return answer

    return layer
