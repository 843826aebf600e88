"""Content of answers under names that few services use is shown, or named; an answer of nothing else is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.errors import UpstreamError
from kiro_asgi.model.events import Citation, Event, MessageEnd, StopReason
from kiro_asgi.model.message import MessageBuilder, TextBlock, ThinkingBlock
from kiro_asgi.stages.answer import Plan, build_pipeline
from tests.upstreams.test_ends import SERVICES, body, frames, sse

PNG = "data:image/png;base64,iVBORw0KGgo="
SHOWN = f"![image]({PNG})"
URL_PART = {"type": "image_url", "image_url": {"url": PNG}}


def chat(*deltas: dict[str, Any], **fields: Any) -> bytes:
    choices = [*({"delta": delta} for delta in deltas), {"delta": {}, "finish_reason": "stop"}]
    return sse(*({"choices": [{"index": 0, **choice}], **fields} for choice in choices)) + b"data: [DONE]\n\n"


def chat_whole(**message: Any) -> bytes:
    return body({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def responses(*items: dict[str, Any]) -> bytes:
    done = ({"type": "response.output_item.done", "output_index": n, "item": it} for n, it in enumerate(items))
    return sse(*done, {"type": "response.completed", "response": {"status": "completed", "output": [*items]}})


def messages(*blocks: dict[str, Any]) -> bytes:
    return body({"type": "message", "content": [*blocks], "stop_reason": "end_turn"})


def gemini(*parts: dict[str, Any]) -> bytes:
    return sse({"candidates": [{"index": 0, "content": {"parts": [*parts]}, "finishReason": "STOP"}]})


def converse(*blocks: dict[str, Any]) -> bytes:
    return body({"output": {"message": {"content": [*blocks]}}, "stopReason": "end_turn"})


def kiro(*events: tuple[str, dict[str, Any]]) -> bytes:
    return frames(*events, ("metadataEvent", {"stopReason": "END_TURN"}))


def read(service: str, data: bytes) -> tuple[list[Event], MessageEnd]:
    answer = build_pipeline(SERVICES[service].stages(), Plan())
    events = [*answer.feed([data]), *answer.flush()]
    assert isinstance(events[-1], MessageEnd)
    return events, events[-1]


def texts(service: str, data: bytes) -> tuple[str, str]:
    """The thinking and the text of an answer."""
    builder = MessageBuilder()
    builder.feed(read(service, data)[0])
    assert builder.message is not None
    blocks = builder.message.blocks
    return (
        "".join(block.text for block in blocks if isinstance(block, ThinkingBlock)),
        "".join(block.text for block in blocks if isinstance(block, TextBlock)),
    )


IMAGE_ITEM = {"type": "image_generation_call", "id": "i", "status": "completed", "result": "iVBORw0KGgo="}


@pytest.mark.parametrize(
    ("service", "data", "text"),
    [
        ("chat", chat({"content": "", "images": [URL_PART]}), SHOWN),
        ("chat", chat({"content": "a", "images": [PNG]}), f"a{SHOWN}"),
        ("chat", chat({"images": {"b64_json": "iVBORw0KGgo="}}), SHOWN),
        ("chat", chat({"content": [URL_PART]}), SHOWN),
        ("chat.whole", chat_whole(content=None, images=[URL_PART]), SHOWN),
        ("chat.whole", chat_whole(images=[{"image_url": {"url": "https://e/(x)"}}]), "![image](https://e/%28x%29)"),
        ("chat", chat({"audio": {"id": "a", "data": "QQ=="}}, {"audio": {"transcript": "Hi"}}), "Hi"),
        ("responses", responses(IMAGE_ITEM), SHOWN),
        ("responses", responses({**IMAGE_ITEM, "output_format": "webp"}), SHOWN.replace("png", "webp")),
        (
            "messages.whole",
            messages({"type": "image", "source": {"type": "url", "url": "https://e/x"}}),
            "![image](https://e/x)",
        ),
        (
            "messages.whole",
            messages({"type": "image", "source": {"media_type": "image/png", "data": "iVBORw0KGgo="}}),
            SHOWN,
        ),
        ("gemini", gemini({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/x"}}), "[file](gs://b/x)"),
        ("bedrock.whole", converse({"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}), SHOWN),
    ],
)  # fmt: skip
def test_media_are_shown(service: str, data: bytes, text: str) -> None:
    """As Gemini's ``inlineData`` is."""
    assert texts(service, data)[1] == text


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_text": "I think"},
        {"reasoning_text": "I think", "reasoning_content": "I think"},
        {"reasoning": "I think", "reasoning_text": "I think"},
        {"reasoning_content": {"text": "I think"}},
        {"reasoning": {"content": [{"text": "I "}, {"text": "think"}]}},
        {"reasoning": {"reasoning_text": "I think"}},
        {"reasoning_content": {"reasoning": "I think"}},
        {"reasoning_content": "I think", "thinking": "I think"},
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "I think"}]}]},
        {"content": [{"type": "reasoning", "text": "I think"}]},
        {"content": [{"type": "thinking", "thinking": "I think"}]},
    ],
)
def test_thinking_has_many_names(delta: dict[str, Any]) -> None:
    """It is thinking under each, and once."""
    assert texts("chat", chat(delta, {"content": "Hello"})) == ("I think", "Hello")


@pytest.mark.parametrize(
    "fields",
    [
        {"citations": ["https://a", "https://b"]},
        {"search_results": [{"title": "A", "url": "https://a"}, {"url": "https://b"}], "citations": ["https://a"]},
    ],
)
def test_pages_are_cited(fields: dict[str, Any]) -> None:
    """Every chunk repeats them; each is cited once."""
    events, _ = read("chat", chat({"content": "Hi"}, {"content": " there"}, **fields))

    assert [each.url for each in events if hasattr(each, "url")] == ["https://a", "https://b"]


def test_of_several_lists_of_pages_the_one_that_says_most_counts() -> None:
    """Wherever it stands: title and excerpt are in none of the others."""
    page = {"title": "A", "url": "https://a", "snippet": "about a"}
    for fields in ({"citations": ["https://a"], "search_results": [page]}, {"sources": [{**page, "content": "more"}]}):
        events, _ = read("chat", chat({"content": "Hi"}, **fields))
        (cited,) = (each for each in events if isinstance(each, Citation))

        assert (cited.url, cited.title, cited.quote) == ("https://a", "A", "about a")


@pytest.mark.parametrize(
    "listed", [["javascript:x"], ["https://a", {"x": 1}], [{"url": 7}], ["a"], [], "https://a", {"url": "https://a"}]
)
def test_what_is_no_list_of_pages_is_none(listed: Any) -> None:
    """A member of any name may hold something else, in part as well."""
    events, _ = read("chat", chat({"content": "Hi"}, sources=listed))

    assert not [each for each in events if isinstance(each, Citation)]


UNKNOWN: dict[str, tuple[str, Callable[[bool], bytes]]] = {
    "chat.delta": ("chat", lambda text: chat({"hologram": {"data": "QQ=="}}, {"content": "Hi" * text})),
    "chat.part": ("chat", lambda text: chat({"content": [{"type": "hologram"}]}, {"content": "Hi" * text})),
    "chat.audio": ("chat", lambda text: chat({"audio": {"data": "QQ=="}}, {"content": "Hi" * text})),
    "chat.image": ("chat", lambda text: chat({"images": ["javascript:x"]}, {"content": "Hi" * text})),
    "chat.damaged": ("chat", lambda text: b'data: {"choices":[{"del\n\n' + chat({"content": "Hi" * text})),
    "responses.item": (
        "responses",
        lambda text: responses(
            {"type": "hologram_call", "id": "h"},
            *[{"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}] * text,
        ),
    ),
    "responses.part": (
        "responses",
        lambda text: responses(
            {"type": "message", "content": [{"type": "hologram"}, *[{"type": "output_text", "text": "Hi"}] * text]}
        ),
    ),
    "messages": (
        "messages.whole",
        lambda text: messages({"type": "hologram"}, *[{"type": "text", "text": "Hi"}] * text),
    ),
    "gemini": ("gemini", lambda text: gemini({"hologram": {}}, *[{"text": "Hi"}] * text)),
    "bedrock": ("bedrock.whole", lambda text: converse({"hologram": {"x": 1}}, *[{"text": "Hi"}] * text)),
    "kiro": (
        "kiro",
        lambda text: kiro(("hologramEvent", {"x": 1}), *[("assistantResponseEvent", {"content": "Hi"})] * text),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_content_is_named_and_never_an_empty_success(name: str) -> None:
    """Beside text it is a notice; alone, an error that says what came, for which nobody asks once more."""
    service, make = UNKNOWN[name]
    _, end = read(service, make(True))

    assert texts(service, make(True))[1] == "Hi"
    assert end.stop_reason is StopReason.END and end.notices
    with pytest.raises(UpstreamError) as raised:
        read(service, make(False))

    assert (raised.value.code, raised.value.retry_safe) == ("answer.unreadable", False)
    assert end.notices[0].code in raised.value.message and end.notices[0].detail in raised.value.message
