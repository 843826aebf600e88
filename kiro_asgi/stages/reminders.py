"""What a model is told about an answer of its own that was cut short."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from kiro_asgi.model.events import TruncationInfo
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
    if record.calls:
        said = _CALL_CUT.format(calls=" ".join(map(_told, record.calls)), fate=_FATES[part_shown])
    else:
        said = (_TEXT_CUT if record.size_bytes else _ALL_CUT).format(size=record.size_bytes)
    return f"[Notice from the gateway] {said}"


def _told(info: TruncationInfo) -> str:
    tool = f'tool "{info.name}"' if info.name else "tool that it did not name"
    return f"Its call of the {tool} arrived incomplete, {info.size_bytes:,} bytes of arguments ({info.reason})."
