"""Order and options of the stages of an answer, for the gateway and for the library alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from kiro_asgi.limits import ANSWER_BYTES, TOOL_INPUT_BYTES
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import Delta, Event, MessageEnd, ServerCall, ServerResult, Usage
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.prompt import ToolChoice, Turn
from kiro_asgi.stages.arguments import ArgumentRepairs, Rename
from kiro_asgi.stages.base import Pipeline, Stage
from kiro_asgi.stages.blocks import BlockFramer
from kiro_asgi.stages.call_signatures import CallSignatures, HeardThinking, SignedCall
from kiro_asgi.stages.citations import Citations, CitedPages, Citing
from kiro_asgi.stages.cut_answers import Fingerprint, Fingerprinter
from kiro_asgi.stages.ending import EndOfStream
from kiro_asgi.stages.estimate import Estimator, TokenEstimator
from kiro_asgi.stages.filters import (
    ArgumentNames,
    EventCounter,
    KeptAnswer,
    RepeatFilter,
    ServerTools,
    SingleCall,
    ToolNames,
)
from kiro_asgi.stages.limits import Limits
from kiro_asgi.stages.opaque import SameApi
from kiro_asgi.stages.parts.argument_text import MENDINGS
from kiro_asgi.stages.parts.open_calls import ArgumentReading
from kiro_asgi.stages.promises import (
    AskedCall,
    DemandedCall,
    DemandedSearch,
    ForbiddenCalls,
    StructuredAnswer,
    StructuredCheck,
)
from kiro_asgi.stages.thinking import TAGS, OmittedThinking, ThinkingSplitter
from kiro_asgi.stages.tool_calls import ToolCallAssembler
from kiro_asgi.stages.tool_spelling import MCP, ToolSpelling
from kiro_asgi.stages.usage import UsageMeter
from kiro_asgi.stages.written_calls import MCP_XML, Form, WrittenCalls, leaked_forms


@frozen(kw_only=True)
class Repairs:
    """Repairs for the client's tools; none where there are no tools, or where nothing is switched on.

    A stage that has nothing to do is no stage: each property is ``None`` then.
    """

    schemas: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    """JSON Schemas of arguments by the client's name of the tool."""

    aliases: Mapping[str, str] = field(factory=dict)
    """Name on the wire to the client's name: what the model knows a tool by."""

    renames: tuple[Rename, ...] = ()
    twins: bool = False
    decode: bool = False
    drop_unknown: bool = False
    mcp_bridge: bool = False
    spelling: bool = False
    leaked_calls: bool = False

    @property
    def written_calls(self) -> WrittenCalls | None:
        """The stage that finds calls in the text."""
        forms: list[Form] = [MCP_XML] if self.mcp_bridge and self._has_mcp else []
        if self.leaked_calls and self.schemas:
            known = {wire for wire, name in self.aliases.items() if name in self.schemas}
            forms += leaked_forms(known | set(self.schemas))
        return WrittenCalls(tuple(forms)) if forms else None

    @property
    def tool_spelling(self) -> ToolSpelling | None:
        """The stage that corrects names of MCP tools."""
        return ToolSpelling(self.schemas) if self.spelling and self._has_mcp else None

    @property
    def arguments(self) -> ArgumentRepairs | None:
        """The stage that repairs arguments of calls that come whole."""
        if not self.schemas or not (self.renames or self.twins or self.decode or self.drop_unknown):
            return None
        return ArgumentRepairs(
            schemas=self.schemas,
            renames=self.renames,
            twins=self.twins,
            decode=self.decode,
            drop_unknown=self.drop_unknown,
        )

    @property
    def _has_mcp(self) -> bool:
        return any(name.startswith(MCP) for name in self.schemas)


@frozen(kw_only=True)
class Plan:
    """Options of the stages of one answer."""

    api: str = ""
    """The client's API, `kiro_asgi.dialects.base.Dialect.name`, to which goes what a service of the same API sends and
    its reader does not understand; empty leaves that out."""

    streamed_api: str = ""
    """The same where the client receives the events of a stream as they come."""

    thinking: str = ""
    """The mode of `ThinkingSplitter`; empty leaves everything as the upstream sent it."""

    thinking_tags: tuple[str, ...] = TAGS
    """Names of the tags that hold thinking in the text; none where only the upstream's own kind is meant."""

    thinking_scan: str = "start"
    thinking_omitted: bool = False
    """Whether the client wants no text of thinking, only its seals; it is counted all the same."""

    stop: tuple[str, ...] = ()
    """Stop sequences that the gateway looks for, where the upstream does not."""

    max_tokens: int | None = None
    """Answer tokens after which it is cut, by our own estimate."""

    tool_emission: str = "complete"
    drop_equal_tool_calls: bool = True
    call_id_stem: str = "call"
    """The prefix of ids for calls that come without one."""

    conversation: tuple[Turn, ...] = field(default=(), repr=False)
    """The turns that the client will send back before the answer, whose calls have ids that no other call gets."""

    drop_repeated_text: bool = False
    text_tools: Collection[str] = ()
    """Names that the upstream has for tools that take a text."""

    mendings: Collection[str] = MENDINGS
    """Names of repairs to the text of arguments, see `kiro_asgi.stages.parts.argument_text`."""

    tool_input_bytes: int = TOOL_INPUT_BYTES
    answer_bytes: int = ANSWER_BYTES
    """Bytes for what has to be kept of the answer, see `AnswerBudget`."""

    kept_whole: bool = False
    """Whether the answer has to be kept until its end."""

    tool_names: Mapping[str, str] = field(factory=dict)
    """Name on the wire to the client's name."""

    argument_names: Mapping[str, str] = field(factory=dict)
    """The same of arguments."""

    repairs: Repairs = field(factory=Repairs)
    """Repairs of tool calls that arrive broken."""

    server_tools: Mapping[str, str] = field(factory=dict)
    """Tools that the client does not run: the client's name to the kind."""

    citing: Citing | None = None
    """Form of the list of sources from the web; ``None`` for no list."""

    cites_pages_only: bool = False
    """Whether sources without an address are left out."""

    keep_call_signatures: bool = False
    """Whether signatures of tool calls may have to be put back, see `kiro_asgi.stages.call_signatures`."""

    thinking_owner: str = ""
    """As of `kiro_asgi.stages.call_signatures.HeardThinking.owner`; empty for none."""

    other_signatures: bool = True
    """Whether signatures of thinking and text are passed on then."""

    tool_choice: ToolChoice = field(factory=ToolChoice)
    """The tool choice that the answer must satisfy, by the client's names."""

    tool_promise: str = "enforce"
    """What is done about an answer without a call that it demands: ``enforce`` or ``ask``."""

    lead_in: str = ""
    """Text before an answer that begins with a tool call."""

    input_tokens: int = 0
    """The prompt's size, estimated."""

    context_window: int | None = None
    tier: Tier | None = None
    """The service tier by the head of the answer."""

    estimator: Estimator = field(factory=TokenEstimator)
    """Counts where the upstream does not."""

    output_factor: float = 1.0
    """The calibrated factor of output estimates, see `kiro_asgi.stages.estimate`."""

    fingerprint: bool = False
    """Whether the answer may have to be known again, see `kiro_asgi.stages.cut_answers`."""

    language: str = "en"
    """Language of the notice about calls that could not be read, ``en`` or ``zh``; empty for no notice."""

    schema: Mapping[str, Any] | None = None
    """JSON Schema of an answer that is to be a JSON object; ``None`` for any text."""

    stages: tuple[Callable[[], Stage[Delta, Delta]], ...] = ()
    """Make the application's own stages, which see what the client will be shown, before it is cut into blocks."""

    schema_enforced: bool = False
    """Whether such an answer is held back until it was checked, instead of being watched."""


@define
class Answer:
    """One try at an answer: upstream bytes in, events out.

    Where the model may call tools that are run on the way, it ends in three steps: `drain`, then `resolve` for what is
    `pending`, then `flush`.
    """

    _decoder: Pipeline[bytes, Delta]
    """The upstream's own stages."""

    _front: Pipeline[Delta, Delta]
    """The neutral stages up to the one that finds calls of server tools."""

    _back: Pipeline[Delta, Event]
    _counter: EventCounter
    _limits: Limits | None
    _server_tools: ServerTools | None
    _framer: BlockFramer
    _fingerprinter: Fingerprinter | None
    _call_signatures: CallSignatures | None
    _meter: UsageMeter
    _drained: bool = field(init=False, default=False)
    _wrap: Callable[[Stage[Any, Any]], Stage[Any, Any]] | None = field(init=False, default=None)
    resumed: bool = field(init=False, default=False)
    """Whether the answer came in several parts, each requested from the upstream."""

    def feed(self, chunks: Iterable[bytes], /) -> Iterator[Event]:
        """The events that some more bytes lead to."""
        return self._back.feed(self._front.feed(self._decoder.feed(chunks)))

    def end_part(self) -> Iterator[Event]:
        """Events at the end of the bytes, where those of another part may follow."""
        decoder, self._decoder = self._decoder, Pipeline()
        yield from self._back.feed(self._front.feed(decoder.flush()))

    def resume(self, decoder: Iterable[Stage[Any, Any]]) -> None:
        """Take the bytes of another part, after `end_part`."""
        self._decoder, self.resumed = Pipeline(*decoder), True
        if self._wrap is not None:
            self._decoder.stages = tuple(map(self._wrap, self._decoder.stages))

    def wrap(self, wrap: Callable[[Stage[Any, Any]], Stage[Any, Any]]) -> None:
        """Replace each stage by what *wrap* makes of it, in order, to watch them."""
        self._wrap = wrap
        for pipeline in (self._decoder, self._front, self._back):
            pipeline.stages = tuple(map(wrap, pipeline.stages))

    @property
    def last_stage(self) -> Stage[Any, Any]:
        """The stage that yields the events."""
        return self._back.stages[-1]

    def drain(self) -> Iterator[Event]:
        """Events at the end of the bytes, before the message ends.

        The bytes end where the upstream ends them or, after a limit was met, in the middle of a frame.
        """
        self._drained = True
        # A decoder reports a frame that is cut as an error, and after a limit it was the gateway that cut it.
        rest = () if self.enough else self._decoder.flush()
        yield from self._back.feed(self._front.feed(rest))
        yield from self._back.feed(self._front.flush())

    @property
    def pending(self) -> tuple[ServerCall, ...]:
        """Calls of server tools; complete once the answer is drained."""
        return () if self._server_tools is None else tuple(self._server_tools.calls)

    def resolve(self, results: Iterable[ServerResult]) -> Iterator[Event]:
        """Events for the results of server tools."""
        return self._back.feed(results)

    def flush(self) -> Iterator[Event]:
        """Events up to the end of the message."""
        if not self._drained:
            yield from self.drain()
        yield from self._back.flush()

    def begin(self) -> Iterator[Event]:
        """The start of the message, before there is anything in it."""
        return self._framer.begin()

    @property
    def events_seen(self) -> int:
        """Upstream events so far."""
        return self._counter.count

    @property
    def opened(self) -> bool:
        """Whether there has been any content."""
        return self._framer.opened

    @property
    def enough(self) -> bool:
        """Whether a limit was met, so that the rest of the answer is not read."""
        return self._limits is not None and self._limits.reached

    @property
    def end(self) -> MessageEnd | None:
        """How the answer ended, once it has."""
        return self._framer.end

    @property
    def usage(self) -> Usage:
        """Tokens of the answer; of one that has not ended, those so far, with calls of which the client has nothing."""
        return self._meter.usage_with(self._counter.characters) if self.end is None else self.end.usage

    @property
    def fingerprint(self) -> Fingerprint | None:
        """Fingerprint of what the client was shown so far; ``None`` where the plan did not ask for one."""
        return None if self._fingerprinter is None else self._fingerprinter.fingerprint

    @property
    def thinking_member(self) -> str:
        """Name under which the service has sent thinking; empty where it has not, or the plan did not ask for one."""
        signatures = self._call_signatures
        return "" if signatures is None or signatures.thinking is None else signatures.thinking.member

    @property
    def call_signatures(self) -> Sequence[SignedCall]:
        """The signed calls so far, where the plan asked for that."""
        return () if self._call_signatures is None else self._call_signatures.found


def build_pipeline(decoder: Iterable[Stage[Any, Any]], plan: Plan) -> Answer:
    """Fresh stages for one try.

    Args:
        decoder: The upstream's own stages, bytes to deltas.
        plan: Options of the neutral stages.
    """
    counter = EventCounter()
    budget = AnswerBudget(plan.answer_bytes)
    limited = plan.stop or plan.max_tokens is not None
    limits = Limits(stop=plan.stop, max_tokens=plan.max_tokens, estimator=plan.estimator) if limited else None
    framer = BlockFramer(input_tokens=plan.input_tokens, tier=plan.tier, lead_in=plan.lead_in, budget=budget)
    fingerprinter = Fingerprinter() if plan.fingerprint else None
    server_tools = ServerTools(plan.server_tools, budget=budget) if plan.server_tools else None
    thinking = HeardThinking(plan.thinking_owner, budget=budget) if plan.thinking_owner else None
    call_signatures = _signatures(plan, thinking, budget) if plan.keep_call_signatures else None
    permitted = plan.tool_choice.permitted
    meter = _meter(plan)
    front: tuple[Stage[Delta, Delta] | None, ...] = (
        counter,
        SameApi(plan.api, plan.streamed_api),
        RepeatFilter() if plan.drop_repeated_text else None,
        thinking,  # before the splitter, which may leave thinking out
        _splitter(plan) if plan.thinking else None,
        limits,  # after the splitter: stop sequences count in text only, and thinking between tags is text before it
        plan.repairs.written_calls,
        _assembler(plan, budget),
        ToolNames(plan.tool_names) if plan.tool_names else None,  # the stages after it know the client's names only
        ArgumentNames(plan.argument_names) if plan.argument_names else None,
        plan.repairs.tool_spelling,
        None if permitted is None else ForbiddenCalls(permitted),
        None if plan.tool_choice.parallel else SingleCall(),
        None if plan.tool_emission == "incremental" else plan.repairs.arguments,
        call_signatures,  # of calls as the client has them
        server_tools,
    )
    back: tuple[Stage[Any, Any], ...] = (
        *([] if plan.citing is None else [Citations(plan.citing)]),
        EndOfStream(plan.language),
        *([] if plan.schema is None or plan.schema_enforced else [StructuredCheck(plan.schema)]),
        meter,
        *_held_back(plan, budget),
        *([CitedPages()] if plan.cites_pages_only else []),
        *([OmittedThinking()] if plan.thinking_omitted else []),  # after the meter: it is counted all the same
        *(make() for make in plan.stages),
        framer,
        *([KeptAnswer(budget)] if plan.kept_whole else []),
        *([] if fingerprinter is None else [fingerprinter]),
    )
    neutral = [stage for stage in front if stage is not None]
    return Answer(
        Pipeline(*decoder),
        Pipeline(*neutral),
        Pipeline(*back),
        counter,
        limits,
        server_tools,
        framer,
        fingerprinter,
        call_signatures,
        meter,
    )


def _signatures(plan: Plan, thinking: HeardThinking | None, budget: AnswerBudget) -> CallSignatures:
    return CallSignatures(plan.other_signatures, thinking=thinking, budget=budget)


def _assembler(plan: Plan, budget: AnswerBudget) -> ToolCallAssembler:
    return ToolCallAssembler(
        emission=plan.tool_emission,
        drop_equal=plan.drop_equal_tool_calls,
        id_stem=plan.call_id_stem,
        conversation=plan.conversation,
        reading=ArgumentReading(plan.mendings, plan.text_tools),
        max_bytes=plan.tool_input_bytes,
        budget=budget,
    )


def _meter(plan: Plan) -> UsageMeter:
    return UsageMeter(
        input_tokens=plan.input_tokens,
        context_window=plan.context_window,
        estimator=plan.estimator,
        output_factor=plan.output_factor,
        tier=plan.tier,
    )


def _held_back(plan: Plan, budget: AnswerBudget) -> Iterator[Stage[Any, Any]]:
    """The stage that keeps a promise; an answer that has to hold a call has no text that has to be JSON."""
    permitted, searches = plan.tool_choice.permitted, plan.citing is not None and plan.citing.demanded
    is_demanded = searches or plan.tool_choice.demanded
    if is_demanded and plan.tool_promise == "enforce":
        yield DemandedSearch(permitted, budget) if searches else DemandedCall(permitted, budget)
        return
    if is_demanded:
        yield AskedCall(permitted, plan.language)
    if plan.schema is not None and plan.schema_enforced:
        yield StructuredAnswer(plan.schema, budget)


def _splitter(plan: Plan) -> ThinkingSplitter:
    return ThinkingSplitter(mode=plan.thinking, tags=plan.thinking_tags, scan=plan.thinking_scan)
