"""Vectors are taken out of an answer while it comes: the same ones, however it is cut, and of nothing else."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.limits import EMBEDDING_DIMENSIONS, EMBEDDING_REST_BYTES, EMBEDDING_TEXT_BYTES
from kiro_asgi.model.embeddings import Embeddings, numbers_of, packed
from kiro_asgi.upstreams.vectors import VectorReader, vectors_of
from tests.growth import assert_linear

LONG = [0.0123456789 * index for index in range(300)] + [-1.9999999] * 9
"""A vector that is longer in base64 than a text that stays in the document."""

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def read(answer: Any) -> Embeddings:
    return Embeddings(vectors_of(entry["v"] for entry in answer["data"]))


def made_of(body: bytes, *cuts: int) -> tuple[bytes, ...]:
    """The vectors of *body*, which comes cut there."""
    reader = VectorReader(read)
    places = [0, *sorted(cuts), len(body)]
    for start, end in pairwise(places):
        reader.feed(body[start:end])
    return reader.finish().vectors


MORE = {"data": [], "A" * 16: "A" * 16, "more": [[], [1, "a"], [None], [-1, 2], [[1], [2]]]}
"""What else may be in an answer."""


def body_of(*vectors: Any, indent: int | None = None) -> bytes:
    data = [{"index": index, "v": vector, "o": 'em[be"d]\\' * 9} for index, vector in enumerate(vectors)]
    return json.dumps({**MORE, "data": data}, indent=indent).encode()


def in_base64(numbers: list[float]) -> str:
    return b64encode(packed(numbers)).decode()


BODIES = [
    pytest.param(body_of([1, 2.5], LONG), [[1, 2.5], LONG], id="numbers"),
    pytest.param(body_of([1, 2.5], LONG, indent=4), [[1, 2.5], LONG], id="blanks"),
    pytest.param(body_of(in_base64([1, 2.5]), in_base64(LONG)), [[1, 2.5], LONG], id="base64"),
    pytest.param(body_of(in_base64(LONG)).replace(b"/", b"\\/"), [LONG], id="escaped-slashes"),
    pytest.param(body_of([-1e-3, 5e2, 0], in_base64(LONG)), [[-1e-3, 5e2, 0], LONG], id="both"),
]


@pytest.mark.parametrize(("body", "numbers"), BODIES)
@given(st.data())
def test_vectors_do_not_depend_on_cuts(body: bytes, numbers: list[list[float]], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=8))

    assert made_of(body, *cuts) == tuple(map(packed, numbers))


@pytest.mark.parametrize(("body", "numbers"), BODIES)
def test_vectors_come_byte_by_byte(body: bytes, numbers: list[list[float]]) -> None:
    assert made_of(body, *range(len(body))) == tuple(map(packed, numbers))


@given(st.lists(st.lists(FLOATS, min_size=1, max_size=200), max_size=6), st.booleans(), st.sampled_from([None, 1]))
def test_numbers_are_those_of_a_decoder(vectors: list[list[float]], packs: bool, indent: int | None) -> None:
    """Every 32-bit float arrives as it was sent."""
    written = [in_base64(vector) if packs else vector for vector in vectors]

    assert [[*numbers_of(vector)] for vector in made_of(body_of(*written, indent=indent))] == vectors


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param("[]", id="empty"),
        pytest.param("[1,]", id="comma"),
        pytest.param("[1 2]", id="no-comma"),
        pytest.param("[1,,2]", id="two-commas"),
        pytest.param("[1-2]", id="sum"),
        pytest.param("[1,null]", id="null"),
        pytest.param("[1,[2]]", id="nested"),
        pytest.param("[NaN]", id="not-a-number"),
        pytest.param("NaN", id="stand-in"),
        pytest.param("[1e999]", id="infinite"),
        pytest.param("[1e39]", id="too-large"),
        pytest.param(f"[{'9' * 1_000}]", id="digits"),
        pytest.param(f"[{'1,' * EMBEDDING_DIMENSIONS}1]", id="long"),
        pytest.param(f'"{in_base64([1.0] * (EMBEDDING_DIMENSIONS + 1))}"', id="long-base64"),
        pytest.param(f'"{"A" * EMBEDDING_TEXT_BYTES}AAAA"', id="endless"),
        pytest.param(f'"{b64encode(struct.pack("<f", float("nan")) * 200).decode()}"', id="packed-not-a-number"),
        pytest.param(f'"{b64encode(bytes(1_001)).decode()}"', id="torn"),
        pytest.param('"' + "A" * 1_000, id="cut-off"),
        pytest.param("[1", id="cut-off-numbers"),
        pytest.param(f'"x{" " * EMBEDDING_REST_BYTES}"', id="text"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param("[ " * 100_000, id="deep-and-blank"),
        pytest.param("1", id="number"),
        pytest.param("{}", id="object"),
    ],
)
def test_what_is_no_vector_is_none(vector: str) -> None:
    """An error of the service, whether the good vector stands before it or behind."""
    for data in (f'{{"v":{vector}}},{{"v":[1,2]}}', f'{{"v":[1,2]}},{{"v":{vector}}}'):
        with pytest.raises(UpstreamProtocolError) as caught:
            made_of(f'{{"data":[{data}]}}'.encode())
        assert caught.value.code == "upstream.embeddings"


def test_what_is_no_vector_may_be_long_elsewhere() -> None:
    """A text, or numbers, that nobody asks for."""
    more = {"text": "no base64: " * 1_000, "looks": "A" * 2_048, "A" * 16: 1, "numbers": [1, 2, "a"]}
    body = json.dumps({"more": more, "data": [{"v": [1, 2]}], "again": more}).encode()

    assert made_of(body) == (packed([1, 2]),)


@pytest.mark.parametrize("escaped", [b"/", b"\\/"])
@pytest.mark.parametrize("vector", [LONG, in_base64(LONG)], ids=["numbers", "base64"])
def test_little_is_kept_beside_the_vectors(vector: Any, escaped: bytes) -> None:
    """The document that is decoded at the end is as large as an answer without vectors."""
    reader = VectorReader(read)
    reader.feed(body_of(*[vector] * 50).replace(b"/", escaped))

    assert reader.size >= 50 * 4 * len(LONG)
    assert reader.rest_size < 50 * 200


@pytest.mark.parametrize("step", [1, 50])
@pytest.mark.parametrize("part", [b"[1.25,", b'"AAAA', b"[[", b'"\\"', b"[1,a]"], ids=repr)
def test_work_is_linear(part: bytes, step: int) -> None:
    """However little comes at a time, and whatever never ends."""

    def make(size: int) -> Callable[[], object]:
        wire = (part[:1] + part[1:] * (size * 60)) if part[:1] == b'"' else part * (size * 12)

        def work() -> None:
            reader = VectorReader(read)
            with suppress(UpstreamProtocolError):
                for at in range(0, len(wire), step):
                    reader.feed(wire[at : at + step])
                reader.finish()

        return work

    assert_linear(make, 60)
