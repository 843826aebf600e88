from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import SearchHit, ToolOutput

HITS = st.lists(st.builds(SearchHit, *[st.text(max_size=5)] * 4), max_size=4).map(tuple)


@given(HITS, st.text())
def test_spans_are_where_the_hits_are_told(hits: tuple[SearchHit, ...], text: str) -> None:
    """Every hit has a span, in order, and the text of that span is the hit's."""
    output = ToolOutput(hits, text)

    assert [(output.told[start:end], hit) for start, end, hit in output.spans()] == [(str(hit), hit) for hit in hits]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        pytest.param(
            ToolOutput((SearchHit("Fjords", "https://a/", "Deep.", "2026-03-14"), SearchHit("B", "https://b/"))),
            "Fjords (2026-03-14)\nhttps://a/\nDeep.\n\nB\nhttps://b/",
            id="F215-hits",
        ),
        pytest.param(ToolOutput(text="sunny"), "sunny", id="text"),
        pytest.param(ToolOutput(text="too slow", error_code="unavailable"), "too slow", id="error"),
        pytest.param(ToolOutput(error_code="unavailable"), "unavailable", id="error-without-words"),
        pytest.param(ToolOutput(), "Nothing was found.", id="nothing"),
    ],
)
def test_every_output_has_words(output: ToolOutput, told: str) -> None:
    """Nothing that a tool gives is silent."""
    assert output.told == told
