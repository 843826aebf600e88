"""Seals of thinking: what goes in comes out, for its owner, unchanged, and for nobody else."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.model.prompt import ThinkingPart

WELL_FORMED = st.text(st.characters(exclude_categories=["Cs"]))
THINKING = st.builds(ThinkingPart, WELL_FORMED, WELL_FORMED, WELL_FORMED)
SEALER = Sealer.create(b"secret", "key:1")
SEAL = SEALER.seal(ThinkingPart("I think.", "c2ln"))


@given(THINKING)
def test_what_is_sealed_comes_back(thinking):
    """A seal is text that is legal anywhere, and opens to what was sealed."""
    seal = SEALER.seal(thinking)

    assert seal.startswith("kas2.")
    assert seal.isascii() and not set(seal) & set(' "\\\n')
    assert SEALER.open(seal) == thinking


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Sealer.create(b"another", "key:1"), id="key"),
        pytest.param(Sealer.create(b"secret", "key:2"), id="principal"),
        pytest.param(Sealer.create(b"secret", 'key:1"'), id="boundary"),
    ],
)
def test_nobody_else_opens_it(other):
    """A seal is bound to the key and the client."""
    assert other.open(SEAL) is None
    assert Sealer.create(b"secret", "key:1").open(SEAL) == ThinkingPart("I think.", "c2ln")


@given(st.integers(0, 8 * len(base64.urlsafe_b64decode(SEAL[5:])) - 1))
def test_a_changed_bit_breaks_it(bit):
    """Whatever is changed, seal or content, nothing is opened."""
    data = bytearray(base64.urlsafe_b64decode(SEAL[5:]))
    data[bit // 8] ^= 1 << bit % 8

    assert SEALER.open("kas2." + base64.urlsafe_b64encode(data).decode()) is None


@given(st.one_of(st.text(), st.text("ABab01-_=").map("kas2.".__add__), st.just("gAAAAAB-foreign")))
def test_anything_else_is_nothing(text):
    """What a client sends in place of a seal, also another service's, is no error."""
    assert SEALER.open(text) is None


@given(st.integers(0, len(SEAL) - 1))
def test_a_part_of_it_is_nothing(length):
    """A seal that lost its end is not one."""
    assert SEALER.open(SEAL[:length]) is None


@given(WELL_FORMED)
def test_a_summary_comes_back_and_is_no_thinking(summary):
    """Summaries are sealed likewise, and neither is taken for the other, whatever it calls itself."""
    seal = SEALER.seal_summary(summary)

    assert SEALER.open_summary(seal) == summary
    assert Sealer.create(b"secret", "key:2").open_summary(seal) is None
    assert (SEALER.open(seal), SEALER.open("kas2." + seal[5:])) == (None, None)
    assert (SEALER.open_summary(SEAL), SEALER.open_summary("kac1." + SEAL[5:])) == (None, None)


def test_it_does_not_show_its_key():
    """Secrets are never in a repr."""
    assert "secret" not in repr(SEALER)
    assert repr(SEALER) == "Sealer()"
