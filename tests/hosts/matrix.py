"""Hosts, servers, and which of them cannot be together: the table whose cells are tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

__all__ = ["CELLS", "HOSTS", "SERVERS", "Cell", "Host", "Server", "impossible"]

ASYNCIO: Final = frozenset({"asyncio"})
TRIO: Final = frozenset({"trio"})


@frozen
class Host:
    """A site with the gateway below a prefix."""

    name: str
    app: str
    """Module below ``tests.hosts.sites``, and the application in it."""

    packages: tuple[str, ...] = ()
    """Distributions that it is made of, the host's own first."""

    loops: frozenset[str] = ASYNCIO
    lifespan: bool = False
    """Whether it does not start without lifespan events."""

    root: str = ""
    """What the site's own paths begin with."""

    environ: Mapping[str, str] = field(factory=dict)


@frozen
class Server:
    """An ASGI server with options, as its users start it."""

    name: str
    command: tuple[str, ...]
    """Module and arguments, ``{port}`` and ``{app}`` to be filled in."""

    packages: tuple[str, ...]
    loop: str = "asyncio"
    lifespan: bool = True
    """Whether it sends lifespan events."""

    http2: bool = False
    """Whether it is asked over HTTP/2, without TLS."""


DJANGO_5: Final = MappingProxyType({"PYTHONPATH": "{django_5}"})
"""The older Django stands in a folder of its own, before the newer one."""

HOSTS: Final = (
    Host("No framework", "bare:application", loops=ASYNCIO | TRIO),
    Host("Django 6", "django_site:application", ("django",)),
    Host("Django 5.2", "django_site:application", ("django",), environ=DJANGO_5),
    Host(
        "Django, FORCE_SCRIPT_NAME",
        "django_site:application",
        ("django",),
        root="/site",
        environ={"SITE_SCRIPT_NAME": "/site"},
    ),
    Host("Django with Channels", "channels_site:application", ("channels", "django")),
    Host("Quart", "quart_site:application", ("quart",)),
    Host("Quart in a middleware", "quart_site:layered", ("quart",)),
    Host("Quart-Trio", "quart_trio_site:application", ("quart-trio", "quart"), loops=TRIO),
    Host("Starlette", "starlette_site:application", ("starlette",), loops=ASYNCIO | TRIO),
    Host("Starlette in middlewares", "starlette_site:layered", ("starlette",), loops=ASYNCIO | TRIO),
    Host("FastAPI", "fastapi_site:application", ("fastapi", "starlette"), loops=ASYNCIO | TRIO),
    Host("FastAPI in middlewares", "fastapi_site:layered", ("fastapi", "starlette"), loops=ASYNCIO | TRIO),
    Host("Litestar", "litestar_site:application", ("litestar",), loops=ASYNCIO | TRIO),
    Host("Litestar in middlewares", "litestar_site:layered", ("litestar",), loops=ASYNCIO | TRIO),
    Host("Sanic", "sanic_site:application", ("sanic",), lifespan=True),
)

_HYPERCORN: Final = ("hypercorn", "--graceful-timeout", "5", "--bind", "127.0.0.1:{port}")
_UVICORN: Final = ("uvicorn", "--port", "{port}", "--log-level", "warning", "--timeout-graceful-shutdown", "5")

SERVERS: Final = (
    Server("Hypercorn", (*_HYPERCORN, "{app}"), ("hypercorn",)),
    Server("Hypercorn, HTTP/2", (*_HYPERCORN, "{app}"), ("hypercorn", "h2"), http2=True),
    Server("Hypercorn on trio", (*_HYPERCORN, "-k", "trio", "{app}"), ("hypercorn", "trio"), loop="trio"),
    Server(
        "Hypercorn on trio, HTTP/2",
        (*_HYPERCORN, "-k", "trio", "{app}"),
        ("hypercorn", "h2", "trio"),
        loop="trio",
        http2=True,
    ),
    Server("Uvicorn, h11", (*_UVICORN, "--http", "h11", "--loop", "asyncio", "{app}"), ("uvicorn", "h11")),
    Server(
        "Uvicorn, httptools",
        (*_UVICORN, "--http", "httptools", "--loop", "uvloop", "{app}"),
        ("uvicorn", "httptools", "uvloop"),
    ),
    Server("Uvicorn, 2 workers", (*_UVICORN, "--workers", "2", "{app}"), ("uvicorn", "httptools", "uvloop")),
    Server(
        "Gunicorn",
        (
            *("gunicorn", "--bind", "127.0.0.1:{port}", "--log-level", "warning", "--graceful-timeout", "5"),
            *("--worker-class", "uvicorn_worker.UvicornWorker", "{app}"),
        ),
        ("gunicorn", "uvicorn-worker"),
    ),
    Server(
        "Granian",
        (
            *("granian", "--interface", "asgi", "--port", "{port}", "--log-level", "warning"),
            *("--workers-kill-timeout", "5", "{app}"),
        ),
        ("granian",),
    ),
    Server(
        "Daphne", ("daphne", "--port", "{port}", "--verbosity", "0", "{app}"), ("daphne", "twisted"), lifespan=False
    ),
)


def impossible(host: Host, server: Server) -> str:
    """Why *host* does not run under *server*; empty where it does."""
    if server.loop not in host.loops:
        return f"{host.name} runs on {' or '.join(sorted(host.loops))} only"
    if host.lifespan and not server.lifespan:
        return f"{host.name} does not start without lifespan events, and {server.name} sends none"
    return ""


@frozen
class Cell:
    """A host under a server."""

    host: Host
    server: Server

    def __str__(self) -> str:
        return f"{self.host.name} / {self.server.name}"


def _cells() -> Iterator[Cell]:
    for host in HOSTS:
        yield from (Cell(host, server) for server in SERVERS if not impossible(host, server))


CELLS: Final = tuple(_cells())
