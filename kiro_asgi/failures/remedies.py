"""The smallest change to a request that answers a refusal: one engine for every service and every request.

A refusal leads to one of four changes.  The request is asked by another API of the service, where the refusal says so.
A rule of the service's own is put in force (`Lesson`).  A member that was named is left out, or has its other name.
Or nothing helps.  What a request was asked for is never left out, nor what says where it may be handled, who may keep
it, and what is safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.errors import KiroAsgiError, UpstreamRejected
from kiro_asgi.failures.members import Place, blames_member, named_members, places_of, unquoted, without
from kiro_asgi.failures.phrases import UNCACHED

Object = Mapping[str, Any]

FIELD: Final = "adapted.field"
"""Rule by which a member that a service refused is left out, or has its other name."""

OTHER_API: Final = "other_api"
"""Feature of a remedy by which a request is asked by another API of the service."""

OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}
)
"""Member of Chat Completions to its other name: newer models know only the first, many servers only the second."""

PRIVATE: Final = frozenset(
    {
        *("inference_geo", "safetySettings", "safety_settings", "safety_identifier", "data_collection", "zdr"),
        *("provider", "guardrailConfig", "guardrail_config", "guardrails", "moderation", "data_residency", "residency"),
        *("data_retention", "retention", "privacy", "no_log", "allowed_regions", "region", "location", "anonymize"),
    }
)
"""Members that steer privacy, safety or residency: a service that refuses one refuses the request."""

_ASKED: Final = frozenset(
    {
        # What the request is.
        *("model", "messages", "input", "contents", "prompt", "instructions", "system", "systemInstruction", "stream"),
        *("tools", "tool_choice", "toolConfig", "toolChoice", "functions", "function_call", "inferenceConfig"),
        # What the answer has to be.
        *("response_format", "output_format", "format", "text", "n", "candidateCount", "logprobs", "top_logprobs"),
        *("responseLogprobs", "audio", "modalities", "responseModalities", "speechConfig", "responseJsonSchema"),
        *("responseSchema", "responseMimeType", "json_schema", "schema", "generationConfig", "outputConfig"),
        # What it builds on.
        *(
            "image_config",
            "imageConfig",
            "responseFormat",
            "previous_response_id",
            "conversation",
            "container",
            "thread",
            "background",
            "cachedContent",
            "mcp_servers",
        ),
        *("web_search_options", "prediction", "fallbacks", "anthropic_version"),
        # What messages are made of.
        *("role", "content", "type", "name", "id", "function", "arguments", "tool_use_id", "tool_call_id", "call_id"),
        *("tool_calls", "output", "source", "url", "media_type", "mediaType", "data", "image_url", "file", "parts"),
        *("functionCall", "functionResponse", "inlineData", "fileData", "toolUse", "toolResult", "toolUseId", "image"),
        *("document", "toolSpec", "toolSpecification", "inputSchema", "input_schema", "parameters", "description"),
        *("dimensions", "input_type", "task_type", "taskType", "outputDimensionality"),
        *("properties", "required", "index", "status", "tool_use", "tool_result", "body", "value", "code"),
    }
)
"""Members without which a request asks for something else."""

_RESPONSES: Final = re.compile(
    r"\bonly (?:supported|available) (?:in|with|through|via) (?:the )?/?v1/responses\b"
    r"|\buse (?:the )?/?v1/responses\b"
    r"|\bnot (?:accessible|supported|available) (?:via|in|with|by|through) (?:the )?/?(?:v1/)?chat/completions\b",
    re.I | re.S,
)
"""Words that say where to ask instead."""

_TOOLS: Final = re.compile(r"\b(?:function|tool)s?\b", re.I)
_MARKS: Final = ("cachePoint", "cache_control")


@frozen
class Remedy:
    """One change to a request, which has answered a refusal or is to answer one."""

    feature: str
    """What was refused: a member's place, or the name of a rule."""

    rule: str = FIELD
    """Rule that is noted where it applies."""

    place: Place | None = None
    """The member that is left out, or has another name; ``None`` where a rule changes the request."""

    renamed: str = ""
    """Its other name."""

    condition: frozenset[str] = frozenset()
    """Members that a request must have: without them, the member was never refused."""

    lasting: bool = True
    """Whether it holds for further requests for the model."""

    upstream: Any = field(default=None, eq=False, repr=False)
    """Who asks in its place; ``None`` where the same does."""

    def concerns(self, document: Object) -> bool:
        """Whether it holds for a request with this *document*."""
        return self.condition <= document.keys()


@frozen
class Lesson:
    """What one service teaches by a refusal beside its members: a rule that is put in force."""

    feature: str
    rule: str
    codes: tuple[str, ...] = ()
    """Codes of the refusals that it answers."""

    hears: Callable[[KiroAsgiError, Object], bool] | None = None
    """Or whether a refusal, the answer to this document, is one of them."""

    helps: Callable[[Object], bool] = lambda document: True
    """Whether a request with this document is changed by the rule."""

    lasting: bool = True

    def answers(self, error: KiroAsgiError, document: Object) -> bool:
        """Whether the rule may mend what *error* says of *document*."""
        heard = self.hears is not None and isinstance(error, UpstreamRejected) and self.hears(error, document)
        return (heard or error.code in self.codes) and self.helps(document)


def remedy_for(
    error: KiroAsgiError,
    document: Object,
    known: tuple[Remedy, ...],
    lessons: Iterable[Lesson] = (),
    responses: Any = None,
    crossed: frozenset[str] = frozenset(),
) -> Remedy | None:
    """The change that answers *error*; ``None`` where none does.

    Args:
        error: The answer to *document*.
        document: The body that was sent.
        known: Changes that were made already.
        lessons: The service's own.
        responses: Who asks by the Responses API; ``None`` where nobody does.
        crossed: Members in which the gateway says in the service's words what the client has said in those of another
            API: their values are not the client's, and need only be named.
    """
    features = {each.feature for each in known}
    if responses is not None and _RESPONSES.search(error.message):
        needs = frozenset(("tools",)) if "tools" in document and _TOOLS.search(error.message) else frozenset[str]()
        return Remedy(OTHER_API, "", condition=needs, upstream=responses)
    for lesson in lessons:
        if lesson.feature not in features and lesson.answers(error, document):
            return Remedy(lesson.feature, lesson.rule, lasting=lesson.lasting)
    if not isinstance(error, UpstreamRejected):
        return None
    if error.code == UNCACHED:
        found = places_of(_MARKS, document)
        place = next((found[name] for name in _MARKS if name in found), None)
        return None if place is None else Remedy(place.name, place=Place(place.name))
    blamed = blames_member(error)
    if not blamed and not crossed:
        return None
    named = [*named_members(error, document, features)]
    for place in named:
        place = Place(place.name) if place.name in _MARKS else place
        if (blamed or place.name in crossed) and _may_go(place, features):
            return _left_out(place, document, features, error)
    return None


_OF_LESSONS: Final = frozenset({"reasoning_content", "reasoning"})
"""Members of messages of which a lesson says whether they are sent."""

_OF_TOOLS: Final = frozenset(
    {"strict", "defer_loading", "allowed_callers", "input_examples", "eager_input_streaming", *_MARKS}
)
"""Members of a tool without which it is the same tool."""


def _may_go(place: Place, features: set[str]) -> bool:
    if place.within == "messages" and place.name in _OF_LESSONS:
        return False
    if place.within in ("tools", "toolConfig", "toolSpec") and place.name not in _OF_TOOLS:
        return False
    names = (place.name, *filter(None, (place.within,)))
    return str(place) not in features and place.name not in _ASKED and PRIVATE.isdisjoint(names)


def _left_out(place: Place, document: Object, features: set[str], error: KiroAsgiError) -> Remedy:
    other = "" if place.within else OTHER_NAMES.get(place.name, "")
    words = {*re.findall(r"[A-Za-z_]+", unquoted(error.message))}
    beside = frozenset(name for name in document if name in words and name not in _ALWAYS and name != place.name)
    if "tools" in document and _TOOLS.search(error.message):
        beside |= {"tools"}
    return Remedy(
        str(place), place=place, renamed="" if other in features else other, condition=beside - {other, place.within}
    )


_ALWAYS: Final = frozenset({"model", "messages", "input", "contents", "stream", "system", "max_tokens", "instructions"})
"""Members that say nothing of when another one is refused."""


def mended(document: Object, remedies: Iterable[Remedy]) -> tuple[dict[str, Any], list[Remedy]]:
    """*document* with what *remedies* change in its members, and those that did."""
    body, applied = dict(document), list[Remedy]()
    for remedy in remedies:
        place = remedy.place
        if place is None or not remedy.concerns(body):
            continue
        changed = without_everywhere(body, place) if place.name in _MARKS and not place.within else without(body, place)
        if remedy.renamed and place.name in body:
            changed = {remedy.renamed: body[place.name], **changed} if remedy.renamed not in changed else changed
        if changed != body:
            body, applied = changed, [*applied, remedy]
    return body, applied


def without_everywhere(document: Object, place: Place) -> dict[str, Any]:
    """*document* without each member of that name, wherever it stands."""
    found, body = places_of({place.name}, document), dict(document)
    while (at := found.get(place.name)) is not None:
        changed = without(body, at)
        if changed == body:
            return body
        body, found = changed, places_of({place.name}, changed)
    return body
