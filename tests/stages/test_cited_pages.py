"""Sources without an address are left out, and that is said once."""

from __future__ import annotations

from kiro_asgi.model.events import Citation, Delta, Notice, TextDelta
from kiro_asgi.stages.filters import WITHOUT_ADDRESS, CitedPages
from tests.helpers import run

PAGE, FILE = Citation(4, 0, "Fjords", "https://example.org/"), Citation(4, 0, "notes")


def test_only_pages_are_left() -> None:
    """With the text around them, in their order."""
    said: list[Delta] = [TextDelta("deep"), FILE, PAGE, FILE, TextDelta(".")]

    assert run(CitedPages(), said) == [TextDelta("deep"), Notice(WITHOUT_ADDRESS), PAGE, TextDelta(".")]
