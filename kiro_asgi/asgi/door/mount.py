"""Mounting the gateway below a prefix of a host's application, and finding it there to close it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final, TypeVar

from kiro_asgi.asgi.door.app import App
from kiro_asgi.asgi.door.handed_in import MOUNTED
from kiro_asgi.asgi.principals import ASK
from kiro_asgi.asgi.protocol import AnyASGIApp, ASGIApp, Receive, Scope, Send, host_lifespan
from kiro_asgi.asgi.routing import local_paths

T = TypeVar("T")

_MAX_OBJECTS: Final = 10_000
"""Most objects that are looked at, since a host may hold any number."""

_OPAQUE: Final = (type, ModuleType, str, bytes, bytearray, int, float, complex, type(None))


def wrapped_in(outer: Any, kind: type[T]) -> tuple[T, ...]:
    """Every *kind* that *outer* holds, or is, nearest first.

    Attributes, what a function encloses or wraps, and members of collections are followed; no property is evaluated.
    """
    found, seen, ahead = [], {id(outer)}, deque([outer])
    while ahead and len(seen) <= _MAX_OBJECTS:
        holder = ahead.popleft()
        if isinstance(holder, kind):
            found.append(holder)
            continue
        for part in _parts(holder):
            if id(part) not in seen and not isinstance(part, _OPAQUE):
                seen.add(id(part))
                ahead.append(part)
    return tuple(found)


def _parts(holder: Any) -> Iterator[Any]:
    """Objects that *holder* holds directly."""
    if isinstance(holder, Mapping):
        yield from tuple(holder.values())
    elif isinstance(holder, list | tuple | set | frozenset | deque):
        yield from tuple(holder)
    elif isinstance(holder, MethodType):
        yield from (holder.__self__, holder.__func__)
    elif isinstance(holder, partial):
        yield from (holder.func, *holder.args, *holder.keywords.values())
    else:
        if isinstance(holder, FunctionType):
            yield from _enclosed(holder)
        yield from _attributes(holder)


def _enclosed(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue
    yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _attributes(holder: Any) -> Iterator[Any]:
    """Those of the object itself, ``__wrapped__`` among them, and those in slots."""
    own = getattr(holder, "__dict__", None)
    if isinstance(own, dict):
        yield from tuple(own.values())
    for cls in type(holder).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            slot = cls.__dict__.get(_mangled(cls, name))
            if isinstance(slot, MemberDescriptorType):
                try:
                    yield slot.__get__(holder, cls)
                except AttributeError:  # not set
                    continue


def _mangled(cls: type, name: str) -> str:
    private = name.startswith("__") and not name.endswith("__")
    return f"_{cls.__name__.lstrip('_')}{name}" if private else name


Closing = Callable[[], Awaitable[None]]
"""Releases what an application holds."""


Who = Callable[[Scope], object]
"""Gives the user of a scope: a name, a user of the host's, or an awaitable of one; empty or ``None`` for nobody."""


def mount(
    host_app: AnyASGIApp,
    prefix: str,
    gateway: AnyASGIApp,
    *,
    principal: Who | None = None,
    aclose: Closing | None = None,
) -> ASGIApp:
    """Serve *gateway* below *prefix*, and *host_app* everywhere else.

    The prefix matches at segment boundaries only: ``/llmx`` is the host's.  The gateway sees what ASGI asks for:
    ``root_path`` longer by the prefix, and ``path`` with all of it, also where a server or a proxy took its own away.

    Lifespan goes to the host.  When the host has shut down, or has no lifespan (Django has none), the gateway's own
    resources are released.

    Args:
        host_app: Any ASGI 3 application.
        prefix: A path such as ``/llm``; not the root.
        gateway: A `kiro_asgi.App`, or any middleware around one.
        principal: Gives the user whom the host has signed in, for the scope of a request or of a WebSocket: a name, a
            user whose ``is_authenticated`` is ``True``, or an awaitable of one; ``None``, or an empty name, for nobody,
            who then needs a key.  It is called for each request that is not a probe.  The gateway's settings have
            ``client.trust_host``.
        aclose: Releases the gateway's resources.  Without it the gateway's own ``aclose`` does, or that of every
            `kiro_asgi.App` that is found within it: in attributes, collections, closures, partial functions.

    Raises:
        ValueError: One of the objects cannot be used; *prefix* is not text, or is the root; no way to close the gateway
            is found; or there is a *principal*, and the gateway does not trust its host.
    """
    _require_usable(host_app=host_app, gateway=gateway, principal=principal, aclose=aclose)
    if not isinstance(prefix, str):
        raise ValueError(f"mount: the prefix must be text such as '/llm', not {prefix!r:.60}")
    prefix = "/" + prefix.strip("/")
    if prefix == "/":
        raise ValueError("the prefix must not be the root")
    close = _closer(gateway) if aclose is None else aclose
    if principal is not None and not all(app.trusts_host for app in wrapped_in(gateway, App)):
        raise ValueError("mount(principal=…): the gateway does not trust its host; set client.trust_host = true")

    async def begin() -> None:
        for app in wrapped_in(gateway, App):
            await app.check_state()

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await host_lifespan(host_app, begin, close, scope, receive, send)
        elif (below := _below(prefix, scope)) is None:
            await host_app(scope, receive, send)
        else:
            root = (scope.get("root_path") or "").rstrip("/") + prefix
            named = scope if principal is None else _naming(principal, scope)
            await gateway({**named, "root_path": root, "path": root + below}, receive, send)

    return mounted


def _require_usable(**given: object) -> None:
    """Check what is handed in: a request would meet a mistake late, and the end of the host one in *aclose*.

    Raises:
        ValueError: One of the objects cannot be used.
    """
    for name, each in given.items():
        needed = each is not None or name in ("host_app", "gateway")
        if needed and (words := next(iter(MOUNTED[name](each)), "")):
            raise ValueError(f"mount: {name} {words}")


def _naming(principal: Who, scope: Scope) -> Scope:
    """*scope* with a function that asks *principal*: later, so that probes do not, and that the gateway answers, in the
    form of the client's API, where it fails."""
    return {**scope, "state": {**(scope.get("state") or {}), ASK: partial(principal, scope)}}


def _below(prefix: str, scope: Scope) -> str | None:
    """Part of the path below the prefix: empty, or from a slash on; ``None`` where the path is the host's."""
    for path in local_paths(scope):
        if path == prefix or path.startswith(prefix + "/"):
            return path[len(prefix) :]
    return None


def _closer(gateway: AnyASGIApp) -> Closing:
    """Find the function that releases the resources of *gateway*.

    Raises:
        ValueError: There is none.
    """
    own: Closing | None = getattr(gateway, "aclose", None)
    if own is not None:
        return own
    apps = wrapped_in(gateway, App)
    if not apps:
        raise ValueError(
            "no kiro_asgi.App was found in the gateway: pass the function that closes it, mount(…, aclose=app.aclose)"
        )

    async def close() -> None:
        for app in apps:
            await app.aclose()

    return close
