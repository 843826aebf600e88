"""Answers under the contract: stages that clean texts and narrow the reasons to end, and whole messages.

A `Response` stands between a whole message of the service and a whole message for a client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.events import Delta, Stop, StopReason, TextDelta, Usage
from kiro_asgi.model.message import Block, Message, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolCallBlock
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.kiro.answer import STOP_REASONS
from kiro_asgi.upstreams.kiro.contract import ContractOptions, OutputMessage, Response, ResponseUsage, ToolUse
from kiro_asgi.upstreams.kiro.rules.texts import CLOSE, OPEN, sanitize_text
from kiro_asgi.wire.json import JsonError, as_object, dumps, loads

MAX_SEQUENCE: Final = 4096
"""Characters of an escape sequence that is waited for; the string of a longer one is taken for text."""

LEGACY: Final[Mapping[StopReason, StopReason]] = MappingProxyType(
    {
        StopReason.LENGTH: StopReason.LENGTH,
        StopReason.CONTEXT_FULL: StopReason.LENGTH,
        StopReason.TOOL_CALL: StopReason.TOOL_CALL,
    }
)
"""Reasons under the contract; any other is the plain end."""

_UNFINISHED: Final = re.compile(
    r"(?:\x1b(?:\[[0-?]*+[ -/]*+|[]PX^_][^\x00-\x1f\x9c]*+\x1b?|[ -/])?|\x9b[0-?]*+[ -/]*+)\Z"
)
"""An escape sequence that the end of the text cuts."""


CUT_ESCAPES: Final = ("\\u", "\\u0", "\\u00")
"""Ends of a text where the escape sequence of a character was cut."""


def safe_parse_json(value: str) -> Any:
    """Parse *value* as JSON: an object, a list or a primitive.

    White space around it is ignored, and so is the beginning of an escape sequence at its very end.

    Returns:
        The very same *value* where it is blank or not JSON.  ``NaN``, infinities, numbers that overflow and what is
        nested deeper than `kiro_asgi.limits.JSON_DEPTH` levels are not.
    """
    text = value.strip()
    if text.endswith("\\") and not text.endswith("\\\\"):
        text = text[:-1]
    elif text.endswith(CUT_ESCAPES):
        text = text[: text.rindex("\\u")]
    try:
        return loads(text)
    except JsonError:
        return value


def contract_stages(options: ContractOptions) -> tuple[Stage[Delta, Delta], ...]:
    """Fresh stages, to stand behind the service's own."""
    return (
        CleanText(),
        *((ReminderFilter(),) if options.strip_system_reminders else ()),
        *((LegacyStops(),) if options.legacy_stop_map else ()),
    )


def _stop_reason(word: str, *, legacy: bool = True) -> StopReason:
    """The stop reason for the service's *word*; the plain end, where it is empty or unknown.

    Args:
        word: E.g. ``MAX_TOKENS``.
        legacy: Whether ``STOP_SEQUENCE``, and all that the contract does not know, is the plain end, too.
    """
    known = STOP_REASONS.get(word.strip().upper())
    reason = known if isinstance(known, StopReason) else StopReason.END
    return LEGACY.get(reason, StopReason.END) if legacy else reason


class LegacyStops:
    """Reduces the service's stop reasons to those of the contract."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, with another reason where it has to be."""
        for item in items:
            yield Stop(LEGACY.get(item.reason, StopReason.END)) if type(item) is Stop else item

    def flush(self) -> Iterator[Delta]:
        """Yield nothing."""
        yield from ()


@define
class CleanText:
    """Takes escape sequences and control characters out of text, wherever it is cut."""

    _held: str = field(init=False, default="")
    """The beginning of an escape sequence."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on; what is held back goes before anything but text."""
        for item in items:
            if type(item) is not TextDelta:
                yield from self.flush()
                yield item
            elif not self._held and item.text.isprintable():
                yield item
            elif text := self._cleaned(item.text):
                yield TextDelta(text)

    def flush(self) -> Iterator[Delta]:
        """Yield the text that was held back, without the control character that it began with."""
        held, self._held = self._held, ""
        if text := sanitize_text(held, reminders=False):
            yield TextDelta(text)

    def _cleaned(self, text: str) -> str:
        text = self._held + text
        cut = len(text)
        if ("\x1b" in text or "\x9b" in text) and (found := _UNFINISHED.search(text)):
            cut = found.start() if cut - found.start() <= MAX_SEQUENCE else cut
        self._held = text[cut:]
        return sanitize_text(text[:cut], reminders=False)


@define
class ReminderFilter:
    """Takes complete ``<system-reminder>`` blocks out of text; one that is never closed follows when that is known."""

    _held: str = field(init=False, default="")
    """The beginning of an opening tag; inside a block its end, as far as that may begin the closing tag."""

    _block: list[str] = field(init=False, factory=list)
    """The block that is open, from its tag on."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on; what is held back goes before anything but text."""
        for item in items:
            if type(item) is not TextDelta:
                yield from self.flush()
                yield item
            elif not self._held and not self._block and "<" not in item.text:
                yield item
            elif text := "".join(self._outside(item.text)):
                yield TextDelta(text)

    def flush(self) -> Iterator[Delta]:
        """Yield the text that was held back."""
        text = "".join(self._block) or self._held
        self._held, self._block = "", []
        if text:
            yield TextDelta(text)

    def _outside(self, text: str) -> Iterator[str]:
        """The part of *text* outside of blocks, as far as that is known."""
        while text:
            seen = self._held + text
            if self._block:
                text = self._inside(seen, text)
                continue
            before, tag, text = seen.partition(OPEN)
            self._held = "" if tag else _beginning(before)
            self._block = [OPEN] if tag else []
            yield before[: len(before) - len(self._held)]

    def _inside(self, seen: str, text: str) -> str:
        """The part of *text* behind the open block."""
        _, tag, after = seen.partition(CLOSE)
        if tag:
            self._held, self._block = "", []
        else:
            self._held = seen[1 - len(CLOSE) :]
            self._block.append(text)
        return after


def _beginning(text: str) -> str:
    """The longest end of *text* that an opening tag begins with."""
    lengths = range(min(len(text), len(OPEN) - 1), 0, -1)
    return next((text[-length:] for length in lengths if OPEN.startswith(text[-length:])), "")


LEAD_IN: Final = "I will call a tool to help with this:"
"""Text in front of an answer that begins with a tool call."""

WORDS: Final[Mapping[StopReason, str]] = MappingProxyType(
    {
        StopReason.TOOL_CALL: "TOOL_USE",
        StopReason.LENGTH: "MAX_TOKENS",
        StopReason.CONTEXT_FULL: "MODEL_CONTEXT_WINDOW_EXCEEDED",
        StopReason.STOP_SEQUENCE: "STOP_SEQUENCE",
        StopReason.CONTENT_FILTER: "CONTENT_FILTERED",
    }
)
"""Reason to the service's name of it; none for the plain end, which some accounts are never sent."""


def as_response(message: Message) -> Response:
    """*message*, folded from the service's events, as the contract has it: every block is an output message."""
    prompt, output = message.usage.prompt_tokens, message.usage.output_tokens
    return Response(
        tuple(_output(message.blocks)),
        ResponseUsage(prompt, output, prompt + output),
        WORDS.get(message.stop_reason, ""),
    )


def _output(blocks: Iterable[Block]) -> Iterator[OutputMessage]:
    for block in blocks:
        match block:
            case TextBlock(text):
                yield OutputMessage(text)
            case ThinkingBlock() | RedactedThinkingBlock():
                yield OutputMessage(thinking=block)
            case ToolCallBlock(call_id, name, arguments):
                yield OutputMessage(tool_use=ToolUse(call_id, name, safe_parse_json(arguments)))


def as_message(response: Response, *, legacy_stop_map: bool = True, reminders: bool = True) -> Message:
    """*response* for a client: a block for every output message with content, with a clean text.

    Args:
        response: The answer.
        legacy_stop_map: As ``legacy`` of `_stop_reason`.
        reminders: As for `sanitize_text`.
    """
    blocks = tuple(_blocks(response.output_messages, reminders))
    calls = any(isinstance(block, ToolCallBlock) for block in blocks)
    reason = _stop_reason(response.stop_reason, legacy=legacy_stop_map)
    if reason in (StopReason.END, StopReason.TOOL_CALL):
        reason = StopReason.TOOL_CALL if calls else StopReason.END
    lead_in = (TextBlock(LEAD_IN),) if blocks and isinstance(blocks[0], ToolCallBlock) else ()
    usage = response.usage or ResponseUsage()
    return Message((*lead_in, *blocks), reason, usage=Usage(usage.input_tokens, usage.output_tokens))


def _blocks(messages: Iterable[OutputMessage], reminders: bool) -> Iterator[Block]:
    for message in messages:
        if message.thinking is not None:
            yield message.thinking
        if (text := sanitize_text(message.content, reminders=reminders)).strip():
            yield TextBlock(text)
        if message.tool_use is not None:
            call = message.tool_use
            yield ToolCallBlock(call.id, call.name, dumps(as_object(call.input)).decode())
