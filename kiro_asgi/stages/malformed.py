"""Telling the client of tool calls that were withheld because they could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from attrs import define, field

from kiro_asgi.model.events import Appendix, Delta, MalformedCall, ToolCallMalformed

__all__ = ["MalformedWords"]

_MOST: Final = 8
"""Calls that are told of one by one."""

_NAME: Final = 100
"""Characters of a tool's name that are told."""

_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "en": "[Notice from the gateway] The model called the tool “{name}” with malformed arguments ({reason}). "
        "The call was withheld, and nothing was executed.",
        "zh": "[网关提示] 模型调用工具“{name}”时给出的参数格式有误（{reason}）。该调用已被拦截，未执行任何操作。",
    }
)


@define
class MalformedWords:
    """Pass everything on, and say behind the answer which calls could not be read.

    Without a word the client would see an answer that just ends, where the model meant to do something.
    """

    _language: str
    """``en`` or ``zh``."""

    _calls: list[MalformedCall] = field(init=False, factory=list)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on."""
        for item in items:
            if type(item) is ToolCallMalformed and len(self._calls) < _MOST:
                self._calls.append(item.info)
            yield item

    def flush(self) -> Iterator[Delta]:
        """The words."""
        for call in self._calls:
            said = _WORDS[self._language].format(name=call.name[:_NAME] or "?", reason=call.reason)
            yield Appendix(f"\n\n{said}")
