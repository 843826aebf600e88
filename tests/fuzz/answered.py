"""Targets that read the answers of each service, through the stages, and tell them in each API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from itertools import count
from typing import Any, Final

import kiro_asgi.testing.grammar.gemini as gemini_grammar
import kiro_asgi.testing.grammar.messages as anthropic_grammar
import tests.dialects.openai_chat.grammar as openai_grammar
import tests.dialects.openai_responses.grammar as responses_grammar
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, ResponseMeta
from kiro_asgi.dialects.gemini.dialect import GeminiStream
from kiro_asgi.dialects.gemini.parsing import GeminiOptions
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.errors import UpstreamError, UpstreamProtocolError
from kiro_asgi.model.events import Event, MessageEnd, TextDelta, ThinkingDelta, ToolInputDelta
from kiro_asgi.model.message import fold
from kiro_asgi.model.prompt import ToolChoice
from kiro_asgi.stages.answer import Plan, Repairs, build_pipeline
from kiro_asgi.stages.arguments import USUAL
from kiro_asgi.testing.grammar.events import check_events
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Upstream
from kiro_asgi.upstreams.bedrock.upstream import BedrockUpstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream, ResponsesUpstream
from kiro_asgi.wire.eventstream import encode_frame
from tests.fuzz.seeds import FRAMED, TOOL, Step, answers, steps
from tests.fuzz.source import REPEATS, Source, dumped
from tests.fuzz.target import made, refuse, same, ways_to_cut

__all__ = ["DIALECTS", "answer_of", "answered", "answers_of", "framed"]

DIALECTS: Final[Mapping[str, Dialect]] = {
    "openai": OpenAIChat(),
    "anthropic": AnthropicMessages(),
    "responses": OpenAIResponses(),
    "gemini": GeminiStream("m"),
}


def framed(events: Sequence[Step]) -> bytes:
    headers = {":message-type": "event", ":content-type": "application/json"}
    return b"".join(encode_frame({**headers, ":event-type": it.kind[:90]}, dumped(it.payload)) for it in events)


def _sent(events: Sequence[Step]) -> bytes:
    parts = []
    for each in events:
        name = b"" if each.kind == "message" else b"event: " + each.kind.encode(errors="replace") + b"\n"
        text = each.payload.encode(errors="replace") if isinstance(each.payload, str) else dumped(each.payload)
        parts.append(name + b"data: " + text + b"\n\n")
    return b"".join(parts)


def answer_of(service: str, source: Source) -> bytes:
    """An answer of *service*, events of several answers mixed, changed and repeated."""
    if not source.below(8):
        return source.edited(source.pick(answers(service)))
    pools, events = steps(service), list[Step]()
    for _ in range(source.below(12)):
        pool = source.pick(pools)
        start = source.below(len(pool))
        events += pool[start : start + 1 + source.below(8)]
    changed = []
    for each in events:
        if not source.below(4) and isinstance(each.payload, dict):
            each = Step(each.kind, source.mutated(each.payload))
        changed += [each] * (source.pick(REPEATS) if not source.below(16) else 1)
    wire = framed(changed) if service in FRAMED else _sent(changed)
    return wire if source.below(3) else source.edited(wire)


PLANS: Final = (
    Plan(),
    Plan(thinking="as_reasoning_content", thinking_scan="anywhere"),
    Plan(tool_emission="end", thinking="strip_tags"),
    Plan(tool_emission="incremental", thinking="pass"),
    Plan(stop=("Bergen", "the weather", "é"), thinking="remove"),
    Plan(max_tokens=7, tool_choice=ToolChoice(parallel=False, allowed=frozenset({"get_weather"})), lead_in="So: "),
    Plan(repairs=Repairs(schemas={"get_weather": TOOL}, renames=USUAL, leaked_calls=True), fingerprint=True),
    Plan(drop_repeated_text=True, schema={"type": "object", "required": ["a"]}),
)


DECODERS: Final[Mapping[str, Callable[[Callable[[], str]], Upstream]]] = {
    "kiro": lambda new_id: KiroUpstream(new_id=new_id),
    "bedrock": lambda _: BedrockUpstream(),
    "gemini": lambda new_id: GeminiUpstream(new_id=new_id),
    "anthropic": lambda _: AnthropicUpstream(),
    "openai": lambda new_id: OpenAIUpstream(new_id=new_id),
    "responses": lambda new_id: ResponsesUpstream(new_id=new_id),
}
"""Service to who reads its answers, ids being made by *new_id*."""


def _merged(events: Iterable[Event]) -> list[Any]:
    """*events*, with pieces of one kind joined: how text is cut is no difference."""
    found: list[Any] = []
    for event in events:
        kind = type(event)
        if kind in (TextDelta, ThinkingDelta, ToolInputDelta):
            text = event.json if isinstance(event, ToolInputDelta) else event.text  # type: ignore[union-attr]
            if found and isinstance(found[-1], list) and found[-1][0] is kind:
                found[-1][1] += text
            else:
                found.append([kind, text])
        else:
            found.append(event)
    return found


def answered(service: str, pieces: Iterable[bytes], plan: Plan) -> tuple[list[Event], str]:
    """The events of an answer, and the code of the error that it ended with."""
    numbers = map(str, count())
    upstream = DECODERS[service](lambda: f"made{next(numbers)}")
    answer = build_pipeline(upstream.decoder("" if service in FRAMED else "text/event-stream"), plan)
    events: list[Event] = []
    try:
        for piece in pieces:
            events.extend(answer.feed([piece]))
        events.extend(answer.flush())
    except UpstreamError as error:
        return events, error.code or type(error).__name__
    check_events(events)
    return events, ""


Judge = Callable[[bytes, Set[str]], Any]
"""Checks a stream in which the calls with these ids may be cut."""

Api = tuple[Dialect, ResponseMeta, Judge, Callable[[bytes], Any]]
"""A dialect, facts for an answer in it, and who judges that: one that is whole, and one that ended with an error."""


def _judge(check: Callable[[bytes], Any]) -> Judge:
    return lambda stream, _: check(stream)


def _anthropic(stream: bytes, cut: Set[str]) -> Any:
    return anthropic_grammar.check(stream, cut=cut)


def _gemini(stream: bytes, _: Set[str]) -> Any:
    return gemini_grammar.check(gemini_grammar.events(stream))


@cache
def _apis() -> tuple[Api, ...]:
    """Of each dialect one."""

    def of(prefix: str, options: Any) -> ResponseMeta:
        return ResponseMeta(prefix + "0" * 24, "m", 1, options)

    openai, responses = openai_grammar.check, responses_grammar.check
    return (
        (DIALECTS["openai"], of("chatcmpl-", ChatOptions(include_usage=True)), _judge(openai), openai),
        (DIALECTS["anthropic"], of("msg_", None), _anthropic, anthropic_grammar.check_cut),
        (DIALECTS["responses"], of("resp_", ResponsesOptions(store=False)), _judge(responses), responses),
        (DIALECTS["gemini"], of("", GeminiOptions()), _gemini, gemini_grammar.check_cut),
    )


def _encode(events: list[Event], failed: str, apis: Iterable[Api]) -> None:
    """In each API a stream is legal, and so is the document."""
    for dialect, meta, check, check_cut in apis:
        encoder = dialect.encoder(meta)
        try:
            stream = b"".join([*encoder.feed(events), *(() if failed else encoder.flush())])
        except UpstreamError:
            continue
        if failed:
            if stream:
                stream += b"".join(encoder.error(UpstreamProtocolError("broken", code=failed)))
                check_cut(stream)
            continue
        ends = [event for event in events if isinstance(event, MessageEnd)]
        cut = {info.call_id for end in ends for info in (*end.truncations, *end.malformed)}
        check(stream, cut)
        if not cut:  # a call that is sent in pieces belongs to a stream
            json.loads(b"".join(dialect.render(fold(events), meta)), parse_constant=refuse)


def answers_of(service: str) -> Callable[[bytes], int]:
    def run(data: bytes) -> int:
        wire, source = made(data, lambda it: answer_of(service, it))
        plan = source.pick(PLANS)
        ways = ways_to_cut(wire, source)
        results = [answered(service, way, plan) for way in ways]
        same((_merged(events), failed) for events, failed in results)
        _encode(*results[0], [source.pick(_apis())])
        return len(wire)

    return run
