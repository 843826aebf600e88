"""Settings of tapes."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from kiro_asgi.setting import PATH, Bounds, Choices, setting

_WHEN: Final = ("error", "noticed", "cut", "retried", "header", "all")


@frozen(kw_only=True)
class TapeSettings:
    """Tapes: files with one exchange each, from which it can be replayed."""

    path: str = setting("", PATH)
    """Folder for them, which is made with mode 0700; empty for none."""

    when: str = setting("error", Choices(_WHEN))
    """Which exchanges are kept: those without a whole answer (``error``), those and all with a notice, such as a
    tool call that was cut (``noticed``; the default with ``serve --inspect``), those whose answer broke off (``cut``),
    those without a whole answer or with more than one attempt (``retried``), those whose client sends
    ``x-kiro-asgi-tape`` (``header``), or ``all``."""

    content: str = setting("masked", Choices(("masked", "full")))
    """``masked``: no word of prompts and answers, only their shape; ``full``: everything but secrets."""

    bytes: int = setting(256 * 1024 * 1024, Bounds(1024 * 1024, 2**40))
    """Room for the folder; the oldest tapes make room for new ones."""
