"""Answers of the one service that stands behind every gateway, and what their text has to be at the client."""

from __future__ import annotations

from typing import Final

from attrs import frozen

__all__ = ["ASKED", "FAULTS", "LIMIT", "SCENARIOS", "TEXTS", "Scenario"]

ASKED: Final = "peers:"
"""What comes before a scenario's name in a prompt."""

LIMIT: Final = 3.0
"""Seconds of a service's silence after which every gateway is told to give up, by its own setting for that."""

WORDS: Final = (
    "Grüße, ",
    "日本語の文字 ",
    "и кириллица, ",
    "👩‍🚀 in space, ",
    "a café ",
    '"quoted" \\ ',
    "{[unbalanced ",
    "plain words of English. ",
)


@frozen
class Scenario:
    """One answer."""

    pieces: tuple[str, ...]
    """Its text, an event each."""

    pause: float = 0.0
    """Seconds before each event but the first."""

    cut: int = 0
    """Bytes that are written at once, which end anywhere; 0: an event at once."""

    line_end: bytes = b"\n"

    fault: str = ""
    """What happens in place of its end; empty for an ordinary one."""

    finish: str = "stop"

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def _words(count: int) -> tuple[str, ...]:
    return tuple(WORDS[index % len(WORDS)] for index in range(count))


SEPARATORS: Final = tuple(f"before{mark}after " for mark in ("\x85", "\u2028", "\u2029", "\xa0", "\ufeff", "\x7f"))
"""Characters of an ordinary JSON string at which a reader of lines may end one by mistake."""

TEXTS: Final[dict[str, tuple[str, Scenario]]] = {
    **{
        f"cut-{size}": (f"UTF-8 and lines are cut after every {size} bytes", Scenario(_words(8), cut=size))
        for size in (1, 3, 7, 64)
    },
    "cut-crlf": ("the same, 5 bytes, lines end with CR LF", Scenario(_words(8), cut=5, line_end=b"\r\n")),
    "separators": ("U+0085, U+2028, U+2029 and others within a text", Scenario(SEPARATORS)),
}
"""What a text goes through, with the words that say it."""

FAULTS: Final[dict[str, tuple[str, Scenario]]] = {
    "refused": ("The service answers 500", Scenario((), fault="refused")),
    "error": ("An error event in the stream, then its end", Scenario(_words(3), fault="error")),
    "reset": ("The service resets the connection in the middle", Scenario(_words(3), fault="reset")),
    "cut": ("The body ends properly, but with no finish reason and no ``[DONE]``", Scenario(_words(3), fault="cut")),
    "silence": (f"The service falls silent; the limit is {LIMIT:.0f} s", Scenario(_words(3), fault="silence")),
    "unknown": ("A finish reason that nobody knows", Scenario(_words(3), finish="melted")),
}
"""What goes wrong, with the words that say it."""

SCENARIOS: Final[dict[str, Scenario]] = {
    "short": Scenario(_words(5)),
    "burst": Scenario(_words(400)),
    "paced": Scenario(_words(100), pause=0.02),
    "open": Scenario(_words(60), pause=1.0),
    **{name: scenario for name, (_, scenario) in (*TEXTS.items(), *FAULTS.items())},
}
"""Every answer by the name that a prompt asks for it with."""
