"""Events of an answer, before and after it has been cut into blocks.

An upstream's decoder yields **deltas**: increments in the order the service sent them, without any structure.  The last
vendor-neutral stage, `kiro_asgi.stages.blocks.BlockFramer`, turns them into **events** that obey a grammar::

    stream = MessageStart block* MessageEnd
    block  = BlockStart piece* BlockEnd
    piece  = TextDelta | Citation | RefusalDelta | ThinkingDelta | SignatureDelta | ToolInputDelta | BlockMembers

    a TEXT block holds TextDelta* Citation*, a REFUSAL block RefusalDelta only, a THINKING block ThinkingDelta*
    SignatureDelta?, a REDACTED_THINKING block nothing (its data is in BlockStart), a TOOL_CALL block ToolInputDelta*
    whose texts join to one JSON object, a SERVER_CALL, a SERVER_RESULT and an OPAQUE block nothing (their value is in
    BlockStart);
    a TEXT block that continues another stands right after it; a result stands somewhere after its call, and after
    one that the model does not reword stands a TEXT block with the same content; BlockMembers stand anywhere in a
    block of their kind, MessageMembers and an OpaqueEvent anywhere behind MessageStart

Members and what is opaque are of one API, whose reader does not understand them (`kiro_asgi.model.unread`); they are
there only where the client's API is the same.

Blocks never overlap and are numbered 0, 1, 2 … without gaps.  Every dialect's encoder is a table over this grammar, and
`kiro_asgi.model.message.fold` turns the same events into a whole message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, Literal, TypeVar

from attrs import evolve, field, frozen

from kiro_asgi.model.conversion import member
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.unread import Unread

__all__ = [
    "Appendix",
    "BlockEnd",
    "BlockKind",
    "BlockMembers",
    "BlockStart",
    "Citation",
    "CodeReferences",
    "ContextUsage",
    "ConversationId",
    "Declined",
    "Delta",
    "Event",
    "FollowupPrompt",
    "Grounding",
    "MalformedCall",
    "MessageEnd",
    "MessageMembers",
    "MessageStart",
    "Metering",
    "ModelName",
    "Notice",
    "OpaqueBlock",
    "OpaqueEvent",
    "RedactedThinking",
    "RefusalDelta",
    "ServedTier",
    "ServerCall",
    "ServerResult",
    "SideRun",
    "SignatureDelta",
    "Stop",
    "StopReason",
    "TextBreak",
    "TextDelta",
    "ThinkingDelta",
    "TokenUsage",
    "ToolCallCut",
    "ToolCallEnd",
    "ToolCallFragment",
    "ToolCallMalformed",
    "ToolCallStart",
    "ToolInputDelta",
    "TruncationInfo",
    "Usage",
    "UsageSource",
]


T = TypeVar("T")


def _type(name: T) -> T:
    """The name of a kind of event, which it keeps as plain data (`attrs.asdict`, cattrs): cattrs finds its class by it.

    It is no part of the value, so it is neither compared nor shown.
    """
    return field(default=name, kw_only=True, eq=False, repr=False)


class BlockKind(Enum):
    """Kind of a block."""

    TEXT = "text"
    REFUSAL = "refusal"
    THINKING = "thinking"
    REDACTED_THINKING = "redacted_thinking"
    TOOL_CALL = "tool_call"
    SERVER_CALL = "server_call"
    SERVER_RESULT = "server_result"
    OPAQUE = "opaque"
    """One that the reader of its API does not understand."""


class StopReason(Enum):
    """Why the model stopped, whatever the upstream or the dialect calls it."""

    END = "end"
    TOOL_CALL = "tool_call"
    LENGTH = "length"
    CONTEXT_FULL = "context_full"
    STOP_SEQUENCE = "stop_sequence"
    CONTENT_FILTER = "content_filter"
    """A filter took the answer, or the rest of it."""

    PAUSED = "paused"
    """The service stopped before the end, and would go on if it were asked to."""

    COMPACTED = "compacted"
    """The service has summed the conversation up, and stopped: whoever asked for that sends the summary back."""

    REFUSAL = "refusal"
    """The model declined, in a text that was sent (`RefusalDelta`), and ended."""


class UsageSource(Enum):
    """Where a token count comes from, best first."""

    UPSTREAM = "upstream"
    CONTEXT = "context"
    ESTIMATE = "estimate"
    METERING = "metering"


# Increments that survive framing.


WEB_SEARCH: Final = "web_search"
"""Kind of the tool that every API has."""

UNAVAILABLE: Final = "unavailable"
"""Error code of a tool that cannot be run, or failed for no reason that has a code of its own."""

_GAP: Final = "\n\n"


@frozen
class SearchHit:
    """One page that a search found."""

    title: str
    url: str
    snippet: str = ""
    published: str = ""
    """Date, ``2026-03-14``; empty when unknown."""

    encrypted_content: str = ""
    """Content that only the service can read, and that goes back with the history; empty for none."""

    def __str__(self) -> str:
        """Title, address and snippet, a line each."""
        head = f"{self.title} ({self.published})" if self.published else self.title
        return "\n".join(line for line in (head, self.url, self.snippet) if line)


@frozen
class ToolOutput:
    """The output of a tool: pages, or a text, or an error."""

    hits: tuple[SearchHit, ...] = ()
    text: str = ""
    """The output of a tool that does not search; of an error, its message."""

    error_code: str = ""
    """A word of the Messages API, e.g. ``too_many_requests``; empty for success."""

    reworded: bool = field(default=False, eq=False)
    """Whether the model has read it and goes on in its own words, so that no text of the answer repeats it."""

    @property
    def told(self) -> str:
        """All of it as text, never empty; its `spans` say where the hits are."""
        if self.hits:
            return _GAP.join(map(str, self.hits))
        return self.text or self.error_code or "Nothing was found."

    def spans(self) -> Iterator[tuple[int, int, SearchHit]]:
        """Where in `told`, if that becomes part of the answer, each hit begins and ends, in characters."""
        if self.reworded:
            return
        end = -len(_GAP)
        for hit in self.hits:
            start = end + len(_GAP)
            end = start + len(str(hit))
            yield start, end, hit


@frozen
class ServerCall:
    """The model calls a tool that is run on the way; complete."""

    call_id: str
    name: str
    """As the client calls the tool."""

    kind: str
    """E.g. ``web_search``."""

    input: Mapping[str, Any] = field(factory=dict)
    origin: Unread | None = field(default=None, eq=False)
    """The whole block as the service has sent it; ``None`` where the gateway runs the tool."""

    event_type: Literal["server_call"] = _type("server_call")


@frozen
class ServerResult:
    """A call with the tool's output."""

    call: ServerCall
    output: ToolOutput
    origin: Unread | None = field(default=None, eq=False)
    """As of `ServerCall`."""

    event_type: Literal["server_result"] = _type("server_result")


@frozen
class TextDelta:
    """Some answer text."""

    text: str
    event_type: Literal["text_delta"] = _type("text_delta")


@frozen
class RefusalDelta:
    """Some text by which the model declines to answer, where the service marks it as such."""

    text: str
    event_type: Literal["refusal_delta"] = _type("refusal_delta")


@frozen
class Citation:
    """A source of the text before it, as the service names it.

    What it is a source of is counted back from where it stands: whatever becomes of the text before, the characters
    between are those that the client has.
    """

    begins: int
    """Characters from the beginning of the cited text to here."""

    ends: int = 0
    """Characters from its end to here."""

    title: str = ""
    url: str = ""
    """Of a page; empty for a source that has no address."""

    quote: str = ""
    """The text that is quoted."""

    location: Mapping[str, Any] = field(factory=dict)
    """The whole citation in the form of the Messages API; empty where it comes from a service with another API."""

    origin: Unread | None = field(default=None, eq=False, kw_only=True)
    """The whole annotation as the service has sent it, for clients of its API alone."""

    instead: tuple[Notice, ...] = field(default=(), eq=False, kw_only=True)
    """What clients of other APIs get of a source that has neither address nor location."""

    event_type: Literal["citation"] = _type("citation")


@frozen
class ThinkingDelta:
    """Some thinking text."""

    text: str
    member: str = field(default="", eq=False, kw_only=True)
    """Name under which the service sent it, where services of its API have several."""

    event_type: Literal["thinking_delta"] = _type("thinking_delta")


@frozen
class SignatureDelta:
    """The seal over the thinking before it; whole, never a fragment."""

    signature: str
    event_type: Literal["signature_delta"] = _type("signature_delta")


@frozen
class ToolInputDelta:
    """A piece of the open tool call's arguments."""

    json: str
    """JSON text; the pieces of one call join to one JSON object."""

    event_type: Literal["tool_input_delta"] = _type("tool_input_delta")


# Increments that framing consumes.


@frozen
class TextBreak:
    """The service ends a block of text: text with sources is in blocks of its own, and so is each message."""

    phase: str = ""
    """``commentary`` or ``final_answer``, where a message ends with the block and the service names its phase; empty
    where the next text continues this one."""

    event_type: Literal["text_break"] = _type("text_break")


@frozen
class RedactedThinking:
    """Thinking that the upstream only hands out sealed."""

    data: str
    """Base64, opaque."""

    unread: Unread | None = None
    """Members of its block that are not understood."""

    event_type: Literal["redacted_thinking"] = _type("redacted_thinking")


@frozen
class ToolCallFragment:
    """One upstream frame of a tool call, exactly as it came."""

    call_id: str
    name: str = ""
    """Empty where the upstream does not repeat it."""

    input: str = ""
    """A fragment of JSON text, to be joined in order."""

    stop: bool = False
    """Whether the arguments are complete with this fragment."""

    unread: Unread | None = None
    """Members of the call that are not understood, as far as this frame has any."""

    event_type: Literal["tool_call_fragment"] = _type("tool_call_fragment")


@frozen
class ToolCallStart:
    """A tool call that will be delivered begins."""

    call_id: str
    name: str
    unread: Unread | None = None
    """Members of the call that are not understood, as far as they are known."""

    event_type: Literal["tool_call_start"] = _type("tool_call_start")


@frozen
class ToolCallEnd:
    """The tool call's arguments are complete and valid."""

    call_id: str
    unread: Unread | None = None
    """Members of the call that are not understood, and came after it had begun to be sent."""

    event_type: Literal["tool_call_end"] = _type("tool_call_end")


@frozen
class TruncationInfo:
    """Facts about a tool call that was cut short."""

    call_id: str
    name: str
    reason: str
    """Why it counts as cut, e.g. ``unbalanced delimiters``."""

    size_bytes: int
    """Length of what did arrive, in UTF-8 bytes."""

    digest: str = ""
    """SHA-256 of what did arrive, hexadecimal: equal for a call that was made, and cut, again as it was."""


@frozen
class ToolCallCut:
    """A tool call ended before its arguments did; it is reported, never delivered."""

    info: TruncationInfo
    event_type: Literal["tool_call_cut"] = _type("tool_call_cut")


@frozen
class MalformedCall:
    """Facts about a tool call whose arguments are complete and not JSON."""

    call_id: str
    name: str
    reason: str
    """The parser's message; nothing of their text."""

    size_bytes: int
    """Their length, in UTF-8 bytes."""

    digest: str = ""
    """As of `TruncationInfo`."""


@frozen
class ToolCallMalformed:
    """A tool call came to its end and cannot be read; it is reported, never delivered."""

    info: MalformedCall
    event_type: Literal["tool_call_malformed"] = _type("tool_call_malformed")


@frozen
class Declined:
    """Why a service declined to answer, in its own words; empty where it does not say."""

    category: str = ""
    """The policy that the request met, e.g. ``cyber``."""

    explanation: str = ""
    """A sentence for people."""

    recommended_model: str = ""
    """A model that may answer."""


def _reason(value: StopReason | str) -> StopReason:
    return member(StopReason, value)


@frozen
class Stop:
    """Why the model stopped; the last one wins."""

    reason: StopReason = field(converter=_reason)
    """Or its value, e.g. ``end``."""

    sequence: str | None = None
    """The stop sequence that was met, for ``STOP_SEQUENCE``."""

    declined: Declined | None = None
    """What the service says of it, for ``CONTENT_FILTER``."""
    event_type: Literal["stop"] = _type("stop")


@frozen
class SideRun:
    """Another run of a model for the same answer, which the service charges for and does not count with the answer: a
    summary of the conversation, or the advice of another model."""

    kind: str
    """As the service calls it, e.g. ``compaction``."""

    model: str = ""
    """Empty for the model that answers."""

    input_tokens: int = 0
    """Uncached prompt tokens."""

    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@frozen
class TokenUsage:
    """Token counts as the upstream reports them; ``None`` is "not reported", which is not 0."""

    input_tokens: int | None = None
    """Uncached prompt tokens."""

    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    thinking_tokens: int | None = None
    image_tokens: int | None = None
    """The part of *output_tokens* that is images."""

    side_runs: tuple[SideRun, ...] | None = None
    """Runs whose tokens are in none of the counts above."""

    event_type: Literal["token_usage"] = _type("token_usage")


@frozen
class ContextUsage:
    """How full the context window is, prompt and answer together."""

    percentage: float
    """0 to 100."""

    event_type: Literal["context_usage"] = _type("context_usage")


@frozen
class Metering:
    """The cost of the answer, in the upstream's own unit; not tokens."""

    amount: float
    unit: str = ""
    source: UsageSource = UsageSource.UPSTREAM
    event_type: Literal["metering"] = _type("metering")


@frozen
class FollowupPrompt:
    """A question the service proposes to ask next; never shown as answer text."""

    value: Any
    event_type: Literal["followup_prompt"] = _type("followup_prompt")


@frozen
class Appendix:
    """Text that is put after the answer, in a block of its own; the model has not written it."""

    text: str
    event_type: Literal["appendix"] = _type("appendix")


@frozen
class Grounding:
    """The pages that the model read for its answer; of several in one answer the last counts."""

    queries: tuple[str, ...] = ()
    hits: tuple[SearchHit, ...] = ()
    """The pages, in the order of their numbers; a title or an address may be missing."""

    event_type: Literal["grounding"] = _type("grounding")


@frozen
class CodeReferences:
    """Licensed sources that the answer resembles."""

    references: tuple[dict[str, Any], ...]
    event_type: Literal["code_references"] = _type("code_references")


@frozen
class ConversationId:
    """The service's id for this conversation."""

    value: str
    event_type: Literal["conversation_id"] = _type("conversation_id")


@frozen
class ServedTier:
    """The service tier that answers, as the service says; the last one counts."""

    tier: Tier
    event_type: Literal["served_tier"] = _type("served_tier")


@frozen
class ModelName:
    """The model that really answers, where the service chooses one."""

    value: str
    event_type: Literal["model_name"] = _type("model_name")


@frozen
class Notice:
    """Something in the upstream's answer was passed over, or a stage has something to report; worth a line in the log,
    never a failure."""

    code: str
    """Stable word, e.g. ``event.undecodable``."""

    detail: str = ""
    source: str = field(default="", eq=False)
    """The stage from outside that gave it, whose business it is: the log has it as information, and not as a warning.
    Set by the gateway; empty for what is its own."""

    event_type: Literal["notice"] = _type("notice")


RUN_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
"""Names of the counts that every run of a model has."""


@frozen
class Usage:
    """Final token counts of a message: of all that is charged for it, those of each `SideRun` included."""

    input_tokens: int = 0
    """Prompt tokens without those read from or written to a cache."""

    output_tokens: int = 0
    """Answer tokens, thinking included."""

    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0
    """The part of *output_tokens* that is thinking."""

    input_source: UsageSource = UsageSource.ESTIMATE
    output_source: UsageSource = UsageSource.ESTIMATE
    metering: Metering | None = None
    cache_source: UsageSource | None = None
    """``None``: the upstream reported nothing about a cache."""

    thinking_source: UsageSource = UsageSource.ESTIMATE
    output_estimate: int = field(default=0, eq=False)
    """Answer tokens by our own estimate, uncalibrated, whatever *output_tokens* comes from; not compared."""
    image_tokens: int = 0
    """The part of *output_tokens* that is images, as far as the service says so."""

    side_runs: tuple[SideRun, ...] = ()
    """Runs whose tokens are in the counts above, and not of the answer itself."""

    tier: Tier | None = None
    """The service tier that answers; ``None`` where the service does not say."""

    event_type: Literal["usage"] = _type("usage")

    @property
    def prompt_tokens(self) -> int:
        """Everything the model read, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def charged_by_service(self) -> float | None:
        """What the service says that it took, in its own unit; ``None`` where it says nothing."""
        if self.metering is None or self.metering.source is not UsageSource.UPSTREAM:
            return None
        return self.metering.amount

    @property
    def of_answer(self) -> Usage:
        """The counts of the answer itself, without other runs."""
        if not self.side_runs:
            return self
        counts = {name: getattr(self, name) - sum(getattr(run, name) for run in self.side_runs) for name in RUN_COUNTS}
        return evolve(self, **counts, side_runs=())


# What the reader of an API does not understand, for clients of the same API.


@frozen
class MessageMembers:
    """Members of the message that are not understood."""

    unread: Unread
    """In the shape of an event of the API, which holds nothing else."""

    instead: tuple[Notice, ...] = ()
    """What clients of other APIs get."""

    event_type: Literal["message_members"] = _type("message_members")


@frozen
class BlockMembers:
    """Members of one block that are not understood; one that is not open yet begins with them."""

    kind: BlockKind
    unread: Unread
    """In the shape of the block, or a piece of a kind that is not understood, in the shape of that."""

    instead: tuple[Notice, ...] = ()
    """As of `MessageMembers`."""

    event_type: Literal["block_members"] = _type("block_members")


@frozen
class OpaqueBlock:
    """A whole block of a kind that is not understood."""

    unread: Unread
    """The block."""

    pieces: tuple[Mapping[str, Any], ...] = ()
    """The block as it opened, and its pieces, as they came in a stream; none where it came whole."""

    instead: tuple[TextDelta | ThinkingDelta | SignatureDelta | Notice, ...] = ()
    """As of `MessageMembers`."""

    event_type: Literal["opaque_block"] = _type("opaque_block")


@frozen
class OpaqueEvent:
    """An event of a stream that is not understood, and that has no place in an answer that is sent whole."""

    unread: Unread
    """The event."""

    instead: tuple[Notice, ...] = ()
    """As of `MessageMembers`; clients that receive the answer whole get it, too."""

    event_type: Literal["opaque_event"] = _type("opaque_event")


Delta = (
    TextDelta
    | TextBreak
    | Citation
    | RefusalDelta
    | ThinkingDelta
    | SignatureDelta
    | RedactedThinking
    | ToolCallFragment
    | ToolCallStart
    | ToolInputDelta
    | ToolCallEnd
    | ToolCallCut
    | ToolCallMalformed
    | ServerCall
    | ServerResult
    | Stop
    | TokenUsage
    | ContextUsage
    | Metering
    | FollowupPrompt
    | Grounding
    | Appendix
    | CodeReferences
    | ConversationId
    | ModelName
    | ServedTier
    | Notice
    | Usage
    | MessageMembers
    | BlockMembers
    | OpaqueBlock
    | OpaqueEvent
)
"""Items between an upstream's decoder and the framer."""


# Structure that framing adds.


@frozen
class MessageStart:
    """An answer begins."""

    usage: Usage = field(factory=Usage)
    """Facts that are known before the answer: the estimated size of the prompt, and the tier, where the service begins
    with it."""

    unread: tuple[Unread, ...] = ()
    """Members of the message that are not understood and came before its content, as of `MessageMembers`."""

    event_type: Literal["message_start"] = _type("message_start")


@frozen
class BlockStart:
    """A content block opens."""

    index: int
    """Position in the message, from 0, without gaps."""

    kind: BlockKind
    call_id: str = ""
    """Tool-call id; empty unless *kind* is ``TOOL_CALL``."""

    name: str = ""
    """Tool name; empty unless *kind* is ``TOOL_CALL``."""

    data: str = ""
    """Sealed thinking; empty unless *kind* is ``REDACTED_THINKING``."""

    value: ServerCall | ServerResult | OpaqueBlock | None = None
    """The whole block, where *kind* is ``SERVER_CALL``, ``SERVER_RESULT`` or ``OPAQUE``."""

    continues: bool = False
    """Whether the text goes on from the text block before, which ended for its citations only."""

    unread: Unread | None = None
    """Members that are not understood, as far as the block begins with them; `BlockMembers` come later."""

    event_type: Literal["block_start"] = _type("block_start")


@frozen
class BlockEnd:
    """The open block closes."""

    index: int
    phase: str = ""
    """Of a text, as of `TextBreak`."""

    event_type: Literal["block_end"] = _type("block_end")


@frozen
class MessageEnd:
    """The answer is complete, or as complete as it will get."""

    stop_reason: StopReason
    stop_sequence: str | None = None
    usage: Usage = field(factory=Usage)
    truncations: tuple[TruncationInfo, ...] = ()
    """Tool calls that were cut short and therefore left out."""

    references: tuple[dict[str, Any], ...] = ()
    """Licensed sources, see `CodeReferences`."""

    notices: tuple[Notice, ...] = ()
    """Something that was skipped on the way."""

    malformed: tuple[MalformedCall, ...] = ()
    """Tool calls that could not be read and were therefore left out."""

    declined: Declined | None = None
    """As of `Stop`."""
    event_type: Literal["message_end"] = _type("message_end")


Event = (
    MessageStart
    | BlockStart
    | TextDelta
    | Citation
    | RefusalDelta
    | ThinkingDelta
    | SignatureDelta
    | ToolInputDelta
    | MessageMembers
    | BlockMembers
    | OpaqueEvent
    | BlockEnd
    | MessageEnd
)
"""Items between the framer and an encoder or `fold`."""
