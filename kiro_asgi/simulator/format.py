"""What a format other than Kiro's is to the simulated service, and how a request in it is answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from attrs import frozen

from kiro_asgi.simulator.answers import ANSWERS
from kiro_asgi.simulator.builders import json_answer
from kiro_asgi.simulator.catalogue import Model
from kiro_asgi.simulator.conversation import Conversation
from kiro_asgi.simulator.extras import searched, with_thought
from kiro_asgi.simulator.limits import limited
from kiro_asgi.simulator.pieces import Usage
from kiro_asgi.simulator.question import Question
from kiro_asgi.simulator.record import RecordedRequest
from kiro_asgi.simulator.scenarios import Repertoire, play
from kiro_asgi.simulator.scripts import Script
from kiro_asgi.simulator.speech import Speaker, spoken, used_by

__all__ = ["Endpoint", "Format", "FormatRule", "Json", "bearer"]

Json = Mapping[str, Any]

FormatRule = Callable[[Json, Question], str]
"""A rule about requests: ``""`` where a document keeps it, else what the service says of it."""

NOT_JSON: Final = "The request body is not a JSON object."


def bearer(request: RecordedRequest, *schemes: str) -> str:
    """The token of the ``authorization`` header, of one of *schemes* (in lower case); empty if there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() in (schemes or ("bearer",)) else ""


@frozen
class Endpoint:
    """Where an operation is asked for."""

    path: re.Pattern[str]
    method: str
    does: str
    """``chat``, ``models``, ``count`` or ``token``."""

    header: str = ""
    """A header that has to be there, or else the path is another format's."""

    @classmethod
    def at(cls, path: str, method: str, does: str, header: str = "") -> Endpoint:
        """One whose path is like the regular expression *path*."""
        return cls(re.compile(path), method, does, header)


@frozen
class Format:
    """One format.  A refusal is named as in the table of markers, e.g. ``token-invalid``."""

    name: str
    models: tuple[Model, ...]
    repertoire: Repertoire
    refusals: Mapping[str, tuple[Any, ...]]
    """Name of a fault to its status, the service's word for it, and more."""

    rules: tuple[FormatRule, ...]
    key: Callable[[RecordedRequest], str]
    """Reads a request's key; empty if there is none."""

    keyless: Script | None
    """What a request without a key is answered with; ``None``: as with one."""

    read: Callable[[RecordedRequest, Json], Question]
    speaker: Callable[[RecordedRequest, Question, Usage], Speaker]
    listing: Callable[[tuple[Model, ...], Mapping[str, str]], Json]
    """The list of models, or the page of it that the query's parameters ask for."""

    counted: Callable[[int], Json]
    """The answer to a request to count tokens."""

    complaint: Callable[[str], Script]
    """The refusal of a request that breaks a rule."""

    no_model: Callable[[str], Script]
    """The refusal of a model that is not there."""

    header: str = ""
    """A header that has to be there."""

    endpoints: tuple[Endpoint, ...] = ()
    """Tried in order."""

    def refusal(self, name: str) -> Script:
        """The refusal *name*, a fault of the repertoire."""
        return self.repertoire.faults[name].script(Conversation({}), "")

    def answer(
        self, request: RecordedRequest, document: Json | None, *, strict: bool, first_time: Callable[..., bool]
    ) -> Script:
        """The script for a chat request, still to be spoken.

        Args:
            request: The request.
            document: Its body; ``None``: no JSON object.
            strict: Whether the rules are checked.
            first_time: Whether a once-only marker strikes for a conversation.
        """
        if document is None:
            return self.complaint(NOT_JSON)
        question = self.read(request, document)
        refused = self._refused(request, document, question) if strict else None
        return limited(self._played(question, first_time), question) if refused is None else refused

    def _refused(self, request: RecordedRequest, document: Json, question: Question) -> Script | None:
        if self.header and self.header not in request.headers:
            return self.complaint(f"{self.header}: header is required")
        if not any(_is(question.model, model) for model in self.models):
            return self.no_model(question.model)
        broken = next(filter(None, (rule(document, question) for rule in self.rules)), "")
        return self.complaint(broken) if broken else None

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

    def speak(self, request: RecordedRequest, document: Json | None, script: Script) -> Script:
        """*script* in this format."""
        question = self.read(request, document or {})
        speaker = self.speaker(request, question, used_by(script, question))
        stream = question.stream and "unstreamed" not in question.habits
        return spoken(script, speaker, stream=stream)

    def list_models(self, request: RecordedRequest) -> Script:
        """The answer to who asks for the models."""
        return json_answer(200, self.listing(self.models, dict(parse_qsl(request.query))))

    def count(self, request: RecordedRequest, document: Json | None) -> Script:
        """The answer to who asks for a count of tokens."""
        if document is None:
            return self.complaint(NOT_JSON)
        return json_answer(200, self.counted(self.read(request, document).conversation.size))


def _is(name: str, model: Model) -> bool:
    """Whether *name* is the model's, or that with a date."""
    return name == model.id or name.startswith(f"{model.id}-20")
