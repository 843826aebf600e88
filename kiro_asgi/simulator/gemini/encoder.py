"""Encodes an answer as ``generateContent`` and ``streamGenerateContent`` do, with signatures; its failures.

A signature proves by itself that it was given here, and whether it was given with a certain call.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.encoding import SSE, AnswerPart, CollectedAnswer
from kiro_asgi.simulator.format import Question
from kiro_asgi.simulator.pieces import (
    CONTEXT_FULL,
    AnswerEnd,
    CallPart,
    Event,
    ExceptionFrame,
    Picture,
    Seal,
    Searched,
    Thought,
    TokensUsed,
    Words,
)
from kiro_asgi.simulator.scripts import Script, conversation_id, json_answer

TYPES: Final = "type.googleapis.com/google.rpc."
QUOTA: Final = "You exceeded your current quota, please check your plan and billing details."


def _info(reason: str) -> Json:
    return {
        "@type": f"{TYPES}ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    }


def _retry(delay: str) -> Json:
    return {"@type": f"{TYPES}RetryInfo", "retryDelay": delay}


def _violated(quota: str) -> Json:
    metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    return {"@type": f"{TYPES}QuotaFailure", "violations": [{"quotaMetric": metric, "quotaId": quota}]}


REFUSALS: Final[Mapping[str, tuple[int, str, str, tuple[Json, ...]]]] = {
    "429": (
        429,
        "RESOURCE_EXHAUSTED",
        "Resource has been exhausted (e.g. check quota).",
        (_info("RATE_LIMIT_EXCEEDED"), _retry("2s")),
    ),
    "suspicious": (429, "RESOURCE_EXHAUSTED", "Your project is limited for a while.", ()),
    "daily": (
        429,
        "RESOURCE_EXHAUSTED",
        QUOTA,
        (_violated("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), _retry("36000s")),
    ),
    "quota": (429, "RESOURCE_EXHAUSTED", QUOTA, (_violated("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),)),
    "overage": (403, "PERMISSION_DENIED", "The billing account is closed.", (_info("BILLING_DISABLED"),)),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ()),
    "403": (403, "PERMISSION_DENIED", "The caller does not have permission.", ()),
    "token-invalid": (
        400,
        "INVALID_ARGUMENT",
        "API key not valid. Please pass a valid API key.",
        (_info("API_KEY_INVALID"),),
    ),
    "suspended": (403, "PERMISSION_DENIED", "Consumer has been suspended.", (_info("CONSUMER_SUSPENDED"),)),
    "404": (404, "NOT_FOUND", "Requested entity was not found.", ()),
    "500": (500, "INTERNAL", "An internal error has occurred. Please retry.", ()),
    "503": (503, "UNAVAILABLE", "The service is currently unavailable.", ()),
    "too-long": (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
        (),
    ),
    "bad-request": (400, "INVALID_ARGUMENT", "Request contains an invalid argument.", ()),
    "bad-model": (
        404,
        "NOT_FOUND",
        "models/none is not found for API version v1beta, or is not supported for generateContent. Call ListModels to "
        "see the list of available models and their supported methods.",
        (),
    ),
    "bad-signature": (400, "INVALID_ARGUMENT", "Corrupted thought signature.", ()),
}
"""Refusals before the stream: status, its word, message, details."""

FAILURES: Final[Mapping[str, tuple[int, str, str, tuple[Json, ...]]]] = {
    "InternalServerException": (500, "INTERNAL", "An internal error has occurred.", ()),
    "ThrottlingException": (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.", (_retry("1.2s"),)),
    "ValidationException": (400, "INVALID_ARGUMENT", "Request contains an invalid argument.", ()),
    "ServiceUnavailableException": (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ()),
    "ContentLengthExceededException": (400, "INVALID_ARGUMENT", "The answer is too long.", ()),
}
"""Exceptions of a script: status, its word, message, details."""


def envelope(status: int, word: str, message: str, details: tuple[Json, ...] = ()) -> Json:
    """The body of an error."""
    extra = {"details": list(details)} if details else {}
    return {"error": {"code": status, "message": message, "status": word, **extra}}


def bad_request(message: str) -> tuple[int, str, str, tuple[Json, ...]]:
    """The refusal of a request that breaks a rule."""
    violation = {"@type": f"{TYPES}BadRequest", "fieldViolations": [{"description": message}]}
    return 400, "INVALID_ARGUMENT", message, (violation,)


def refusal(status: int, word: str, message: str, details: tuple[Json, ...] = (), retry_after: str = "") -> Script:
    """A refusal before the stream."""
    if retry_after:
        others = (detail for detail in details if "retryDelay" not in detail)
        details = (*others, _retry(f"{retry_after}s"))
    return json_answer(status, envelope(status, word, message, details))


SECRET: Final = b"kiro-asgi simulator, gemini\0"
SENTINELS: Final = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Documented values for calls that did not come from the model."""

HALF: Final = 16


def _sealed(what: bytes) -> str:
    digest = hashlib.sha256(what).digest()[:HALF]
    return base64.b64encode(digest + hashlib.sha256(SECRET + digest).digest()[:HALF]).decode()


def text_signature(text: str) -> str:
    """The signature of an answer, or a thought, that starts with *text*."""
    return _sealed(b"text\0" + text.encode(errors="surrogatepass"))


def call_signature(name: str, arguments: Mapping[str, Any]) -> str:
    """The signature of a call."""
    return _sealed(f"call\0{name}\0{json.dumps(_plain(arguments), sort_keys=True)}".encode())


def _plain(value: Any) -> Any:
    """*value* with whole numbers as integers, as JavaScript writes them back."""
    match value:
        case dict():
            return {key: _plain(part) for key, part in value.items()}
        case list():
            return [_plain(part) for part in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def is_signature(signature: object) -> bool:
    """Whether *signature* was given by this service, and is unchanged."""
    try:
        data = base64.b64decode(str(signature), validate=True)
    except ValueError:
        return False
    return len(data) == 2 * HALF and hashlib.sha256(SECRET + data[:HALF]).digest()[:HALF] == data[HALF:]


def signs_call(signature: object, call: Mapping[str, Any]) -> bool:
    """Whether *signature* was given with *call*, a ``functionCall``."""
    return signature == call_signature(str(call.get("name")), call.get("args") or {})


Json = dict[str, Any]

STOPS: Final[Mapping[str, str]] = {
    "END_TURN": "STOP",
    "TOOL_USE": "STOP",
    "MAX_TOKENS": "MAX_TOKENS",
    "STOP_SEQUENCE": "STOP",
    "CONTENT_FILTERED": "SAFETY",
    "GUARDRAIL_INTERVENED": "PROHIBITED_CONTENT",
    CONTEXT_FULL: "MAX_TOKENS",
}
"""Stop reason of the simulator to the one of this format."""

BLOCKED: Final = "REFUSED"
"""Stop reason of an empty answer whose prompt is blocked."""


@define
class GeminiAnswerEncoder:
    """One answer, streamed or whole."""

    question: Question
    used: TokensUsed
    array: bool
    """Whether a stream is one JSON array instead of events."""

    content_type: str = field(init=False)
    _chunks: int = field(init=False, default=0)
    """Chunks so far."""

    _visible: int = field(init=False, default=0)
    _thoughts: int = field(init=False, default=0)
    _text: list[str] = field(init=False, factory=list)
    _thought: list[str] = field(init=False, factory=list)
    _calls: dict[str, list[str]] = field(init=False, factory=dict)
    """Call id to the pieces of its arguments."""

    _signed: bool = field(init=False, default=False)
    """Whether the answer has its signature."""

    _malformed: bool = field(init=False, default=False)
    _searched: Searched | None = field(init=False, default=None)
    _stop: AnswerEnd | None = field(init=False, default=None)

    @content_type.default
    def _type(self) -> str:
        return "application/json" if self.array else SSE

    def encode(self, piece: AnswerPart) -> Iterator[bytes]:
        """Encode *piece*: the chunks that it adds to the stream."""
        match piece:
            case ExceptionFrame():
                yield self._data(envelope(*FAILURES[piece.name]))
            case Event(_, payload):
                yield self._data({**self._chunk([]), "foo": payload})
            case _:
                parts = list(self._parts(piece))
                if parts:
                    yield self._data(self._chunk(parts))

    def close(self) -> Iterator[bytes]:
        """The end of the stream, if there was a `AnswerEnd`."""
        if self._stop is not None:
            yield self._data(self._last(list(self._trailing())))
            if self.array:
                yield b"]"

    def document(self, answer: CollectedAnswer) -> Json:
        """The whole answer, in the shape of a chunk."""
        parts: list[Json] = []
        for block in answer.blocks:
            match block.first:
                case Words():
                    parts += self._parts(Words(block.text))
                case Thought():
                    self._thoughts += len(block.text.split()) - 1
                    parts += [*self._parts(Thought(block.text)), *self._parts(Seal(block.seal))]
                case CallPart(call_id, name):
                    parts += self._parts(CallPart(call_id, name, block.text, block.done))
                case piece:
                    parts += self._parts(piece)
        self._stop = answer.stop or AnswerEnd("END_TURN")
        return self._wrapped(self._last([*parts, *self._trailing()]))

    def error(self, failure: ExceptionFrame) -> Script:
        """The response where *failure* is the whole answer."""
        words = FAILURES[failure.name]
        return json_answer(words[0], envelope(*words))

    def _parts(self, piece: AnswerPart) -> Iterator[Json]:
        match piece:
            case Words(text):
                self._visible += 1
                first = not any(self._text)
                self._text.append(text)
                yield {"text": text, **(self._signature() if first and self._signs("text") else {})}
            case Thought(text):
                self._thoughts += 1
                self._thought.append(text)
                yield {"text": text, "thought": True}
            case Seal(signature) if signature and self._signs("thought"):
                yield {"text": "", "thought": True, **self._signature()}
            case CallPart():
                yield from self._call(piece)
            case Picture(media_type, data):
                self._visible += 1
                yield {"inlineData": {"mimeType": media_type, "data": data}}
            case Searched():
                self._searched = piece
            case AnswerEnd():
                self._stop = piece
            case _:
                pass

    def _call(self, part: CallPart) -> Iterator[Json]:
        fragments = self._calls.setdefault(part.call_id, [])
        fragments.append(part.input)
        if not part.stop:
            return
        self._visible += 1
        try:
            arguments = json.loads("".join(fragments) or "{}")
        except ValueError:
            self._malformed = True
            return
        named = {"id": part.call_id.removeprefix("tooluse_")} if self._names_calls else {}
        call = {**named, "name": part.name, "args": arguments}
        signature = {} if self._signed else {"thoughtSignature": call_signature(part.name, arguments)}
        self._signed = True
        yield {"functionCall": call, **(signature if self._thinks else {})}

    @property
    def _names_calls(self) -> bool:
        habits = self.question.habits
        return "no-ids" not in habits and ("with-ids" in habits or self.question.model.startswith("gemini-3"))

    @property
    def _thinks(self) -> bool:
        """Whether the answer is signed: Gemini 3 always thinks, older models when they are asked to."""
        return self.question.model.startswith("gemini-3") or bool(self._thought)

    def _signs(self, place: str) -> bool:
        return self._thinks and not self._signed and self.question.habits.get("signed-at", "end") == place

    def _signature(self) -> Json:
        self._signed = True
        return {"thoughtSignature": text_signature("".join(self._thought) or "".join(self._text))}

    def _trailing(self) -> Iterator[Json]:
        if self._signs("end"):
            yield {"text": "", **self._signature()}

    def _last(self, parts: list[Json]) -> Json:
        assert self._stop is not None
        if self._stop.reason == BLOCKED:
            feedback = {"blockReason": "SAFETY", "safetyRatings": []}
            return {"promptFeedback": feedback, **self._about(final=True)}
        chunk = self._chunk(parts or [{"text": ""}], final=True)
        reason = STOPS.get(self._stop.reason, self._stop.reason)
        chunk["candidates"][0]["finishReason"] = "MALFORMED_FUNCTION_CALL" if self._malformed else reason
        if self._searched is not None:
            chunk["candidates"][0]["groundingMetadata"] = _grounding(self._searched, "".join(self._text))
        return chunk

    def _chunk(self, parts: list[Json], *, final: bool = False) -> Json:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
        return {"candidates": [candidate], **self._about(final=final)}

    def _about(self, *, final: bool) -> Json:
        prompt = self.used.input + self.used.cached
        output = max(self.used.output - self._thoughts, self._visible) if final else self._visible
        usage = {
            "promptTokenCount": prompt,
            **({"cachedContentTokenCount": self.used.cached} if self.used.cached else {}),
            "candidatesTokenCount": output,
            **({"thoughtsTokenCount": self._thoughts} if self._thoughts else {}),
            "totalTokenCount": prompt + output + self._thoughts,
        }
        identity = conversation_id(self.question.conversation.content).replace("-", "")[:22]
        usage_metadata = {} if "no-usage" in self.question.habits else {"usageMetadata": usage}
        return {**usage_metadata, "modelVersion": self.question.model, "responseId": identity}

    def _wrapped(self, document: Json) -> Json:
        return {"response": document} if "envelope" in self.question.habits else document

    def _data(self, document: Json) -> bytes:
        text = json.dumps(self._wrapped(document), ensure_ascii=False)
        self._chunks += 1
        if self.array:
            return f"{'[' if self._chunks == 1 else ','}{text}\r\n".encode()
        return f"data: {text}\r\n\r\n".encode()


def _grounding(searched: Searched, text: str) -> Json:
    segment = {"startIndex": 0, "endIndex": len(text.encode()), "text": text}
    places = list(range(len(searched.hits)))
    support = {"segment": segment, "groundingChunkIndices": places, "confidenceScores": [0.9 for _ in places]}
    return {
        "webSearchQueries": [searched.query],
        "groundingChunks": [{"web": {"uri": hit.url, "title": hit.title}} for hit in searched.hits],
        "groundingSupports": [support],
        "searchEntryPoint": {"renderedContent": "<div>simulated</div>"},
    }
