"""The target of answers with embeddings, whose vectors are taken out while they come."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.model.embeddings import Embeddings
from kiro_asgi.upstreams.vectors import VectorReader, vectors_of
from tests.fuzz.source import REPEATS, Source, dumped
from tests.fuzz.target import made, same, ways_to_cut

__all__ = ["vectors"]


def _vector(source: Source) -> Any:
    if source.below(2):
        return b64encode(source.take(60) * source.pick(REPEATS)).decode()
    return [source.below(1000) / 7 - 50 for _ in range(source.below(12))] * source.pick(REPEATS[:2])


def _answer(source: Source) -> bytes:
    data = [{"v": _vector(source) if source.below(6) else source.value()} for _ in range(source.below(6))]
    wire = dumped({"data": data, "more": source.value()})
    return wire if source.below(2) else source.edited(wire)


def _read(answer: Any) -> Embeddings:
    return Embeddings(vectors_of(entry["v"] for entry in answer["data"]))


def _outcome(pieces: Iterable[bytes]) -> tuple[tuple[bytes, ...], str]:
    reader = VectorReader(_read)
    try:
        for piece in pieces:
            reader.feed(piece)
        return reader.finish().vectors, ""
    except UpstreamProtocolError as error:
        return (), error.code


def vectors(data: bytes) -> int:
    wire, source = made(data, _answer)
    same(_outcome(way) for way in ways_to_cut(wire, source))
    return len(wire)
