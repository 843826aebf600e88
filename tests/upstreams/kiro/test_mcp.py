from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import (
    KiroAsgiError,
    RequestError,
    UpstreamFault,
    UpstreamProtocolError,
)
from kiro_asgi.model.events import SearchHit
from kiro_asgi.simulator.kiro.accounts import mcp
from kiro_asgi.upstreams.base import Credential, CredentialKind
from kiro_asgi.upstreams.kiro.mcp import parse_search
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream

PROFILE = "arn:aws:codewhisperer:eu-central-1:1:profile/p"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["result", "content", "type", "text", "results", "url", "error", "publishedDate"]), inner
        )
    ),
    max_leaves=8,
)


def answer(*pages: Any, error: Any = None, **more: Any) -> bytes:
    """An answer of ``/mcp`` with these pages."""
    inner = json.dumps({"results": list(pages), "totalResults": len(pages), "query": "q", "error": error})
    result = {"content": [{"type": "text", "text": inner}], "isError": False, **more}
    return json.dumps({"id": "x", "jsonrpc": "2.0", "result": result}).encode()


@pytest.mark.parametrize(
    ("credential", "host", "profile"),
    [
        pytest.param(
            Credential(CredentialKind.API_KEY, "ksk_1", PROFILE), "https://q.us-east-1.amazonaws.com", None, id="key"
        ),
        pytest.param(
            Credential(CredentialKind.ACCESS_TOKEN, "t", PROFILE),
            "https://runtime.eu-central-1.kiro.dev",
            PROFILE.encode(),
            id="token-with-profile",
        ),
    ],
)
def test_the_question(credential: Credential, host: str, profile: bytes | None) -> None:
    """A JSON-RPC call of the tool, at the host of the profile, with the profile in a header and not in the body."""
    request = KiroUpstream(new_id=lambda: "1").search_request(credential, "fjörds")
    headers = dict(request.headers)

    assert (request.method, request.url) == ("POST", f"{host}/mcp")
    assert json.loads(request.body) == {
        "id": "web_search_1",
        "jsonrpc": "2.0",
        "method": "tools/call",
        "params": {"name": "web_search", "arguments": {"query": "fjörds"}},
    }
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"authorization"] == b"Bearer " + credential.secret.encode()
    assert headers.get(b"x-amzn-kiro-profile-arn") == profile


def test_the_simulators_answer() -> None:
    """What the simulated service finds."""
    asked = {"id": 1, "method": "tools/call", "params": {"name": "web_search", "arguments": {"query": "fjords"}}}

    assert parse_search(json.dumps(mcp(asked)).encode()) == (
        SearchHit(
            "About fjords", "https://example.org/simulated", "A simulated page about fjords.", published="2025-06-15"
        ),
    )


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        pytest.param({"url": "https://a/"}, [SearchHit("https://a/", "https://a/")], id="only-an-address"),
        pytest.param(
            {"url": "HTTP://a/", "title": " a\n b ", "snippet": "c\r\n\td"},
            [SearchHit("a b", "HTTP://a/", "c d")],
            id="one-line-each",
        ),
        pytest.param(
            {"url": "https://a/", "publishedDate": 10**18}, [SearchHit("https://a/", "https://a/")], id="late"
        ),
        pytest.param({"url": "https://a/", "publishedDate": True}, [SearchHit("https://a/", "https://a/")], id="bool"),
        pytest.param({"title": "a"}, [], id="no-address"),
        pytest.param({"url": "javascript:alert(1)"}, [], id="not-a-web-address"),
        pytest.param("a", [], id="not-an-object"),
    ],
)
def test_pages(page: Any, expected: list[SearchHit]) -> None:
    """What is missing or odd about a page costs that page at most."""
    good = {"url": "https://good/", "title": "t"}

    assert parse_search(answer(page, good)) == (*expected, SearchHit("t", "https://good/"))


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        pytest.param(b"<html>", UpstreamProtocolError, "unreadable", id="not-json"),
        pytest.param(b"[]", UpstreamProtocolError, "unreadable", id="not-an-object"),
        pytest.param(b"{}", UpstreamProtocolError, "unreadable", id="no-result"),
        pytest.param(
            answer(content=[{"type": "text", "text": "{"}]), UpstreamProtocolError, "unreadable", id="inner-json"
        ),
        pytest.param(
            answer(content=[{"type": "text", "text": '{"results": {}}'}]), UpstreamProtocolError, "", id="no-list"
        ),
        pytest.param(
            b'{"error": {"code": -32602, "message": "Query too long"}}', RequestError, "too long", id="bad-query"
        ),
        pytest.param(b'{"error": {"code": -32601}}', UpstreamFault, "no explanation", id="rpc-error"),
        pytest.param(b'{"error": "x"}', UpstreamFault, "no explanation", id="rpc-error-of-another-form"),
        pytest.param(
            answer(content=[{"type": "text", "text": "Quota."}], isError=True),
            UpstreamFault,
            "Quota.",
            id="tool-error",
        ),
        pytest.param(answer(error="Backend down."), UpstreamFault, "Backend down.", id="search-error"),
    ],
)
def test_failures(body: bytes, error: type[KiroAsgiError], words: str) -> None:
    """Each of the three layers can fail; the error says what it said."""
    with pytest.raises(error) as raised:
        parse_search(body)

    assert type(raised.value) is error
    assert words in raised.value.message


@given(JSON | st.builds(lambda inner: {"result": {"content": [inner]}}, JSON))
def test_no_answer_is_a_surprise(document: Any) -> None:
    """Whatever comes, it is pages or one of our errors."""
    try:
        hits = parse_search(json.dumps(document).encode())
    except KiroAsgiError:
        return
    assert all(hit.url.lower().startswith("http") for hit in hits)
