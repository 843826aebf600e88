"""Reading from a source of bytes that somebody else made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["closing"]


@asynccontextmanager
async def closing(chunks: AsyncIterable[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    """Close the source, if it can be closed, when we stop before its end: on trio nobody else would."""
    source = aiter(chunks)
    try:
        yield source
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
