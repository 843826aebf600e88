"""The manifest of a simulated service other than Kiro, and its answers to requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from attrs import evolve, field, frozen

from kiro_asgi.simulator.answers import ANSWERS
from kiro_asgi.simulator.conversation import Conversation
from kiro_asgi.simulator.encoding import AnswerEncoder, encode_script, used_by
from kiro_asgi.simulator.markers import Repertoire, find_markers, play, searched, with_thought
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.pieces import COUNTED, Ending, TokensUsed, Words
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import Repeat, Script, Step, json_answer

NOT_JSON: Final = "The request body is not a JSON object."

Json = Mapping[str, Any]


@frozen
class Question:
    """A request of any format, as far as the answer depends on it."""

    conversation: Conversation
    model: str
    stream: bool
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    must_call: str | None = None
    """A tool that has to be called; ``""``: any; ``None``: none has to be."""

    searches: bool = False
    """Whether the service may search the web by itself."""

    operation: str = ""
    """The requested operation, where a service has several for answers."""

    fields_wanted: tuple[str, ...] = ()
    """Paths of fields of the model's own answer that are to be passed on."""

    texts: frozenset[str] = frozenset()
    """Names of tools that take a text, which is the ``input`` of the arguments."""

    with_usage: bool = True
    """Whether a stream reports usage."""

    habits: Mapping[str, str] = field(init=False)
    """Markers of the current message, with their parameters."""

    @habits.default
    def _marked(self) -> Mapping[str, str]:
        return dict(find_markers(self.conversation.content))


FormatRule = Callable[[Json, Question], str]
"""A rule about requests: returns ``""`` where a document keeps it, else the service's message."""


@frozen
class FormatEndpoint:
    """A path and method at which a format has an operation."""

    path: re.Pattern[str]
    method: str
    does: str
    """``chat``, ``embed``, ``models``, ``count`` or ``token``."""

    header: str = ""
    """A header that must be present; without it the path belongs to another format."""

    @classmethod
    def at(cls, path: str, method: str, does: str, header: str = "") -> FormatEndpoint:
        """Make one from *path* as a regular expression."""
        return cls(re.compile(path), method, does, header)

    def matches(self, request: RecordedRequest) -> bool:
        """Whether *request* is for this path; its method may still be a wrong one."""
        return bool(self.path.fullmatch(request.path)) and (not self.header or self.header in request.headers)


@frozen
class Refused(Exception):
    """The service cannot go on with what it holds."""

    script: Script
    """The answer instead."""


class Holder(Protocol):
    """The conversations that a service holds for its clients."""

    def whole(self, document: Json, /) -> Json:
        """A request with what is held for it.

        Raises:
            Refused: That cannot be had.
        """
        ...

    def hold(self, document: Json, answer: Callable[[], Script], /) -> None:
        """Hold what a whole request wants to be held, with its *answer* in one piece."""
        ...


class HoldsNothing:
    """The `Holder` of services that hold nothing."""

    def whole(self, document: Json, /) -> Json:
        """The request."""
        return document

    def hold(self, document: Json, answer: Callable[[], Script], /) -> None:
        """Forget it."""


@frozen(kw_only=True)
class SimulatedFormat:
    """Everything about one simulated service: the manifest of a folder, and an entry of `formats.FORMATS`."""

    name: str
    endpoints: tuple[FormatEndpoint, ...]
    models: tuple[Model, ...]
    repertoire: Repertoire
    refusals: Mapping[str, tuple[Any, ...]]
    """Name of a fault, as in the table of markers, to its status, the service's word for it, and more."""

    rules: tuple[FormatRule, ...]
    holder: Callable[[], Holder] = HoldsNothing
    """Makes that of one service."""

    read_key: Callable[[RecordedRequest], str]
    """Returns a request's key; empty if there is none."""

    no_key: Script | None = None
    """Refusal of a request without a key; ``None``: it is answered as one with a key."""

    check_signature: Callable[[RecordedRequest], Script | None] = lambda request: None
    """Refuses a request that is not signed with its key as it should be."""

    required_header: str = ""
    """Header without which a chat request is refused."""

    read: Callable[[RecordedRequest, Json], Question]
    """Reads a chat request; forgiving, because the rules judge it."""

    encoder: Callable[[RecordedRequest, Question, TokensUsed], AnswerEncoder]
    model_list: Callable[[tuple[Model, ...], Mapping[str, str]], Json]
    """Makes the list of models, or the page of it that the query's parameters ask for."""

    other_lists: Mapping[str, Callable[[tuple[Model, ...], Mapping[str, str]], Json]] = field(factory=dict)
    """Path to the function that makes the list there, for lists other than that of models."""

    token_count: Callable[[int], Json]
    """Makes the answer to a request that counts tokens."""

    embeddings: Callable[[RecordedRequest, Json], Script] | None = None
    """Answers a request for embeddings; ``None`` where there is no endpoint for them."""

    bad_request: Callable[[str], Script]
    """Refuses a request that breaks a rule, with the service's message."""

    unknown_model: Callable[[str], Script]
    """Refuses a model that is not offered."""

    def refusal(self, name: str) -> Script:
        """Return the refusal *name*, a fault of the repertoire."""
        return self.repertoire.faults[name].script(Conversation(), "")

    def chat(
        self, request: RecordedRequest, document: Json | None, *, strict: bool, first_time: Callable[..., bool]
    ) -> Script:
        """Return the script for a chat request, which `encode` puts into the format.

        Args:
            request: The request.
            document: Its body; ``None``: no JSON object.
            strict: Whether the rules are checked.
            first_time: Whether a once-only marker strikes for a conversation.
        """
        if document is None:
            return self.bad_request(NOT_JSON)
        question = self.read(request, document)
        refused = self._refused(request, document, question) if strict else None
        return limited(self._played(question, first_time), question) if refused is None else refused

    def _refused(self, request: RecordedRequest, document: Json, question: Question) -> Script | None:
        if self.required_header and self.required_header not in request.headers:
            return self.bad_request(f"{self.required_header}: header is required")
        if not any(_is(question.model, model) for model in self.models):
            return self.unknown_model(question.model)
        broken = next(filter(None, (rule(document, question) for rule in self.rules)), "")
        return self.bad_request(broken) if broken else None

    def _played(self, question: Question, first_time: Callable[..., bool]) -> Script:
        conversation = question.conversation
        chosen = any(name not in self.repertoire.changes for name in question.habits)
        if question.must_call is not None and not chosen:
            script = ANSWERS["tool"].script(conversation, question.must_call)
        else:
            script = play(conversation, lambda marker: first_time(marker, conversation), self.repertoire)
        if question.searches and not chosen:
            script = searched(conversation, script)
        return with_thought(conversation, script) if conversation.wants_native_thinking else script

    def encode(self, request: RecordedRequest, document: Json | None, script: Script) -> Script:
        """Encode *script*, the answer to a chat request, in this format."""
        question = self.read(request, document or {})
        stream = question.stream and "unstreamed" not in question.habits
        return encode_script(script, self._encoder(request, question, script), stream=stream)

    def collected(self, request: RecordedRequest, document: Json, script: Script) -> Script:
        """Encode *script* like `encode`, as an answer in one piece."""
        return encode_script(script, self._encoder(request, self.read(request, document), script), stream=False)

    def _encoder(self, request: RecordedRequest, question: Question, script: Script) -> AnswerEncoder:
        return self.encoder(request, question, used_by(script, question.conversation.size))

    def list_models(self, request: RecordedRequest) -> Script:
        """Answer a request for the models."""
        made = self.other_lists.get(request.path, self.model_list)
        return json_answer(200, made(self.models, dict(parse_qsl(request.query))))

    def embed(self, request: RecordedRequest, document: Json | None) -> Script:
        """Answer a request for embeddings."""
        assert self.embeddings is not None, "an endpoint for embeddings, and nothing that makes them"
        return self.bad_request(NOT_JSON) if document is None else self.embeddings(request, document)

    def count(self, request: RecordedRequest, document: Json | None) -> Script:
        """Answer a request that counts tokens."""
        if document is None:
            return self.bad_request(NOT_JSON)
        return json_answer(200, self.token_count(self.read(request, document).conversation.size))


def _is(name: str, model: Model) -> bool:
    """Whether *name* is the model's, or that with a date."""
    return name == model.id or name.startswith(f"{model.id}-20")


def limited(script: Script, question: Question) -> Script:
    """End *script* at the token limit and the stop sequences of *question*; each event counts as a token."""
    script = _up_to_stop(script, question.stops) if question.stops else script
    return script if question.max_tokens is None else _up_to_length(script, question.max_tokens)


def _up_to_length(script: Script, most: int) -> Script:
    tokens_so_far = sum(_tokens(step) for step in script)
    return script if tokens_so_far <= most else tuple(_shortened(script, most))


def _tokens(step: Step) -> int:
    if isinstance(step, Repeat):
        return step.times
    return int(isinstance(step, COUNTED))


def _shortened(script: Script, most: int) -> Iterator[Step]:
    left = most
    for step in script:
        tokens = _tokens(step)
        if isinstance(step, Repeat) and left:
            yield evolve(step, times=min(step.times, left))
        elif tokens <= left:
            yield _ended(step, "MAX_TOKENS")
        left = max(left - tokens, 0)


def _up_to_stop(script: Script, stops: tuple[str, ...]) -> Script:
    text = "".join(step.text for step in script if isinstance(step, Words))
    places = sorted((at, stop) for stop in stops if stop and (at := text.find(stop)) >= 0)
    return tuple(_stopped(script, *places[0])) if places else script


def _stopped(script: Script, at: int, stop: str) -> Iterator[Step]:
    done = 0
    for step in script:
        if isinstance(step, Words):
            kept = step.text[: max(at - done, 0)]
            done += len(step.text)
            if kept:
                yield evolve(step, text=kept)
        elif done <= at or not _tokens(step):
            yield _ended(step, "STOP_SEQUENCE", stop)


def _ended(step: Step, reason: str, sequence: str = "") -> Step:
    return evolve(step, reason=reason, sequence=sequence) if isinstance(step, Ending) else step
