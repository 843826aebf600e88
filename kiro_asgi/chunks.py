"""Sources of bytes that a caller hands over."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def closing(chunks: AsyncIterable[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    """Close the source, if it can be closed, when reading stops before its end: on trio nothing else would."""
    source = aiter(chunks)
    try:
        yield source
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
