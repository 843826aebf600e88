"""Assembling tool calls from fragments.

What a fragment may do, in every emission mode:

* Fragments belong together by call id; those of several calls may alternate.  Without an id, a fragment continues the
  call that was opened last, unless it names another tool; it opens one if there is none, and that gets an id.
* ``stop`` ends a call, and the strict JSON parser judges it.  Only an object is delivered as it is; any other value
  becomes the member ``input`` of one, and absent arguments become ``{}``.  What does not parse is mended, where that is
  beyond doubt; else it is a `ToolCallCut` if it ends too early, and a `ToolCallMalformed` if it is complete.
* A call that ends without arguments may come once more, with some, under the same id; those count.  It goes out when
  the answer ends, and what follows it waits.
* A call that is still open at the end of the answer is delivered if its arguments are a whole object, else cut.
* A name may come late; a call that never gets one is cut, or malformed where the upstream called it complete.

An assembler yields whole calls: `ToolCallStart`, `ToolInputDelta`, `ToolCallEnd`, with nothing of another kind between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import ConfigError
from kiro_asgi.limits import TOOL_INPUT_BYTES
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import Delta
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.parts.argument_text import MENDINGS
from kiro_asgi.stages.tool_calls_incremental import IncrementalCalls
from kiro_asgi.stages.tool_calls_whole import AtEnd, AtOnce, WholeCalls

EMISSIONS: Final = ("complete", "end", "incremental")


@define(kw_only=True)
class ToolCallAssembler:
    """Turn every `ToolCallFragment` into part of a whole call; everything else passes.

    ===============  ===============================================================================================
    *emission*       when a call goes out
    ===============  ===============================================================================================
    ``complete``     The moment its JSON is complete.  Alternating calls go out in the order of their *ends*;
                     fragments that come after are ignored.
    ``end``          After everything else, in the order of first appearance.  Where the upstream sends a call
                     twice, the one with the most complete arguments wins.
    ``incremental``  Fragment by fragment.  Alternating calls wait for their turn, and so does text behind an open
                     call.  A call may be cut when part of it has been sent; nothing can be dropped as equal.
    ===============  ===============================================================================================

    Raises:
        ConfigError: No such emission.
        AnswerTooLarge: From `feed`: calls that are open, and what waits behind them, take more than the budget.
    """

    emission: str = "complete"

    drop_equal: bool = True
    """Drop a call whose name and arguments equal those of an earlier one: only for a service that repeats calls."""

    id_stem: str = "call"
    """The prefix of ids for calls that come without one; a number follows."""

    mendings: Collection[str] = MENDINGS
    """Names of repairs to arguments, see `kiro_asgi.stages.parts.argument_text`."""

    max_bytes: int = TOOL_INPUT_BYTES
    """Arguments of one call, in UTF-8; a call with more is cut."""

    budget: AnswerBudget = field(factory=AnswerBudget)
    """Of the answer."""

    _stage: Stage[Delta, Delta] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._stage = self._choose()

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on with whole calls in place of fragments."""
        return self._stage.feed(items)

    def flush(self) -> Iterator[Delta]:
        """The calls that are due, and the verdict on those still open."""
        return self._stage.flush()

    def _choose(self) -> Stage[Any, Delta]:
        match self.emission:
            case "complete":
                at_once = AtOnce(self.drop_equal, self.max_bytes, self.budget)
                return WholeCalls(at_once, self.max_bytes, self.id_stem, self.budget, self.mendings)
            case "end":
                at_end = AtEnd(self.drop_equal, self.budget)
                return WholeCalls(at_end, self.max_bytes, self.id_stem, self.budget, self.mendings)
            case "incremental":
                return IncrementalCalls(self.max_bytes, self.id_stem, self.budget, self.mendings)
        raise ConfigError(f"tool emission must be one of {', '.join(EMISSIONS)}, not {self.emission!r}")
