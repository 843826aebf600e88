"""Answers that break off, or say twice or in another place how they ended: none is taken for a whole one.

Services, and what stands before them, report a failure within a stream, or beside an answer, in whatever form they
like; a client must see that the answer failed in each of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from kiro_asgi.stages.ending import MISSING, NO_CALL
from kiro_asgi.wire.eventstream import encode_frame
from tests.asgi.driver import Exchange
from tests.asgi.test_answer_shapes import OUTPUT, TEXT, message
from tests.asgi.test_unknown_answers import (
    CLIENTS,
    FAILED,
    FORMS,
    GOOD,
    MODES,
    WORDS,
    answering,
    asking,
    body,
    frames,
    in_chunks,
    responded,
    said,
    slices,
    sse,
)

pytestmark = pytest.mark.anyio

RULES: Final = "x-kiro-asgi-rules"
EACH_CLIENT = pytest.mark.parametrize("client", CLIENTS)

Parts = tuple[bytes, bytes]
"""What comes before, and after, the place in an answer."""

SAYING: Final = said({**TEXT, "text": "Hi"})
STOPPED: Final = ("messageStop", {"stopReason": "end_turn"})
SPOKEN: Final = ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hi"}})
TOLD: Final = responded(message([{**OUTPUT, "text": "Hi"}]))


def choosing(delta: Mapping[str, Any], **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, **choice}]}


def generating(text: str = "", **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"index": 0, "content": {"parts": [{"text": text}] if text else []}, **candidate}]}


LINES: Final[Mapping[str, Parts]] = {
    "chat": (
        sse(choosing({"content": "Hi"})),
        sse(choosing({}, finish_reason="stop")) + b"data: [DONE]\n\n",
    ),
    "responses": (
        sse({"type": "response.output_item.done", "output_index": 0, "item": TOLD["output"][0]}),
        sse({"type": "response.completed", "response": TOLD}),
    ),
    "messages": (sse(*SAYING[:-2]), sse(*SAYING[-2:])),
    "gemini": (sse(generating("Hi")), sse(generating(finishReason="STOP"))),
}
"""Services that answer in lines, to an answer that a report cuts in two."""

BOOM: Final = {"message": "boom"}
REPORTS: Final[Mapping[str, bytes]] = {
    "an object": b'data: {"error": {"message": "boom", "code": 500}}\n\n',
    "a text": b'data: {"error": "boom"}\n\n',
    "a number": b'data: {"error": 500, "message": "boom"}\n\n',
    "a flag": b'data: {"error": true, "msg": "boom"}\n\n',
    "a list": b'data: {"error": [{"message": "boom"}]}\n\n',
    "several": b'data: {"errors": [{"message": "boom"}]}\n\n',
    "of an event": b'event: error\ndata: {"message": "boom"}\n\n',
    "of an event's kind": b'data: {"type": "error", "message": "boom"}\n\n',
    "text of an event": b"event: error\ndata: boom\n\n",
    "text": b"data: [ERROR] boom\n\n",
    "a line": b'{"error": {"message": "boom"}}\n\n',
    "a line behind an open event": b'data: {"x": 1}\n{"error": {"message": "boom"}}\n\n',
    "in a list": b'data: [{"error": {"message": "boom"}}]\n\n',
    "a message": b'data: {"code": 500, "message": "boom"}\n\n',
    "MiniMax's": b'data: {"base_resp": {"status_code": 1000, "status_msg": "boom"}}\n\n',
    "Z.ai's": b'data: {"code": 500, "msg": "boom", "success": false}\n\n',
    "a problem": b'data: {"type": "about:blank", "title": "boom", "status": 500, "success": false}\n\n',
}
"""A failure, in the middle of a stream."""


def raised(name: str, kind: str = "event") -> bytes:
    return encode_frame({":event-type": name, ":message-type": kind}, json.dumps(BOOM).encode())


FRAMED: Final[Mapping[str, tuple[Parts, Mapping[str, bytes]]]] = {
    "converse": (
        (frames(SPOKEN), frames(STOPPED)),
        {"an event": raised("error"), "one that nobody knows": raised("fooException")},
    ),
    "invoke": (
        (in_chunks(*SAYING[:-2]), in_chunks(*SAYING[-2:])),
        {
            "an event": raised("error"),
            "a text": in_chunks({"error": "boom"}),
            "a message": in_chunks(BOOM),
            "beside": in_chunks({"type": "message_delta", "delta": {}, "error": BOOM}),
        },
    ),
    "kiro": (
        (
            frames(("assistantResponseEvent", {"content": "Hi"})),
            frames(("metadataEvent", {"stopReason": "END_TURN"})),
        ),
        {
            "an event": raised("error"),
            "an event's name": raised("errorEvent"),
            "one that nobody knows": raised("fooException"),
            "beside": frames(("assistantResponseEvent", {"content": "", "error": BOOM})),
        },
    ),
}

WHOLE: Final[Mapping[str, dict[str, Any]]] = {
    "chat.whole": {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]},
    "responses.whole": TOLD,
    "messages.whole": {"type": "message", "content": [TEXT], "stop_reason": "end_turn"},
    "gemini.whole": generating("Hi", finishReason="STOP"),
    "converse.whole": {"output": {"message": {"content": [{"text": "Hi"}]}}, "stopReason": "end_turn"},
}
BESIDE: Final[Mapping[str, dict[str, Any]]] = {
    "an object": {"error": BOOM},
    "a text": {"error": "boom"},
    "several": {"errors": [BOOM]},
}
"""Members of a whole answer."""

WITHIN: Final[Mapping[str, tuple[str, Sequence[bytes]]]] = {
    f"{form}-{name}": (form, [before, data, after])
    for form, (before, after) in LINES.items()
    for name, data in REPORTS.items()
}
BROKEN: Final[Mapping[str, tuple[str, bytes]]] = {
    **{name: (form, b"".join(parts)) for name, (form, parts) in WITHIN.items()},
    **{
        f"{form}-{name}": (form, before + data + after)
        for form, ((before, after), reports) in FRAMED.items()
        for name, data in reports.items()
    },
    **{
        f"{form}-beside-{name}": (form, body({**answer, **report}))
        for form, answer in WHOLE.items()
        for name, report in BESIDE.items()
    },
    "chat-in the choice": ("chat", LINES["chat"][0] + sse(choosing({}, finish_reason="stop", error="boom"))),
    "chat-in the delta": ("chat", LINES["chat"][0] + sse(choosing({"error": BOOM}, finish_reason="stop"))),
    "gemini-in the candidate": ("gemini", LINES["gemini"][0] + sse(generating(finishReason="STOP", error=BOOM))),
    "responses-of an item": (
        "responses.whole",
        body(responded({**message([{**OUTPUT, "text": "Hi"}]), "status": "failed"})),
    ),
    "responses-of the answer": ("responses.whole", body({**TOLD, "error": "boom"})),
}
"""An answer with a failure in it, which goes on as if there was none."""


async def told(client: str, form: str, data: bytes, stream: bool, gateway: Any, service: Any, sim: Any) -> Exchange:
    """What a client is told of an answer of a *form*."""
    each = FORMS[form]
    sim.answer_with(answering(each, data))
    exchange = await asking(client, each.model, stream).run(gateway(**slices(service, each)))
    sim.answer_with(None)
    return exchange


@MODES
@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses", "gemini"])
async def test_a_report_is_a_failure_in_whatever_form(client, case, stream, gateway, service, sim):
    """In its own words; never an answer that is whole."""
    form, data = BROKEN[case]
    exchange = await told(client, form, data, stream, gateway, service, sim)

    assert b"boom" in exchange.content or "of an item" in case
    assert stream or exchange.status in FAILED
    assert not [word for word in GOOD if word in exchange.content]


ALIVE: Final = (b"data: [HEARTBEAT]\n\n", b"data: connected\n\n", b'data: {"error": null}\n\n', b"event: ping\n\n")


@MODES
@pytest.mark.parametrize("form", LINES)
async def test_signs_of_life_are_no_failures(form, stream, gateway, service, sim):
    before, after = LINES[form]
    exchange = await told("openai_chat", form, before + b"".join(ALIVE) + after, stream, gateway, service, sim)

    assert exchange.status == 200
    assert b'"finish_reason":"stop"' in exchange.content


KINDS: Final = {
    "engine_overloaded": 503,
    "rate_limit_reached": 429,
    "insufficient_credits": 402,
    "DataInspectionFailed": 400,
    "hologram": 502,
}
"""A code that no table has, to the status of what it says."""


@pytest.mark.parametrize("code", KINDS)
async def test_a_failure_within_an_answer_is_what_its_code_says(code, gateway, service, sim):
    """What the service would say again is not asked again, and paid for once."""
    data = LINES["chat"][0] + sse({"error": {"message": "boom", "code": code}})
    exchange = await told("openai_chat", "chat", data, False, gateway, service, sim)

    assert exchange.status == KINDS[code]
    asked = sum(request.operation == FORMS["chat"].operation for request in sim.requests)
    assert (asked == 1) == (KINDS[code] in (400, 402))


CUT: Final = WORDS["token_budget_reached"]


def ended(*words: str) -> Mapping[str, bytes]:
    """Answers that say of their end these *words*, in turn."""
    chat, gemini, converse, kiro = ({"stop": end, "length": cut} for end, cut in (
        ("stop", "length"), ("STOP", "MAX_TOKENS"), ("end_turn", "max_tokens"), ("END_TURN", "MAX_TOKENS")
    ))  # fmt: skip
    deltas = ({"type": "message_delta", "delta": {"stop_reason": converse[word]}} for word in words)
    events = [*SAYING[:-2], *deltas, SAYING[-1]]
    return {
        "chat": LINES["chat"][0] + sse(*(choosing({}, finish_reason=chat[word]) for word in words)),
        "messages": sse(*events),
        "invoke": in_chunks(*events),
        "gemini": LINES["gemini"][0] + sse(*(generating(finishReason=gemini[word]) for word in words)),
        "converse": frames(SPOKEN, *(("messageStop", {"stopReason": converse[word]}) for word in words)),
        "kiro": FRAMED["kiro"][0][0] + frames(*(("metadataEvent", {"stopReason": kiro[word]}) for word in words)),
    }


@MODES
@pytest.mark.parametrize("form", ended())
@EACH_CLIENT
async def test_an_answer_that_is_said_to_be_cut_stays_so(client, form, stream, gateway, service, sim):
    """Whatever is said of its end before or afterwards."""
    for words in (("length", "stop"), ("stop", "length")):
        exchange = await told(client, form, ended(*words)[form], stream, gateway, service, sim)
        assert exchange.status == 200
        assert CUT[client] in exchange.content


CHOSEN: Final = {"index": 0, "delta": {}}
ELSEWHERE: Final[Mapping[str, tuple[str, bytes]]] = {
    **{
        f"chat-{name}": ("chat", LINES["chat"][0] + sse(chunk) + b"data: [DONE]\n\n")
        for name, chunk in {
            "details": choosing({}, finish_details={"type": "max_tokens"}),
            "delta": choosing({"finish_reason": "length"}),
            "chunk": {"choices": [], "finish_reason": "length"},
            "spelling": choosing({}, finishReason="length"),
            "native": choosing({}, finish_reason=None, native_finish_reason="MAX_TOKENS"),
            "Anthropic's": choosing({}, stop_reason="max_tokens"),
            "object": choosing({}, finish_reason={"type": "max_tokens"}),
            "list": choosing({}, finish_reason=["length"]),
        }.items()
    },
    **{
        f"messages-{name}": ("messages", sse(*SAYING[:-2], *events))
        for name, events in {
            "event": ({"type": "message_delta", "delta": {}, "stop_reason": "max_tokens"}, SAYING[-1]),
            "last": ({"type": "message_stop", "stop_reason": "max_tokens"},),
            "message": ({"type": "message_stop", "message": {"stop_reason": "max_tokens"}},),
            "spelling": ({"type": "message_delta", "delta": {"stopReason": "max_tokens"}}, SAYING[-1]),
            "OpenAI's": ({"type": "message_delta", "delta": {"finish_reason": "length"}}, SAYING[-1]),
            "object": ({"type": "message_delta", "delta": {"stop_reason": {"type": "max_tokens"}}}, SAYING[-1]),
        }.items()
    },
    "gemini-spelling": ("gemini", sse(generating("Hi", finish_reason="MAX_TOKENS"))),
    "gemini-number": ("gemini", sse(generating("Hi", finishReason=2))),
    "converse-spelling": ("converse", frames(SPOKEN, ("messageStop", {"stop_reason": "max_tokens"}))),
    "converse-object": ("converse", frames(SPOKEN, ("messageStop", {"stopReason": {"type": "max_tokens"}}))),
    "kiro-spelling": ("kiro", FRAMED["kiro"][0][0] + frames(("metadataEvent", {"stop_reason": "MAX_TOKENS"}))),
}
"""The word of the end under another name, in another place, or in another shape."""


@MODES
@pytest.mark.parametrize("case", ELSEWHERE)
@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses", "gemini"])
async def test_the_word_of_the_end_is_read_wherever_it_stands(client, case, stream, gateway, service, sim):
    exchange = await told(client, *ELSEWHERE[case], stream, gateway, service, sim)

    assert exchange.status == 200
    assert CUT[client] in exchange.content


WORDLESS: Final[Mapping[str, tuple[bytes, bytes]]] = {
    "chat": (LINES["chat"][0] + b"data: [DONE]\n\n", sse(choosing({"role": "assistant"})) + b"data: [DONE]\n\n"),
    "chat.whole": (
        body({"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": None}]}),
        body({"choices": [{"index": 0, "message": {"content": ""}}], "usage": {"completion_tokens": 3}}),
    ),
    "messages": (
        sse(*SAYING[:-2], SAYING[-1]),
        sse({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3}}}, SAYING[-1]),
    ),
    "messages.whole": (
        body({"type": "message", "content": [{**TEXT, "text": "Hi"}], "stop_reason": None}),
        body({"type": "message", "content": [], "usage": {"input_tokens": 3}}),
    ),
}
"""Form to answers that do not say why they ended: with a text, and with nothing."""


async def assert_named(rule: str, client: str, form: str, answers: Parts, parts: tuple[Any, Any, Any]) -> None:
    """Assert that of *answers* the one with a text reaches the client, with this *rule*, and the other is a failure."""
    text, nothing = answers
    exchange = await told(client, form, text, False, *parts)
    assert b"Hi" in exchange.content
    assert rule in exchange.headers[RULES].split(", ")

    exchange = await told(client, form, nothing, False, *parts)
    assert exchange.status in FAILED


@pytest.mark.parametrize("form", WORDLESS)
@EACH_CLIENT
async def test_an_end_without_a_word_is_named(client, form, gateway, service, sim):
    """What there is reaches the client, with a notice; nothing at all is no success."""
    await assert_named(MISSING.code, client, form, WORDLESS[form], (gateway, service, sim))


CALLING: Final[Mapping[str, tuple[bytes, bytes]]] = {
    "chat": (
        LINES["chat"][0] + sse(choosing({}, finish_reason="tool_calls")),
        sse(choosing({"reasoning_content": "Hm."}), choosing({}, finish_reason="tool_calls")),
    ),
    "messages": (
        sse(*SAYING[:-2], {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, SAYING[-1]),
        sse(SAYING[0], {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, SAYING[-1]),
    ),
    "converse": (
        frames(SPOKEN, ("messageStop", {"stopReason": "tool_use"})),
        frames(("messageStop", {"stopReason": "tool_use"})),
    ),
    "kiro": (
        FRAMED["kiro"][0][0] + frames(("metadataEvent", {"stopReason": "TOOL_USE"})),
        frames(("metadataEvent", {"stopReason": "TOOL_USE"})),
    ),
}
"""Form to answers that end with the words that they call a tool, and do not: with a text, and without."""


@pytest.mark.parametrize("form", CALLING)
@EACH_CLIENT
async def test_a_call_that_was_lost_is_named(client, form, gateway, service, sim):
    """The service lost it: what it said besides reaches the client, with a notice, and nothing is no success."""
    await assert_named(NO_CALL, client, form, CALLING[form], (gateway, service, sim))
