"""What is checked of each feature where it is carried, and what where something is lost, with the reason.

Checks compare what a client got, and what the service was asked, with the script that the simulator followed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from attrs import frozen

from kiro_asgi.simulator import RecordedRequest, Trailers, answer, text
from kiro_asgi.simulator.answers import ANSWERS, CHANGES, SENTENCE, THOUGHT
from kiro_asgi.simulator.gemini.encoder import call_signature, text_signature
from kiro_asgi.simulator.markers import EXTRA_ANSWERS, EXTRA_CHANGES
from kiro_asgi.simulator.openai.encoder import REFUSAL
from kiro_asgi.simulator.pieces import Ending, TokensUsed
from kiro_asgi.simulator.scripts import sign
from tests.e2e.matrix.apis import UNREAD, Answer, Failure
from tests.e2e.matrix.pairing import SERVICES, Pairing

__all__ = ["END", "FEATURES", "LOSSES", "Feature", "LostPart", "found"]

HALF: Final = "This is a simulated answer,"
CUT: Final = "This is a simulated answer, and it is streamed"
ARGUMENTS: Final = {"city": "Oslo"}

END: Final = {"chat": "stop", "responses": "completed", "messages": "end_turn", "gemini": "STOP"}
CALLS: Final = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use", "gemini": "STOP"}
LENGTH: Final = {"chat": "length", "responses": "max_output_tokens", "messages": "max_tokens", "gemini": "MAX_TOKENS"}
REFUSED: Final = {"chat": "content_filter", "responses": "content_filter", "messages": "refusal", "gemini": "SAFETY"}
"""API to its word for why an answer ends."""


def whole_text(pairing: Pairing) -> None:
    told = pairing.ask("sim:text")

    assert (told.text, told.stop) == (SENTENCE, END[pairing.api])
    assert (told.calls, told.refusal, told.thinking) == ((), "", "")


def _thought(pairing: Pairing) -> RecordedRequest:
    """Think, then ask on; the second request to the service."""
    first = pairing.ask("sim:thinking", thinking=True)
    assert (first.thinking, first.text, first.stop) == (THOUGHT, SENTENCE, END[pairing.api])
    second = pairing.go_on("And now?")
    assert (second.text, second.stop) == ("You said: And now?", END[pairing.api])
    return pairing.request


def _thought_and_called(pairing: Pairing) -> RecordedRequest:
    """Think and call, then give the result; the second request to the service."""
    first = pairing.ask("sim:thinking-tool", thinking=True, tools=True)
    assert (first.thinking, first.stop) == (THOUGHT, CALLS[pairing.api])
    assert [(call.name, call.arguments) for call in first.calls] == [("get_weather", ARGUMENTS)]
    second = pairing.return_results(first.calls, "21 degrees")
    assert (second.text, second.stop) == ("The tool says: 21 degrees", END[pairing.api])
    return pairing.request


def _signed(pairing: Pairing, request: RecordedRequest, signature: str, *, words: bool) -> None:
    """The signature of the first answer is in the second request, and the service would take no other."""
    assert signature.encode() in request.body
    assert (THOUGHT.encode() in request.body) is words
    assert pairing.forged(signature) == 400


def _unsigned(request: RecordedRequest) -> None:
    """The thinking is in the second request as it was."""
    [message] = [it for it in request.json()["messages"] if it["role"] == "assistant"]
    assert message["reasoning_content"] == THOUGHT
    assert {*message} <= {"role", "content", "reasoning_content", "tool_calls"}


def _forgotten(request: RecordedRequest) -> None:
    """Neither the thinking nor a signature of it is in the second request."""
    assert THOUGHT.encode() not in request.body
    assert not any(signature.encode() in request.body for signature in (sign(THOUGHT), text_signature(THOUGHT)))


def _seal(request: RecordedRequest) -> str:
    """The signature of `THOUGHT`; in the Responses API, what stands for the item that it is the summary of."""
    items = request.json().get("input", ())
    return next((item["encrypted_content"] for item in items if item.get("type") == "reasoning"), sign(THOUGHT))


def thinking(pairing: Pairing) -> None:
    request = _thought(pairing)
    _signed(pairing, request, _seal(request), words=True)


def signed_call(pairing: Pairing) -> None:
    request = _thought_and_called(pairing)
    _signed(pairing, request, _seal(request), words=True)


def signature_without_words(pairing: Pairing) -> None:
    _signed(pairing, _thought(pairing), text_signature(THOUGHT), words=False)


def call_signature_without_words(pairing: Pairing) -> None:
    _signed(pairing, _thought_and_called(pairing), call_signature("get_weather", ARGUMENTS), words=False)


def no_more_thinking(pairing: Pairing) -> None:
    request = _thought_and_called(pairing)

    _forgotten(request)
    assert request.json().get("thinking", {}).get("type", "disabled") == "disabled"


def tool(pairing: Pairing) -> None:
    first = pairing.ask("sim:tool", tools=True)
    [call] = first.calls
    assert (first.text, first.stop) == ("Let me check.", CALLS[pairing.api])
    assert (call.name, call.arguments) == ("get_weather", ARGUMENTS)

    second = pairing.return_results(first.calls, "21 degrees")
    assert (second.text, second.calls, second.stop) == ("The tool says: 21 degrees", (), END[pairing.api])
    assert pairing.request.body.count(call.id.encode()) == 2, "a call and its result have one id"


def parallel(pairing: Pairing) -> None:
    first = pairing.ask("sim:parallel", tools=True)
    assert (first.text, first.stop) == ("Let me check.", CALLS[pairing.api])
    assert [(call.name, call.arguments) for call in first.calls] == [("get_weather", ARGUMENTS), ("now", {})]
    assert len({call.id for call in first.calls}) == 2

    second = pairing.return_results(first.calls, "21 degrees", "noon")
    assert (second.text, second.stop) == ("The tool says: 21 degrees; noon", END[pairing.api])
    assert [pairing.request.body.count(call.id.encode()) for call in first.calls] == [2, 2]


def image(pairing: Pairing) -> None:
    told = pairing.ask("What is this?", image=True)

    assert told.text == "You said: What is this? I also see 1 image: image/png of 70 bytes."


def _refusal(pairing: Pairing, marker: str = "sim:refused") -> tuple[str, str, str]:
    told = pairing.ask(marker)
    return told.text, told.refusal, told.stop


def refusal(pairing: Pairing) -> None:
    """In the words of the model, or of the service."""
    ways = {
        **dict.fromkeys(("anthropic", "bedrock"), ("", "A simulated refusal.", REFUSED[pairing.api])),
        "openai": ("", REFUSAL, END[pairing.api]),
        "gemini": ("", "SAFETY", "SAFETY"),
    }

    assert _refusal(pairing) == ways.get(pairing.service.upstream)


def refusal_without_reason(pairing: Pairing) -> None:
    """The Responses API has a part for a refusal, and it must not be empty."""
    stated = "The content filter of the model service has withheld this answer."

    assert _refusal(pairing) == ("", stated if pairing.api == "responses" else "", REFUSED[pairing.api])


def refusal_as_text(pairing: Pairing) -> None:
    assert _refusal(pairing) == (REFUSAL, "", REFUSED[pairing.api])


def filtered(pairing: Pairing) -> None:
    assert _refusal(pairing, "sim:filtered") == (CUT, "", REFUSED[pairing.api])


def length(pairing: Pairing) -> None:
    told = pairing.ask("sim:length")

    assert (told.text, told.stop) == (CUT, LENGTH[pairing.api])


ERRORS: Final = {
    "chat": ("APIError", 200, "rate_limit_error"),
    "responses": ("APIError", 200, "server_error"),
    "messages": ("APIStatusError", 200, "rate_limit_error"),
    "gemini": ("", 200, "RESOURCE_EXHAUSTED"),
}
"""API to the client's class, the status and the type of an error in a stream."""


def error_before(pairing: Pairing) -> None:
    """The prompt is too long: the status and the word of the API for that."""
    kind, word = "BadRequestError", "invalid_request_error"
    if pairing.api == "gemini":
        kind, word = "", "INVALID_ARGUMENT"
    assert pairing.try_to_ask("sim:too-long") == Failure(kind, 400, word)


def error_within(pairing: Pairing) -> None:
    """Too many requests, when half of the answer is there: within a stream, else by its status."""
    told = pairing.try_to_ask("sim:exception=ThrottlingException")
    kind, status, word = ERRORS[pairing.api]

    if pairing.stream:
        assert told == Failure(kind, status, word, HALF)
    else:
        assert told == Failure("" if not kind else "RateLimitError", 429, word if not kind else "rate_limit_error")


COUNTED: Final = Ending("END_TURN", used=TokensUsed(1200, 77, 300))


def usage(pairing: Pairing) -> None:
    nothing = Trailers(None, None, 0, None, None)
    pairing.simulator.enqueue(answer(*text("Counted."), COUNTED, trailers=nothing), operation=pairing.service.operation)
    told = pairing.ask("How much?")

    assert (told.text, told.usage) == ("Counted.", (1500, 300, 77))


def structured(pairing: Pairing) -> None:
    """The answer has the form, and the service was told of it."""
    scripted = answer(*text('{"city": ', '"Oslo", "deg', 'rees": 21}'))
    pairing.simulator.enqueue(scripted, operation=pairing.service.operation)
    told = pairing.ask("Weather?", schema=True)

    assert json.loads(told.text) == {"city": "Oslo", "degrees": 21}
    assert told.stop == END[pairing.api]
    assert b"degrees" in pairing.request.body


UNASKED: Final = ("flood", "long", "bytes", "chunks", "slow", "whole", "unknown-event")
"""Markers of answers that are only much, late, or in other pieces, and of events that nobody knows: they reach clients
of the service's own API, and the strict ones of these tests refuse them."""

ASKED: Final = (
    *(f"sim:{name}" for name in {**ANSWERS, **EXTRA_ANSWERS} if name not in UNASKED),
    *(f"sim:text sim:{name}" for name in {**CHANGES, **EXTRA_CHANGES} if name not in UNASKED),
)
"""Questions that bring everything else that the simulator has to say."""

LITTLE: Final = ((), ("",), (" ",), ("\n", "\n"), (" ", "So."))
"""Texts of answers that say little or nothing."""


def sent_back(pairing: Pairing) -> None:
    """Every answer, as the client has it, is taken back with the next question, the first time it is asked.

    What of it the service is not told is shown in other rows.
    """
    for marker in ASKED:
        pairing.begin_anew()
        thinking = "thinking" in marker or "redacted" in marker
        _told_on(pairing, pairing.try_to_ask(marker, tools=True, thinking=thinking))
    pairing.begin_anew()
    _told_on(pairing, pairing.ask("sim:text"))  # which may go through as it is
    for texts in LITTLE:
        pairing.begin_anew()
        pairing.simulator.enqueue(answer(*text(*texts)), operation=pairing.service.operation)
        _told_on(pairing, pairing.try_to_ask("Hello", tools=True))
    pairing.lost.clear()


def _told_on(pairing: Pairing, first: Answer | Failure) -> None:
    """Go on: an answer without content is no turn of its own, so the service may see both questions as one."""
    if isinstance(first, Failure):
        return
    if first.calls:
        pairing.return_results(first.calls, *["21 degrees"] * len(first.calls))
    else:
        pairing.go_on("And now?")
    assert pairing.request.status == 200


def unknown_field(pairing: Pairing) -> None:
    """The service is asked it as the client has said it, once, also where the request has tools and is translated."""
    for tools in (False, True):
        pairing.begin_anew()
        told = pairing.ask("sim:text", tools=tools, unread=True)
        assert (told.text, told.stop) == (SENTENCE, END[pairing.api])
        assert pairing.request.json().items() >= UNREAD[pairing.api].items()
        assert not named(told)


def unknown_elsewhere(pairing: Pairing) -> None:
    """It is left out, which a rule says."""
    for tools in (False, True):
        pairing.begin_anew()
        told = pairing.ask("sim:text", tools=tools, unread=True)
        assert (told.text, told.stop) == (SENTENCE, END[pairing.api])
        assert not pairing.request.json().keys() & UNREAD[pairing.api].keys()
        assert len(named(told)) == 1


def named(told: Answer) -> set[str]:
    """The rules of a dialect's that leave a field, or its word, out."""
    return {item.partition(";")[0] for item in told.rules.split(", ")} & {"fields.ignored", "values.unknown"}


def ended_early(pairing: Pairing) -> None:
    """What came before is told as if it were all; what ends within an event is an error there, too."""
    told = pairing.ask("sim:eof")

    assert (told.text, told.stop) == (HALF, END[pairing.api])
    assert isinstance(pairing.try_to_ask("sim:torn"), Failure)


def broken_off(pairing: Pairing) -> None:
    """The service's stream ends in the middle: an error, behind what came before; Google has 500 for it, and 503
    for a connection that broke within a body."""
    told = pairing.try_to_ask("sim:eof")

    assert isinstance(told, Failure), told
    errors = (500, 503) if pairing.api == "gemini" else (502, 503)
    assert told.status in ((200,) if pairing.stream else errors)
    assert told.text == (HALF if pairing.stream else "")


Check = Callable[[Pairing], None]


@frozen
class Feature:
    """What may be carried from a client to a service and back."""

    what: str
    check: Check


FEATURES: Final[Mapping[str, Feature]] = {
    "text": Feature("Text", whole_text),
    "thinking": Feature("Thinking, and its signature back with the next question", thinking),
    "signed-call": Feature("Thinking before a call, and its signature back with the result", signed_call),
    "tool": Feature("A tool call, its result, the answer", tool),
    "parallel": Feature("Several tool calls at once, and their results", parallel),
    "image": Feature("An image in the question", image),
    "structured": Feature("An answer in the form of a JSON schema", structured),
    "refusal": Feature("A refusal, and why", refusal),
    "length": Feature("An answer that is cut for its length", length),
    "broken-off": Feature("An answer that breaks off", broken_off),
    "error-before": Feature("An error instead of an answer", error_before),
    "error-within": Feature("An error in the middle of an answer", error_within),
    "usage": Feature("Counts of tokens, those of the cache among them", usage),
    "unknown-field": Feature("Same API, unknown field", unknown_field),
    "sent-back": Feature("Any answer sent back with the next question", sent_back),
}
"""Name to what holds where it is carried."""


@frozen
class LostPart:
    """What of a feature some combinations cannot carry."""

    feature: str
    services: tuple[str, ...]
    """Where it may be lost for this reason."""

    check: Check
    """What holds there; nothing else may be lost."""

    why: str
    rules: frozenset[str] = frozenset()
    """The rules that the client is told of."""


UNSIGNED: Final = frozenset(("thinking.unsigned_dropped",))
DROPPED: Final = frozenset(("thinking.dropped",))
BEDROCK: Final = ("bedrock", "converse")

LOSSES: Final[Mapping[str, LostPart]] = {
    "no-place-for-signatures": LostPart(
        "thinking",
        ("kiro", "anthropic", "gemini", *BEDROCK),
        lambda pairing: _forgotten(_thought(pairing)),
        "Chat Completions has no place for a signature. The thinking is told as ``reasoning_content``, and without "
        "its signature it is left out of the next request.",
        UNSIGNED,
    ),
    "no-place-before-calls": LostPart(
        "signed-call",
        ("kiro",),
        lambda pairing: _forgotten(_thought_and_called(pairing)),
        "Chat Completions has no place for a signature before a call either, so the service goes on without its "
        "earlier thinking.",
        UNSIGNED,
    ),
    "no-place-for-reasoning": LostPart(
        "thinking",
        ("openai-responses",),
        lambda pairing: _forgotten(_thought(pairing)),
        "Chat Completions has no place for what OpenAI has sealed of its reasoning. The summary is told as "
        "``reasoning_content``, and is not handed back.",
        DROPPED,
    ),
    "no-place-for-reasoning-before-calls": LostPart(
        "signed-call",
        ("openai-responses",),
        lambda pairing: _forgotten(_thought_and_called(pairing)),
        "Chat Completions has no place for sealed reasoning before a call either.",
        DROPPED,
    ),
    "no-more-thinking": LostPart(
        "signed-call",
        ("anthropic", *BEDROCK),
        no_more_thinking,
        "Chat Completions has no place for a signature before a call either, and Claude refuses to go on thinking "
        "in a turn whose thinking is not handed back. So the rest of the turn is answered without.",
        UNSIGNED | {"thinking.resumed"},
    ),
    "signature-without-words": LostPart(
        "thinking",
        ("gemini",),
        signature_without_words,
        "Google signs the text, and takes the signature back with it. What it shows of its thinking is a summary "
        "that is not signed, and is not handed back.",
        UNSIGNED,
    ),
    "call-signature-without-words": LostPart(
        "signed-call",
        ("gemini",),
        call_signature_without_words,
        "A call goes back with its signature, the summary of the thinking before it does not.",
        UNSIGNED,
    ),
    "unsigned": LostPart(
        "thinking",
        ("openai", "custom"),
        lambda pairing: _unsigned(_thought(pairing)),
        "OpenAI's format has no signatures. The thinking goes back as it was, to servers other than OpenAI's own, "
        "which has no field for it.",
    ),
    "unsigned-before-calls": LostPart(
        "signed-call",
        ("openai", "custom"),
        lambda pairing: _unsigned(_thought_and_called(pairing)),
        "OpenAI's format has no signatures. The thinking before a call goes back as it was, to servers other than "
        "OpenAI's own.",
    ),
    "filter-only": LostPart(
        "refusal",
        ("kiro",),
        filtered,
        "Of Kiro no refusal by a model is known. What is told is that its content filter has ended an answer, with "
        "what came of it.",
    ),
    "reason-untold": LostPart(
        "refusal",
        ("anthropic", "bedrock"),
        refusal_without_reason,
        "That an answer was refused is told in the API's own word. The Gemini API has no place for the category and "
        "the explanation, which Anthropic may give.",
    ),
    "block-reason-untold": LostPart(
        "refusal",
        ("gemini",),
        refusal_without_reason,
        "That a prompt was blocked is told in the API's own word. Google's reason, a word such as ``SAFETY``, is not.",
    ),
    "no-refusal-in-converse": LostPart(
        "refusal",
        ("converse",),
        refusal_without_reason,
        "Converse has no word for a refusal but that content was filtered, and no reason for it.",
    ),
    "not-its-field": LostPart(
        "unknown-field",
        (*SERVICES,),
        unknown_elsewhere,
        "A field that nobody here understands is for services of the client's own API. ``x-kiro-asgi-rules`` says that "
        "it is left out, or that its word is.",
    ),
    "no-end-of-its-own": LostPart(
        "broken-off",
        ("kiro",),
        ended_early,
        "Kiro's streams may lack each of their closing events, so one that ends between two events is taken for "
        "whole. One that ends within an event, or without the end of its HTTP body, is an error.",
    ),
    "refusal-as-text": LostPart(
        "refusal",
        ("openai", "openai-responses", "custom"),
        refusal_as_text,
        "The words of the refusal are told as text, as the API has no part for them; the reason for the end is its "
        "own word for a refusal.",
    ),
}
"""Name to what is lost; nothing else may be."""


def found(feature: str, open_pairing: Callable[[], Pairing]) -> str:
    """``yes`` where *feature* is carried, the name of what is lost where that is known, else why it is neither."""
    try:
        _check(FEATURES[feature].check, frozenset(), open_pairing())
    except (AssertionError, KeyError, AttributeError, ValueError) as exc:
        first = f"{type(exc).__name__}: {exc}".partition("\n")[0]
    else:
        return "yes"
    for name, loss in LOSSES.items():
        pairing = open_pairing()
        if loss.feature == feature and pairing.to in loss.services:
            with suppress(AssertionError, KeyError, AttributeError, ValueError):
                _check(loss.check, loss.rules, pairing)
                return name
    return first


def _check(check: Check, rules: frozenset[str], pairing: Pairing) -> None:
    check(pairing)
    assert pairing.lost == rules
