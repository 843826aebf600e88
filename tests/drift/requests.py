"""What becomes of each member of a request: it is read, noted, refused, or nobody says anything of it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final

from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from anthropic.types.message_create_params import MessageCreateParamsStreaming as StableMessages
from attrs import define, field, frozen
from google.genai import models as google
from google.genai import types as google_types
from openai.types.beta.response_create_params import ResponseCreateParamsStreaming as BetaResponses
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from kiro_asgi import Settings
from kiro_asgi.asgi.exchange.explain import PLACEHOLDER, Choice, Upstreams
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, ParsedRequest
from kiro_asgi.dialects.gemini.dialect import GeminiApi
from kiro_asgi.dialects.gemini.parsing import snake_case
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.notes import Notes
from tests.drift.samples import Body, Place, least, places, sample
from tests.drift.types import Array, Member, Object, Types

__all__ = ["APIS", "Api", "Fate", "fates"]


class Fate(Enum):
    """What becomes of a member."""

    READ = "read"
    """It changes what a service is asked, or what the gateway does."""

    PASSED = "passed"
    """Services of the API are sent it as it came; a note says that no other is."""

    NOTED = "noted"
    """A note says that it is left out, or has no effect."""

    REFUSED = "refused"
    """The request is an error that says why."""

    SETTLED = "settled"
    """It says what is so anyway, or means nothing by itself; `ASIDE` has the reason."""

    SILENT = "silent"
    """Nothing follows from it, and nobody is told."""


ASIDE: Final[Mapping[tuple[str, str], str]] = {
    ("response_format(json_schema).json_schema", "strict"): "an answer is always held to its schema",
    ("", "text"): "its first member is the form of the answer, and the first form is any text",
    (
        "messages[].content[](web_search_tool_result).content[](web_search_result)",
        "encrypted_content",
    ): "only the service that has sealed it can read it, and gets it back with its own call",
    ("contents[].parts[]", "thought"): "it is about the text beside it",
    ("generationConfig.responseSchema", "example"): "it says nothing of which answers are legal",
    ("generationConfig.responseSchema", "propertyOrdering"): "it says nothing of which answers are legal",
}
"""Place and member to why nothing follows from it, and nobody is told."""

CONVERSATION: Final = "00000000-0000-4000-8000-000000000000"

SETTINGS: Final = {
    "client": {"allow_anonymous": True},
    "kiro": {"api_key": "k", "conversation_salt": "s"},
    "bedrock": {"api_key": "k", "region": "eu-central-1"},
    **{name: {"api_key": "k"} for name in ("anthropic", "openai", "gemini")},
}

MODELS: Final = (
    ("kiro", "claude-sonnet-4.5"),
    ("anthropic", "claude-opus-4-6"),
    ("openai", "gpt-4o"),
    ("openai", "gpt-5-pro"),
    ("gemini", "gemini-2.5-flash"),
    ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "amazon.nova-pro-v1:0"),
)
"""Services, each asked in each of its ways."""


@frozen(kw_only=True)
class Api:
    """One client API."""

    title: str
    dialect: Dialect
    roots: tuple[Object, ...]
    """The classes of whole requests; what comes first has its members only once."""

    frame: Callable[[Body], Body]
    """Puts around a sample what it needs to be legal: what it calls or answers."""

    first: Mapping[str, int]
    """How many items the frame puts before those of the sample, by member."""

    spelling: Callable[[str], str] = str
    """From the SDK's spelling of a place to that of notes."""


def _messages(body: Body) -> Body:
    call = {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}}
    before = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [call]}]
    return {
        "tools": [{"name": "x", "input_schema": {"type": "object"}}],
        **body,
        "messages": [*before, *body["messages"]],
    }


_FUNCTION: Final = {"name": "x", "parameters": {"type": "object"}}


def _chat(body: Body) -> Body:
    call = {"id": "x", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    before = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [call], "function_call": call["function"]},
    ]
    return {"tools": [{"type": "function", "function": _FUNCTION}], **body, "messages": [*before, *body["messages"]]}


def _responses(body: Body) -> Body:
    given = body.get("input", "x")
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    before = [
        {"role": "user", "content": "x"},
        {"type": "function_call", "call_id": "x", "name": "x", "arguments": "{}"},
    ]
    return {"model": "x", "tools": [{"type": "function", **_FUNCTION}], **body, "input": [*before, *items]}


def _gemini(body: Body) -> Body:
    call = {"role": "model", "parts": [{"functionCall": {"name": "x", "id": "x", "args": {}}}]}
    before = [{"role": "user", "parts": [{"text": "x"}]}, call]
    return {
        "tools": [{"functionDeclarations": [{"name": "x"}]}],
        **body,
        "contents": [*before, *body.get("contents", ())],
    }


def _google(types: Types) -> Object:
    """A request of Google's: of its class for options, some stand in the request itself, the others in a group."""
    config = types.object(google_types.GenerateContentConfig).members
    source = inspect.getsource(google._GenerateContentConfig_to_mldev) + inspect.getsource(
        google._GenerateContentConfig_to_vertex
    )
    top = set(re.findall(r"parent_object,\s*\['(\w+)'\]", source))
    generation = {name: member for name, member in config.items() if name not in top | _CLIENT_ONLY}
    generation = {**types.object(google_types.GenerationConfig).members, **generation}
    contents = Member(True, (Array((types.object(google_types.Content),)),))
    one_way = {"systemInstruction": Member(False, (types.object(google_types.Content),))}
    one_way["tools"] = Member(False, (Array((types.object(google_types.Tool),)),))
    members = {
        "contents": contents,
        **{name: member for name, member in config.items() if name in top},
        **one_way,
        "generationConfig": Member(False, (Object("GenerationConfig", lambda: generation),)),
    }
    return Object("GenerateContentRequest", lambda: members)


_CLIENT_ONLY: Final = {"httpOptions", "shouldReturnHttpResponse", "automaticFunctionCalling"}
"""Options of Google's client, which it does not send."""


def _apis() -> dict[str, Api]:
    types = Types()
    return {
        "messages": Api(
            title="Messages",
            dialect=AnthropicMessages(),
            roots=(types.object(MessageCreateParamsStreaming), types.object(StableMessages)),
            frame=_messages,
            first={"messages": 2},
        ),
        "chat": Api(
            title="Chat Completions",
            dialect=OpenAIChat(),
            roots=(types.object(CompletionCreateParamsStreaming),),
            frame=_chat,
            first={"messages": 2},
        ),
        "responses": Api(
            title="Responses",
            dialect=OpenAIResponses(),
            roots=(types.object(ResponseCreateParamsStreaming), types.object(BetaResponses)),
            frame=_responses,
            first={"input": 2},
        ),
        "gemini": Api(
            title="Gemini",
            dialect=GeminiApi("m"),
            roots=(_google(types),),
            frame=_gemini,
            first={"contents": 2},
            spelling=snake_case,
        ),
    }


APIS: Final[Mapping[str, Api]] = _apis()


@frozen(kw_only=True)
class Effect:
    """All that follows from a request."""

    done: Any = None
    """What services are asked, and what the gateway keeps."""

    noted: frozenset[Any] = frozenset()
    places: frozenset[str] = frozenset()
    """Where notes say that something is left out."""

    kept: frozenset[Any] = frozenset()
    """Those of the notes that do not hold for services of the API."""

    refused: str = ""
    """Why it is an error."""

    def covers(self, place: str) -> bool:
        """Whether a note is about *place*, or about what holds it; of tools, services have forms of their own."""
        noted = [each for each in map(_of_tool, self.places) if each]
        return any(place == each or place.startswith((f"{each}.", f"{each}[")) for each in noted)


def _of_tool(place: str) -> str:
    return re.sub(r"^((?:tools|functions)\[\d+\]).*", r"\1", place)


@contextmanager
def noted_places() -> Iterator[set[str]]:
    """Collect every place at which a rule applies: a note itself has the first of them only."""
    places_: set[str] = set()
    applies = Notes.applies

    def seen(notes: Notes, rule: str, place: str = "", times: int = 1, kept_for: str = "") -> bool:
        if done := applies(notes, rule, place, times, kept_for):
            places_.add(place)
        return done

    Notes.applies = seen
    try:
        yield places_
    finally:
        Notes.applies = applies


@define
class _Bench:
    """One API in front of all services, offline."""

    api: Api
    _choices: tuple[Choice, ...] = field(init=False)

    @_choices.default
    def _chosen(self) -> tuple[Choice, ...]:
        upstreams = Upstreams.create(Settings.from_mapping(SETTINGS))
        return tuple(upstreams.choose(model, name) for name, model in MODELS)

    def fate(self, place: Place, name: str) -> Fate:
        """What becomes of the member of this *name* of the object at *place*."""
        plain, member = least(place.object), place.object.members[name]
        without = plain if member.required else {key: value for key, value in plain.items() if key != name}
        given = ({**plain, name: sample(name, spec, which)} for spec in member.specs for which in (0, 1))
        base, *found = (self._effect(self.api.frame(place.put(value))) for value in (without, *given))
        fate = _fate(base, found, member.required)
        at = self.api.spelling(place.at(name, self.api.first))
        if fate is not Fate.SILENT:
            return fate
        if base.covers(at):
            return Fate.NOTED
        return Fate.SETTLED if (place.name, name) in ASIDE else fate

    def _effect(self, body: Body) -> Effect:
        """What follows from a request."""
        data = json.dumps(body).encode()
        try:
            parsed = self.api.dialect.parse(data)
        except KiroAsgiError as error:
            return Effect(refused=error.message)
        with noted_places() as places_:
            told = self.api.dialect.notes(data, parsed)
            notes = frozenset((note.rule, note.times) for note in told)
            asked = [_asked(parsed, choice) for choice in self._choices]
        prompt = parsed.prompt
        kept = (
            prompt.model,
            parsed.stream,
            parsed.options,
            prompt.tool_choice,
            prompt.schema,
            prompt.thinking,
            prompt.session,
        )
        return Effect(
            done=(kept, [each for each, _ in asked]),
            noted=notes.union(*(own for _, own in asked)),
            kept=frozenset((note.rule, note.times) for note in told if note.kept_for),
            places=frozenset(places_),
        )


def _fate(base: Effect, found: list[Effect], required: bool) -> Fate:
    """What becomes of a member, by what follows without it and with several values of it."""
    taken = [each for each in found if not each.refused]
    if not taken:
        return Fate.REFUSED
    if not base.refused and any(each.kept - base.kept for each in taken):
        return Fate.PASSED
    if base.refused or any(each.done != base.done for each in taken) or (required and len(taken) < len(found)):
        return Fate.READ
    if any(each.noted - base.noted for each in taken):
        return Fate.NOTED
    return Fate.REFUSED if len(taken) < len(found) else Fate.SILENT


def _asked(parsed: ParsedRequest, choice: Choice) -> tuple[Any, frozenset[Any]]:
    """What one service is asked, and the notes on that."""
    try:
        upstream = choice.provider.asking(choice.model)
        prompt, left_out = choice.provider.adapted(parsed.prompt, choice.name, choice.model, upstream)
        put = upstream.render(prompt, choice.model, PLACEHOLDER, CONVERSATION)
    except KiroAsgiError as error:
        return error.message, frozenset()
    notes = {(choice.name, note.rule, note.times) for note in (*left_out, *put.notes)}
    return (put.request.body, [tool.options for tool in prompt.tools], put.stop, put.max_tokens), frozenset(notes)


def fates(api: Api) -> Iterator[tuple[Place, str, Fate]]:
    """What becomes of every member that the SDK knows."""
    bench = _Bench(api)
    known: set[tuple[str, str]] = set()
    for root in api.roots:
        for place in places(root):
            for name in place.object.members:
                if name not in place.object.tags and (place.name, name) not in known:
                    known.add((place.name, name))
                    yield place, name, bench.fate(place, name)
