"""Telling the client of tool calls that were withheld because they could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from kiro_asgi.model.events import Appendix, MalformedCall

__all__ = ["words_for"]

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


def words_for(calls: Iterable[MalformedCall], language: str) -> Iterator[Appendix]:
    """What the client is told behind the answer, in ``en`` or ``zh``; of very many calls, about the first.

    Without a word it would see an answer that just ends, where the model meant to do something.
    """
    for call in islice(calls, _MOST):
        said = _WORDS[language].format(name=call.name[:_NAME] or "?", reason=call.reason)
        yield Appendix(f"\n\n{said}")
