"""Sessions in ``metadata.user_id``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.session import session_of


@pytest.mark.parametrize(
    ("user", "session"),
    [
        pytest.param("user_1a_account_2b_session_3c-4d", "3c-4d", id="words"),
        pytest.param('{"device_id": "d", "account_uuid": "", "session_id": "3c-4d"}', "3c-4d", id="object"),
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
