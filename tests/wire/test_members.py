"""Members of a service's JSON as what they should be."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.wire.json import object_of, objects_of, text_of

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(ANY)
def test_anything_may_come_in_the_place_of_a_member(value: Any) -> None:
    """What is as it should be comes back as it is; everything else counts as nothing."""
    assert object_of(value) == (value if isinstance(value, dict) else {})
    assert text_of({"key": value}, "key") == (value if isinstance(value, str) else "")
    assert objects_of([value, {}]) == ([value, {}] if isinstance(value, dict) else [{}])
    assert isinstance(value, list) or objects_of(value) == []


def test_an_absent_text_is_empty() -> None:
    """A service may leave it out."""
    assert text_of({}, "key") == ""
