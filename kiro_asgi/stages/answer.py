"""The one place where the order of the stages is written, for the gateway and for the library alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from kiro_asgi.model.events import Delta, Event, MessageEnd
from kiro_asgi.stages.base import Pipeline, Stage
from kiro_asgi.stages.blocks import BlockFramer
from kiro_asgi.stages.ending import EndOfStream
from kiro_asgi.stages.estimate import Estimator, TokenEstimator
from kiro_asgi.stages.limits import Limits
from kiro_asgi.stages.pulse import Pulse
from kiro_asgi.stages.repeats import RepeatFilter
from kiro_asgi.stages.single_call import SingleCall
from kiro_asgi.stages.thinking import TAGS, ThinkingSplitter
from kiro_asgi.stages.tool_calls import ToolCallAssembler
from kiro_asgi.stages.tool_names import ToolNames
from kiro_asgi.stages.usage import UsageMeter

__all__ = ["Answer", "Plan", "build_pipeline"]


@frozen(kw_only=True)
class Plan:
    """What the stages of one answer are to do."""

    thinking: str = ""
    """What becomes of thinking, see `ThinkingSplitter`; empty leaves everything as the upstream sent it."""

    thinking_tags: tuple[str, ...] = TAGS
    """Names of the tags that hold thinking in the text; none where only the upstream's own kind is meant."""

    thinking_scan: str = "start"

    stop: tuple[str, ...] = ()
    """Texts that end the answer where the upstream cannot be told of them."""

    max_tokens: int | None = None
    """Answer tokens after which it is cut, by our own estimate."""

    tool_emission: str = "complete"
    drop_equal_tool_calls: bool = True
    drop_repeated_text: bool = False
    tool_input_bytes: int = 16 * 1024 * 1024
    tool_names: Mapping[str, str] = field(factory=dict)
    """Name on the wire to the client's name."""

    parallel_tool_calls: bool = True
    """Whether the answer may hold several calls."""

    lead_in: str = ""
    """Text before an answer that begins with a tool call."""

    input_tokens: int = 0
    """The prompt's size, estimated."""

    context_window: int | None = None
    estimator: Estimator = field(factory=TokenEstimator)
    """Counts where the upstream does not."""


@frozen
class Answer:
    """One try at an answer: upstream bytes in, events out."""

    _pipeline: Pipeline[bytes, Event]
    _neutral: Pipeline[Delta, Event]
    """The pipeline without the upstream's own stages."""

    _pulse: Pulse
    _limits: Limits | None
    _framer: BlockFramer

    def feed(self, chunks: Iterable[bytes], /) -> Iterator[Event]:
        """The events that some more bytes lead to."""
        return self._pipeline.feed(chunks)

    def flush(self) -> Iterator[Event]:
        """The events that the end of the bytes leads to; the upstream's, or one of our own making in the middle of a
        frame, where a limit was met."""
        yield from (self._neutral if self.enough else self._pipeline).flush()

    def begin(self) -> Iterator[Event]:
        """The start of the message, before there is anything in it."""
        return self._framer.begin()

    @property
    def heard(self) -> int:
        """Upstream events so far."""
        return self._pulse.count

    @property
    def enough(self) -> bool:
        """Whether a limit was met, so that the rest of the answer is not wanted."""
        return self._limits is not None and self._limits.reached

    @property
    def end(self) -> MessageEnd | None:
        """How the answer ended, once it has."""
        return self._framer.end


def build_pipeline(decoder: Iterable[Stage[Any, Any]], plan: Plan) -> Answer:
    """Fresh stages for one try.

    Args:
        decoder: The upstream's own stages, bytes to deltas.
        plan: What the neutral ones are to do.
    """
    pulse = Pulse()
    limited = plan.stop or plan.max_tokens is not None
    limits = Limits(stop=plan.stop, max_tokens=plan.max_tokens, estimator=plan.estimator) if limited else None
    framer = BlockFramer(input_tokens=plan.input_tokens, lead_in=plan.lead_in)
    stages: tuple[Stage[Any, Any] | None, ...] = (
        pulse,
        RepeatFilter() if plan.drop_repeated_text else None,
        _splitter(plan) if plan.thinking else None,
        limits,
        ToolCallAssembler(
            emission=plan.tool_emission, drop_equal=plan.drop_equal_tool_calls, max_bytes=plan.tool_input_bytes
        ),
        None if plan.parallel_tool_calls else SingleCall(),
        ToolNames(plan.tool_names) if plan.tool_names else None,
        EndOfStream(),
        UsageMeter(input_tokens=plan.input_tokens, context_window=plan.context_window, estimator=plan.estimator),
        framer,
    )
    neutral = [stage for stage in stages if stage is not None]
    return Answer(Pipeline(*decoder, *neutral), Pipeline(*neutral), pulse, limits, framer)


def _splitter(plan: Plan) -> ThinkingSplitter:
    return ThinkingSplitter(mode=plan.thinking, tags=plan.thinking_tags, scan=plan.thinking_scan)
