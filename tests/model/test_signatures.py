"""Whose a signature is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.signatures import Mark, marked, read_mark

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)
BASE64 = st.text("ABCabc012+/-_=.", max_size=40)


@given(WORDS, WORDS, BASE64)
def test_a_mark_is_read_as_it_was_written(owner: str, part: str, signature: str) -> None:
    """What a client hands back says whose it is and where it stood, and is whole."""
    assert read_mark(marked(owner, part, signature)) == Mark(owner, part, signature)


@given(BASE64)
def test_a_signature_without_a_mark_stays_as_it_is(signature: str) -> None:
    """Those of Anthropic's models have no mark, whatever letters they are made of."""
    assert read_mark(signature) == Mark("", "", signature)
