"""What a site puts around everything that it serves."""

from __future__ import annotations

import time
from typing import Any

from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

__all__ = ["LAYERS", "Timing"]


class Timing:
    """Tell in a header how many milliseconds passed before the answer began."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        began = time.perf_counter()

        async def timed(message: Any) -> None:
            if message["type"] == "http.response.start":
                took = f"{(time.perf_counter() - began) * 1000:.1f}"
                message = {**message, "headers": [*message["headers"], (b"x-took", took.encode())]}
            await send(message)

        await self.app(scope, receive, timed)


class Noting(BaseHTTPMiddleware):
    """One as most are written: a function of the request and of who answers it."""

    async def dispatch(self, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-noted"] = "1"
        return response


LAYERS = (
    Middleware(GZipMiddleware, minimum_size=1),
    Middleware(CORSMiddleware, allow_origins=["https://app.example"]),
    Middleware(Timing),
    Middleware(Noting),
)
"""Outermost first."""
