"""What the answer to a key means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kiro_asgi.errors import NotTheUpstream, UpstreamError
from kiro_asgi.net.credentials.key_tokens import token_of
from kiro_asgi.net.requests import HttpResponse
from kiro_asgi.upstreams.base import Token

NOW = 1_800_000_000.0


def read(document: Any, url: str = "https://h/token") -> Token:
    return token_of(HttpResponse(200, (), json.dumps(document).encode()), "openai.api_key", url, NOW)


@pytest.mark.parametrize(
    ("document", "token"),
    [
        ({"token": "t"}, Token("t")),
        ({"token": "tid=1;exp=2:ab", "expires_at": 1_900_000_000}, Token("tid=1;exp=2:ab", expires_at=1.9e9)),
        ({"token": "t", "expires_at": 1_900_000_000_500}, Token("t", expires_at=1_900_000_000.5)),
        ({"token": "t", "expires_at": "2027-01-15T08:00:00Z"}, Token("t", expires_at=NOW)),
        ({"token": "t", "expires_at": "2027-01-15T10:00:00.000+02:00"}, Token("t", expires_at=NOW)),
        ({"token": "t", "expires_at": "2027-01-15T08:00:00"}, Token("t", expires_at=NOW)),
        ({"token": "t", "expires_at": "soon"}, Token("t")),
        ({"token": "t", "expires_at": "0001-01-01T00:00:00+23:59"}, Token("t")),
        ({"token": "t", "expires_at": True}, Token("t")),
        ({"access_token": "t", "expires_in": 60}, Token("t", expires_at=NOW + 60)),
        ({"access_token": "t", "expires_in": 60, "expires_at": 1}, Token("t", expires_at=NOW + 60)),
        ({"access_token": "t", "expires_in": -1, "expires_at": NOW + 5}, Token("t", expires_at=NOW + 5)),
        ({"token": "t", "access_token": "u", "endpoints": {}}, Token("t")),
        ({"token": "t", "endpoints": {"api": "https://a.example/v1"}}, Token("t", endpoint="https://a.example/v1")),
    ],
)
def test_a_token(document: Any, token: Token):
    """Both spellings, every way to say when it ends, and where it is used."""
    assert read(document) == token


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        "t",
        {"token": ""},
        {"token": 3},
        {"token": "a b"},
        {"token": "a\r\nx: y"},
        {"token": "é"},
        {"token": "t", "endpoints": {"api": "http://plain.example"}},
        {"token": "t", "endpoints": {"api": "https://u:p@h"}},
        {"token": "t", "endpoints": {"api": "ftp://h"}},
        {"token": "t", "endpoints": {"api": 3}},
    ],
)
def test_what_is_no_token(document: Any):
    """Nothing that cannot stand in a header, and no address in the clear where the key was not presented so."""
    with pytest.raises(NotTheUpstream) as caught:
        read(document)

    assert caught.value.code == "credentials.foreign"


def test_an_address_in_the_clear_on_this_machine():
    """Who exchanges a key in the clear may use its token so."""
    assert read({"token": "t", "endpoints": {"api": "http://127.0.0.1:1"}}, "http://127.0.0.1:2/t").endpoint


MEMBERS = st.sampled_from(["token", "access_token", "expires_at", "expires_in", "endpoints", "x"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.datetimes().map(str)
DOCUMENTS = st.dictionaries(MEMBERS, SCALARS | st.fixed_dictionaries({"api": SCALARS})).map(json.dumps)


@given(st.integers(100, 599), DOCUMENTS.map(str.encode) | st.binary(), st.binary())
@example(200, b"[" * 60_000, b"")
@example(200, b'{"token": "t", "expires_at": 1%s}' % (b"0" * 400), b"")
def test_any_answer_is_a_token_or_an_error(status: int, body: bytes, wait: bytes):
    """Whatever comes: a token that can stand in a header, or an error of ours that quotes nothing."""
    answer = HttpResponse(status, ((b"Retry-After", wait),), body)
    try:
        token = token_of(answer, "n", "https://h/", NOW)
    except UpstreamError as error:
        assert error.message.startswith("n: ")
        assert error.code.startswith("credentials.")
    else:
        assert status == 200
        assert token.access_token.isascii() and token.access_token.isprintable()
        assert token.expires_at is None or 0 <= token.expires_at <= 253_402_300_799
