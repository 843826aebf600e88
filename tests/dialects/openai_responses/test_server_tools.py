from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import ResponseFunctionWebSearch, ResponseOutputText, ResponseStreamEvent
from pydantic import TypeAdapter

from kiro_asgi.dialects.openai_responses.tools import PROGRESS, url_citations, web_search_call
from kiro_asgi.model.events import SearchHit, ServerCall, ToolOutput

CALL = ServerCall("tooluse_1", "web_search", "web_search", {"query": "fjords"})
FOUND = ToolOutput((SearchHit("Fjords", "https://a/", "Deep."), SearchHit("More", "https://b/")))
SEARCH = {"type": "search", "query": "fjords", "queries": ["fjords"]}


@pytest.mark.parametrize(
    ("output", "status", "action"),
    [
        pytest.param(None, "in_progress", SEARCH, id="under-way"),
        pytest.param(
            FOUND,
            "completed",
            {**SEARCH, "sources": [{"type": "url", "url": "https://a/"}, {"type": "url", "url": "https://b/"}]},
            id="found",
        ),
        pytest.param(ToolOutput(error_code="unavailable"), "failed", {**SEARCH, "sources": []}, id="failed"),
    ],
)
def test_the_item(output: ToolOutput | None, status: str, action: Any) -> None:
    """The item is what the SDK expects, in every state."""
    item = web_search_call(CALL, output)

    assert item == {"type": "web_search_call", "status": status, "action": action}
    whole = {**item, "id": "ws_1"}
    assert ResponseFunctionWebSearch.model_validate(whole, strict=True).to_dict() == whole


def test_citations() -> None:
    """Each names the part of the text that tells of its page."""
    text = "Look: " + FOUND.told
    part = {"type": "output_text", "text": text, "annotations": url_citations(FOUND, 6)}

    assert ResponseOutputText.model_validate(part, strict=True).to_dict() == part
    assert [
        (text[each["start_index"] : each["end_index"]], each["url"], each["title"]) for each in part["annotations"]
    ] == [
        ("Fjords\nhttps://a/\nDeep.", "https://a/", "Fjords"),
        ("More\nhttps://b/", "https://b/", "More"),
    ]


@pytest.mark.parametrize("name", PROGRESS)
def test_the_events_between(name: str) -> None:
    """Their names are those of the SDK."""
    event = {"type": name, "item_id": "ws_1", "output_index": 0, "sequence_number": 1}

    assert TypeAdapter(ResponseStreamEvent).validate_python(event, strict=True).type == name
