"""What is expected of each feature where it is carried, and what of those that are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kiro_asgi.simulator import Event, RecordedRequest, Trailers, answer, text
from kiro_asgi.simulator.answers import SENTENCE, THOUGHT
from kiro_asgi.simulator.builders import sign
from kiro_asgi.simulator.gemini.encoder import call_signature, text_signature
from kiro_asgi.simulator.openai.encoder import REFUSAL
from tests.e2e.matrix.apis import Failure
from tests.e2e.matrix.pairing import Pairing
from tests.e2e.matrix.table import Cell

__all__ = ["FEATURES", "INSTEAD", "check"]

HALF: Final = "This is a simulated answer,"
CUT: Final = "This is a simulated answer, and it is streamed"
ARGUMENTS: Final = {"city": "Oslo"}

END: Final = {"chat": "stop", "responses": "completed", "messages": "end_turn"}
CALLS: Final = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"}
LENGTH: Final = {"chat": "length", "responses": "max_output_tokens", "messages": "max_tokens"}
REFUSED: Final = {"chat": "content_filter", "responses": "content_filter", "messages": "refusal"}
"""API to its word for why an answer ends."""


def whole_text(pairing: Pairing) -> None:
    told = pairing.ask("sim:text")

    assert (told.text, told.stop) == (SENTENCE, END[pairing.api])
    assert (told.calls, told.refusal, told.thinking) == ((), "", "")


def _thought(pairing: Pairing) -> RecordedRequest:
    """Think, then ask on; the second request to the service."""
    first = pairing.ask("sim:thinking", thinks=True)
    assert (first.thinking, first.text, first.stop) == (THOUGHT, SENTENCE, END[pairing.api])
    second = pairing.go_on("And now?")
    assert (second.text, second.stop) == ("You said: And now?", END[pairing.api])
    return pairing.request


def _thought_and_called(pairing: Pairing) -> RecordedRequest:
    """Think and call, then give the result; the second request to the service."""
    first = pairing.ask("sim:thinking-tool", thinks=True, tools=True)
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
    """Neither the thinking nor its signature is in the second request."""
    assert THOUGHT.encode() not in request.body
    assert sign(THOUGHT).encode() not in request.body


def thinking(pairing: Pairing) -> None:
    _signed(pairing, _thought(pairing), sign(THOUGHT), words=True)


def signed_call(pairing: Pairing) -> None:
    _signed(pairing, _thought_and_called(pairing), sign(THOUGHT), words=True)


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
    ways = {"anthropic": ("", "A simulated refusal.", "refusal"), "openai": ("", REFUSAL, END[pairing.api])}

    assert _refusal(pairing) == ways[pairing.upstream]


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
}
"""API to the client's class, the status and the type of an error in a stream."""


def error(pairing: Pairing) -> None:
    """Too many requests, when half of the answer is there: within a stream, else by its status."""
    told = pairing.try_to_ask("sim:exception=ThrottlingException")
    kind, status, word = ERRORS[pairing.api]

    if pairing.stream:
        assert told == Failure(kind, status, word, HALF)
    else:
        assert told == Failure("RateLimitError", 429, "rate_limit_error")


COUNTED: Final = Event(
    "metadataEvent",
    {
        "stopReason": "END_TURN",
        "tokenUsage": {
            "uncachedInputTokens": 1200,
            "cacheReadInputTokens": 300,
            "cacheWriteInputTokens": 0,
            "outputTokens": 77,
            "totalTokens": 1577,
        },
    },
)


def usage(pairing: Pairing) -> None:
    operation = "GenerateAssistantResponse" if pairing.upstream == "kiro" else f"{pairing.upstream}.chat"
    nothing = Trailers(None, None, 0, None, None)
    pairing.service.service.enqueue(answer(*text("Counted."), COUNTED, trailers=nothing), operation=operation)
    told = pairing.ask("How much?")

    assert (told.text, told.usage) == ("Counted.", (1500, 300, 77))


Expectation = Callable[[Pairing], None]

FEATURES: Final[Mapping[str, Expectation]] = {
    "text": whole_text,
    "thinking": thinking,
    "signed-call": signed_call,
    "tool": tool,
    "parallel": parallel,
    "image": image,
    "refusal": refusal,
    "length": length,
    "error": error,
    "usage": usage,
}
"""What holds where a feature is carried."""

INSTEAD: Final[Mapping[str, Expectation]] = {
    "no-place-for-signatures": lambda pairing: _forgotten(_thought(pairing)),
    "no-place-before-calls": lambda pairing: _forgotten(_thought_and_called(pairing)),
    "no-more-thinking": no_more_thinking,
    "signature-without-words": signature_without_words,
    "call-signature-without-words": call_signature_without_words,
    "unsigned": lambda pairing: _unsigned(_thought(pairing)),
    "unsigned-before-calls": lambda pairing: _unsigned(_thought_and_called(pairing)),
    "filter-only": filtered,
    "reason-untold": refusal_without_reason,
    "block-reason-untold": refusal_without_reason,
    "refusal-as-text": refusal_as_text,
}
"""Loss to what holds there; nothing else may be lost."""


def check(cell: Cell, pairing: Pairing) -> None:
    """Fail unless *cell* carries what it is said to carry, and loses what it is said to lose."""
    expected = FEATURES[cell.feature] if cell.loss is None else INSTEAD[cell.loss.name]
    expected(pairing)
    assert pairing.lost == (frozenset() if cell.loss is None else cell.loss.rules)
