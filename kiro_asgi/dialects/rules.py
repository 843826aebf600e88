"""What the client APIs leave out or change before any service is chosen, as a table has it."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.notes import Loss, Rule

__all__ = ["RULES"]

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final[tuple[Rule, ...]] = (
    Rule("fields.ignored", "A field that no service here can be told is left out.", _CONTENT, "unread"),
    Rule(
        "fields.no_effect",
        "A field about price, caches, storage, or what an earlier answer was called has no effect.",
        _NONE,
        "unread",
    ),
    Rule("fields.echoed", "A field is repeated in the answer and has no other effect.", _CONTENT, "unread"),
    Rule("values.unknown", "A value that has no meaning here counts as not said.", _CONTENT, "unread"),
    Rule("turns.unknown", "A message of an unknown role is left out.", _CONTENT, "unread"),
    Rule("items.unknown", "An input item of a kind that only its own server can read is left out.", _CONTENT, "unread"),
    Rule(
        "items.summarised",
        "A call of a tool that ran on another server is told as a call and its result, without the rest of the item.",
        _CONTENT,
        "unread",
    ),
    Rule(
        "thinking.sealed_dropped", "Earlier thinking that another server sealed is not handed back.", _CONTENT, "unread"
    ),
    Rule("blocks.unknown", "A content block of an unknown kind is left out.", _CONTENT, "unread"),
    Rule("blocks.unreadable", "A part of a message that its role cannot hold is left out.", _CONTENT, "unread"),
    Rule(
        "tools.left_out",
        "A tool that the choice of tools excludes, or a search among tools, is not offered.",
        _CONTENT,
        "unread",
    ),
    Rule("tools.duplicate_dropped", "Of tools with the same name the first counts.", _CONTENT, "unread"),
    Rule("system.attribution", "The line about billing that Claude Code puts first is left out.", _NONE, "unread"),
)
