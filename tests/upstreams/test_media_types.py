"""Media types."""

from __future__ import annotations

import pytest

from kiro_asgi.errors import NotTheUpstream
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON, require_media_type


@pytest.mark.parametrize("accepted", ["text/event-stream", "Text/Event-Stream; charset=utf-8", ""])
def test_a_stream_is_accepted(accepted: str) -> None:
    """A service that does not name its media type is believed."""
    require_media_type(accepted, (EVENT_STREAM,))


def test_a_web_page_is_no_answer() -> None:
    """Whoever answers with a page is not the service, and is not asked again."""
    with pytest.raises(NotTheUpstream, match="text/html") as caught:
        require_media_type("text/html; charset=utf-8", (EVENT_STREAM, JSON))

    assert caught.value.code == "upstream.content_type"
