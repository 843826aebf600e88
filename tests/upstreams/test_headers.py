"""Headers of requests to services that are asked with a key, and media types of answers."""

from __future__ import annotations

import pytest

from kiro_asgi.errors import NotTheUpstream
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Upstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON, Headers, overridden, require_media_type
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream

OPERATORS = ((b"User-Agent", b"mine"), (b"X-Api-Key", b"a"), (b"authorization", b"b"), (b"x-goog-api-key", b"c"))


def sent(upstream: Upstream, secret: str) -> tuple[Headers, Headers]:
    """Headers of a question, and of the one for the list of models."""
    prompt = Prompt("m", turns=(Turn(Role.USER, (Text("hi"),)),))
    key = Credential(CredentialKind.API_KEY, secret)
    return upstream.render(prompt, ModelCard("m"), key).request.headers, upstream.models_request(key).headers


def test_an_operators_header_replaces_ours() -> None:
    """No header comes twice, however its name is written; what is ours alone stays in its place."""
    ours = ((b"accept", b"1"), (b"user-agent", b"2"))

    assert overridden(ours, ()) == ours
    assert overridden(ours, ((b"User-Agent", b"3"), (b"x", b"4"))) == (ours[0], (b"User-Agent", b"3"), (b"x", b"4"))


@pytest.mark.parametrize("kind", [AnthropicUpstream, GeminiUpstream, OpenAIUpstream])
def test_the_operators_headers_come_with_every_question(kind: type) -> None:
    """Even the one that shows who asks: a company's gateway may want another secret than the service's key."""
    for headers in sent(kind(headers=OPERATORS), "secret"):
        assert headers[-len(OPERATORS) :] == OPERATORS
        assert len({name.lower() for name, _ in headers}) == len(headers)


@pytest.mark.parametrize(
    "upstream",
    [AnthropicUpstream(), AnthropicUpstream(bearer=True), GeminiUpstream(), OpenAIUpstream()],
    ids=["anthropic", "bearer", "gemini", "openai"],
)
def test_a_service_without_a_key_is_shown_none(upstream: Upstream) -> None:
    """A header without a value is no legal one where it ends in a space."""
    for headers in sent(upstream, ""):
        assert {b"authorization", b"x-api-key", b"x-goog-api-key"}.isdisjoint(dict(headers))


@pytest.mark.parametrize("accepted", ["text/event-stream", "Text/Event-Stream; charset=utf-8", ""])
def test_a_stream_is_accepted(accepted: str) -> None:
    """A service that does not name its media type is believed."""
    require_media_type(accepted, (EVENT_STREAM,))


def test_a_web_page_is_no_answer() -> None:
    """Whoever answers with a page is not the service, and is not asked again."""
    with pytest.raises(NotTheUpstream, match="text/html") as caught:
        require_media_type("text/html; charset=utf-8", (EVENT_STREAM, JSON))

    assert caught.value.code == "upstream.content_type"
