"""Sessions in ``metadata.user_id``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.parsing import session_of
from tests.growth import assert_linear


@pytest.mark.parametrize(
    ("user", "session"),
    [
        pytest.param("user_1a_account_2b_session_3c-4d", "3c-4d", id="words"),
        pytest.param('{"device_id": "d", "account_uuid": "", "session_id": "3c-4d"}', "3c-4d", id="object"),
        pytest.param("a_session_b_session_c", "b_session_c", id="the-first"),
        pytest.param("a_session_b b_session_c", "c", id="behind-what-no-id-has"),
        pytest.param('{"a_session_b', "b", id="an-object-that-ends-like-words"),
        pytest.param("a_session_b\n", "", id="a-line"),
        pytest.param("alice@example.org", "", id="a-person"),
        pytest.param('{"session_id": 5}', "", id="no-text"),
        pytest.param('{"session_id"', "", id="no-json"),
        pytest.param("user_1a_session_", "", id="nothing"),
        pytest.param("", "", id="empty"),
        pytest.param(None, "", id="null"),
    ],
)
def test_a_session_is_what_a_known_client_calls_one(user: Any, session: str) -> None:
    """Only what is known to name a session does; who asks is not what is talked about."""
    assert session_of({"user_id": user}) == session


@given(st.none() | st.integers() | st.text() | st.builds("{{{}".format, st.text()))
def test_no_user_is_a_surprise(user: Any) -> None:
    """The field is the client's own; whatever it holds is a session or none."""
    assert type(session_of({"user_id": user})) is str
    assert session_of({}) == ""


@pytest.mark.parametrize("user", ["_session_{}", "_session_{}!", "{}_session_ ", "!{}"], ids=repr)
def test_an_endless_name_costs_what_reading_it_costs(user: str) -> None:
    """R24: a search for the mark would read the rest from every mark on: 14 s for 99 kB."""

    def make(size: int) -> Callable[[], object]:
        metadata = {"user_id": user.format("_session_" * size)}
        return lambda: session_of(metadata)

    assert_linear(make, 500)
    text = user.format("_session_" * 200_000)
    assert session_of({"user_id": text}) == (text.partition("_session_")[2] if text.endswith("_") else "")
