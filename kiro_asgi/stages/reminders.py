"""What a model is told about an answer of its own that was cut short, or of which a call could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from kiro_asgi.model.events import MalformedCall, TruncationInfo
from kiro_asgi.stages.cut_answers import CutAnswer

__all__ = ["reminder_text"]

_CALL_CUT: Final = (
    "The previous answer was cut off by an output limit. {calls} {fate} Do not send the same call again as it was: it "
    "would be cut off again. Send its content again in several smaller calls, one part at a time."
)
_TEXT_CUT: Final = (
    "The previous answer was cut off by an output limit after {size:,} bytes of text. Do not repeat it as a whole: it "
    "would be cut off again. Send what is missing again in smaller parts, going on from where the text ends."
)
_ALL_CUT: Final = (
    "The previous answer was cut off by an output limit before any of it arrived. Do not give the same answer again: "
    "it would be cut off again. Send it again in smaller parts, with less deliberation before each."
)
_CALL_MALFORMED: Final = (
    "{calls} {fate} Make the call again with arguments that are exactly one JSON object: double quotes around every "
    "name and every string, and a backslash before each double quote and backslash within a string."
)
_FATES: Final = MappingProxyType(
    {
        False: "Nothing of this was delivered, and it was NOT executed.",
        True: "Only a part of this was delivered, and it was NOT executed as intended.",
    }
)


def reminder_text(record: CutAnswer, *, part_shown: bool = False) -> str:
    """What the model is told.

    Args:
        record: What was cut.
        part_shown: Whether the client has seen a part of the call.
    """
    said = " ".join(_sentences(record, _FATES[part_shown]))
    return f"[Notice from the gateway] {said}"


def _sentences(record: CutAnswer, fate: str) -> Iterator[str]:
    if record.calls:
        yield _CALL_CUT.format(calls=" ".join(map(_told, record.calls)), fate=fate)
    if record.malformed:
        yield _CALL_MALFORMED.format(calls=" ".join(map(_told_malformed, record.malformed)), fate=fate)
    if not (record.calls or record.malformed):
        yield (_TEXT_CUT if record.size_bytes else _ALL_CUT).format(size=record.size_bytes)


def _told(info: TruncationInfo) -> str:
    size = f"{info.size_bytes:,} bytes of arguments"
    return f"Its call of the {_tool(info.name)} arrived incomplete, {size} ({info.reason})."


def _told_malformed(info: MalformedCall) -> str:
    call = f"the call of the {_tool(info.name)}"
    return f"In the previous answer, {call} arrived complete, but its arguments could not be read ({info.reason})."


def _tool(name: str) -> str:
    return f'tool "{name}"' if name else "tool that it did not name"
