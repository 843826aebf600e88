"""The tokens that every client is told of, and that are charged, are those that the service reported."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest

from kiro_asgi.errors import UpstreamError
from kiro_asgi.limits import LARGEST_COUNT
from kiro_asgi.model.events import MessageEnd, TokenUsage, Usage
from kiro_asgi.model.message import fold
from kiro_asgi.stages.counts import Reports, chat_counts
from kiro_asgi.wire.json import dumps
from tests.regressions.crossing import CLIENTS, MESSAGES, Client, both_ways, each_client, events, heard
from tests.regressions.reports import REPORTS, Counted, Report
from tests.regressions.speech import DONE, Say, spoken, stream, written

each_report = pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.by)

Form = Callable[[dict[str, Any]], list[dict[str, Any]]]
"""Makes the reports of an answer of what they say together."""


def _zeros(usage: Any) -> Any:
    """The same members, with nothing counted."""
    match usage:
        case dict():
            return {name: _zeros(value) for name, value in usage.items()}
        case list():
            return [*map(_zeros, usage)]
        case int() | float():
            return 0
    return usage


def _pieces(usage: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each count in a report of its own."""
    for name, value in usage.items():
        if isinstance(value, dict):
            yield from ({name: {inner: count}} for inner, count in value.items())
        else:
            yield {name: value}


FORMS: dict[str, Form] = {
    "once": lambda usage: [usage],
    "twice": lambda usage: [usage, usage],
    "zeros-first": lambda usage: [_zeros(usage), usage],
    "zeros-last": lambda usage: [usage, _zeros(usage)],
    "null-last": lambda usage: [usage, dict.fromkeys(usage)],
    "in-pieces": lambda usage: [*_pieces(usage)],
    "in-pieces-backwards": lambda usage: [*reversed([*_pieces(usage)])],
    "in-pieces-twice": lambda usage: [*_pieces(usage), *_pieces(usage)],
}
each_form = pytest.mark.parametrize("form", FORMS)


def _answer(service: str, usages: list[dict[str, Any]]) -> bytes:
    """A whole answer with these reports."""
    match service:
        case "openai":
            *said, _, _ = spoken("openai", Say("a"))
            return stream([*said, *({"choices": [], "usage": usage} for usage in usages), DONE])
        case "anthropic":
            begun, *said, ended, stopped = spoken("anthropic", Say("a"))
            message = {**begun["message"], "usage": usages[0]}
            more = ({"type": "message_delta", "delta": {}, "usage": usage} for usage in usages[1:])
            return stream([{**begun, "message": message}, *said, *more, {**ended, "usage": {}}, stopped])
        case "gemini":
            said = spoken("gemini", Say("a"))
            bare = [{"candidates": each["candidates"]} for each in said]
            return stream([*bare[:-1], *({"usageMetadata": usage} for usage in usages), bare[-1]])
        case "responses":
            item = {"id": "i", "type": "message", "content": [{"type": "output_text", "text": "a"}]}
            [usage] = usages
            response = {"status": "completed", "output": [item], "usage": usage}
            return stream([{"type": "response.completed", "response": response}])
        case "bedrock":
            delta = ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a"}})
            ends = [("messageStop", {"stopReason": "end_turn"}), *(("metadata", {"usage": it}) for it in usages)]
            return written("bedrock", [delta, ("contentBlockStop", {"contentBlockIndex": 0}), *ends])
    said = [("assistantResponseEvent", {"content": "a"}), *(("metadataEvent", {"tokenUsage": it}) for it in usages)]
    return written("kiro", said)


def _fits(report: Report, form: str) -> bool:
    """Whether the service may report like this: Responses have one report, and Kiro's add up."""
    one = report.service == "responses" or (report.service == "kiro" and "twice" in form)
    return form == "once" or not one


def _counted(usage: Usage) -> Counted:
    return Counted(
        usage.prompt_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.thinking_tokens,
    )


@both_ways
@each_client
@each_form
@each_report
def test_usage_equals_the_report(report: Report, form: str, client: Client, streamed: bool) -> None:
    """Whatever order and form it comes in."""
    if _fits(report, form):
        found = heard(client, streamed, report.service, [_answer(report.service, FORMS[form](report.usage))])
        assert found.usage == (report.counted.prompt, report.counted.read, report.counted.answer)


@each_form
@each_report
def test_what_is_charged_equals_the_report(report: Report, form: str) -> None:
    """Writes to a cache and thinking have prices of their own."""
    if _fits(report, form):
        *_, end = events(report.service, [_answer(report.service, FORMS[form](report.usage))])
        assert isinstance(end, MessageEnd)
        assert _counted(end.usage) == report.counted


_RELAYED = {"openai": "chat", "anthropic": "messages", "gemini": "gemini", "responses": "responses"}


@each_form
@each_report
def test_a_relayed_answer_is_charged_alike(report: Report, form: str) -> None:
    """Its bytes are not changed, but they are read."""
    client = next((it for it in CLIENTS if it.name == _RELAYED.get(report.service)), None)
    if client is not None and _fits(report, form):
        stage = client.dialect.passthrough(lambda body: UpstreamError(body.decode(), code="x"), client.meta)  # type: ignore[attr-defined]
        deque(stage.feed([_answer(report.service, FORMS[form](report.usage))]), maxlen=0)
        assert stage.usage is not None
        assert _counted(stage.usage) == report.counted


@each_report
def test_messages_names_what_was_written_to_a_cache(report: Report) -> None:
    """Its clients are charged more for that."""
    sent = _answer(report.service, [report.usage])
    body = json.loads(b"".join(_body(sent, report.service)))

    assert body["usage"]["cache_creation_input_tokens"] == report.counted.written


def _body(sent: bytes, service: str) -> Iterator[bytes]:
    return iter(MESSAGES.dialect.render(fold(events(service, [sent])), MESSAGES.meta))


def test_a_report_without_end_is_read_to_its_limit() -> None:
    """Neither the number nor the length of its members is kept."""
    reports = Reports(chat_counts)
    reports.take({"prompt_tokens": 12, "completion_tokens": 3})
    for size in (1, 1_000, 100_000):
        reports.take({f"count_{number}" + "x" * size: number for number in range(200_000 // size)})
        reports.take({"completion_tokens_details": {f"{number}_{size}": number for number in range(200_000 // size)}})

    assert reports.counts == TokenUsage(12, 3)
    assert len(dumps(reports._whole)) < 64 * 64 * 64


HOSTILE = (-1, 10**400, LARGEST_COUNT + 1, 1.5, True, "7", [], {}, None)


@each_report
def test_what_is_no_count_counts_nothing(report: Report) -> None:
    """A member of a wrong kind or size takes nothing from the others, and adds nothing."""
    for value in HOSTILE:
        spoilt = {**report.usage, "surplus": value, "details": {"tokens": value}}
        *_, end = events(report.service, [_answer(report.service, [spoilt])])
        assert isinstance(end, MessageEnd)
        assert _counted(end.usage) == report.counted
    for name, value in chain.from_iterable([(name, value) for value in HOSTILE] for name in report.usage):
        *_, end = events(report.service, [_answer(report.service, [{**report.usage, name: value}])])
        assert isinstance(end, MessageEnd)
        assert 0 <= end.usage.output_tokens <= 3 * LARGEST_COUNT
        assert 0 <= end.usage.prompt_tokens <= 3 * LARGEST_COUNT
