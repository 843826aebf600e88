"""Targets that read requests, and put them into the words of each service: bodies, schemas, stop sequences."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from kiro_asgi.dialects.base import Dialect
from kiro_asgi.errors import ContextTooLong, KiroAsgiError, RequestError, UnknownModel
from kiro_asgi.model.events import TextDelta
from kiro_asgi.stages.answer import Plan, Repairs
from kiro_asgi.stages.arguments import USUAL
from kiro_asgi.stages.estimate import TokenEstimator
from kiro_asgi.stages.limits import Limits
from kiro_asgi.streaming import (
    ThinkingParser,
    ThinkingParseResult,
    clean_json_schema_properties,
    diagnose_json_truncation,
    inject_anthropic_truncation_recovery,
    inject_openai_truncation_recovery,
    safe_parse_json,
    sanitize_text,
    translate_kiro_request,
)
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Credential, CredentialKind, Upstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from tests.fuzz.answered import DIALECTS, answered, framed
from tests.fuzz.schemas import chain, schema
from tests.fuzz.seeds import Step, requests
from tests.fuzz.source import REPEATS, Source, dumped
from tests.fuzz.target import LARGEST, cut_text, made, refuse, same

__all__ = ["library", "requests_of", "schemas", "stops"]

KEY: Final = Credential(CredentialKind.API_KEY, "ksk_fuzz")


@cache
def upstreams() -> tuple[Upstream, ...]:
    return KiroUpstream(), GeminiUpstream(), AnthropicUpstream(), OpenAIUpstream()


def _is_refusal(error: KiroAsgiError, dialect: Dialect) -> None:
    """A refusal is the client's fault, and can be told."""
    assert 400 <= error.status < 500, error
    reply = dialect.error(error, "req_1")
    assert 400 <= reply.status < 500
    json.loads(reply.body, parse_constant=refuse)
    assert len(reply.body) < 4096, f"a refusal of {len(reply.body)} bytes"


def render(dialect: Dialect, body: bytes, source: Source) -> None:
    """Read a request, and write it down for each service, for one of its models."""
    try:
        parsed = dialect.parse(body)
    except RequestError as error:
        _is_refusal(error, dialect)
        return
    dialect.meta(parsed, lambda: "0" * 24, 1)
    for upstream in upstreams():
        try:
            rendered = upstream.render(parsed.prompt, source.pick(upstream.builtin), KEY)
        except (RequestError, ContextTooLong) as error:
            _is_refusal(error, dialect)
            continue
        json.loads(rendered.request.body, parse_constant=refuse)
        assert 0 <= upstream.estimate_tokens(rendered, TokenEstimator()) < math.inf
        assert all(isinstance(number, int) for number in upstream.statistics(rendered).values())
        for name, value in rendered.request.headers:
            assert b"\n" not in name + value and b"\r" not in name + value


@cache
def _bodies(api: str) -> tuple[Any, ...]:
    """Bodies to begin with; those of the Gemini API are what its service is told of the others'."""
    if api != "gemini":
        return requests(api)
    service, bodies = GeminiUpstream(), []
    for body in requests("openai"):
        with contextlib.suppress(RequestError):
            prompt = DIALECTS["openai"].parse(dumped(body)).prompt
            bodies.append(json.loads(service.render(prompt, service.builtin[0], KEY).request.body))
    return tuple(bodies)


def requests_of(api: str) -> Callable[[bytes], int]:
    def make(source: Source) -> bytes:
        body = dumped(source.mutated(source.pick(_bodies(api))))
        return source.edited(body) if source.below(4) == 3 else body

    def run(data: bytes) -> int:
        body, source = made(data, make)
        render(DIALECTS[api], body, source)
        return len(body)

    return run


def schemas(data: bytes) -> int:
    def make(source: Source) -> bytes:
        value = schema(source) if source.below(4) else chain(source)
        # Repeated within what is repeated, it may be gigabytes.
        pieces, size = [], 0
        for piece in json.JSONEncoder(separators=(",", ":")).iterencode(value):
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST:
                break
        return "".join(pieces).encode()

    text, source = made(data, make)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return len(text)
    turns = [{"role": "user", "content": "x"}]
    function = {"name": "f", "parameters": value}
    body: dict[str, Any] = {"model": "m", "messages": turns, "tools": [{"type": "function", "function": function}]}
    if source.below(2):
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "n", "schema": value}}
    render(DIALECTS["openai"], dumped(body), source)
    if isinstance(value, dict):
        with contextlib.suppress(RequestError):  # too deep
            clean_json_schema_properties(value)
        arguments = source.pick(('{"a": 1}', '{"b": "[1]", "A": {"city": "x"}}', '{"city": "{}"}', '[{"a": []}]'))
        plan = Plan(repairs=Repairs(schemas={"f": value}, renames=USUAL))
        wire = framed([Step("toolUseEvent", {"name": "f", "toolUseId": "1", "input": arguments, "stop": True})])
        answered("kiro", [wire], plan)
    return len(text)


def stops(data: bytes) -> int:
    source = Source(data)
    alphabet = source.pick(("ab", "a", "xyé\n"))

    def word(most: int) -> str:
        return "".join(source.pick(alphabet) for _ in range(source.below(most))) * source.pick(REPEATS[:5])

    stops = tuple(dict.fromkeys(filter(None, (word(8) for _ in range(1 + source.below(6))))))
    text = "".join(word(20) for _ in range(source.below(8)))
    results = []
    for way in ([text], cut_text(text, source), list(text)):
        stage = Limits(stop=stops)
        deltas = [*stage.feed(map(TextDelta, way)), *stage.flush()]
        results.append(("".join(it.text for it in deltas if isinstance(it, TextDelta)), stage.reached))
    same(results)
    shown, reached = results[0]
    ends = [place + len(stop) for stop in stops if (place := text.find(stop)) >= 0]
    assert reached is bool(ends)
    assert text.startswith(shown)
    if ends:
        assert any(shown + stop == text[: min(ends)] for stop in stops), "not the stop that is complete first"
    else:
        assert shown == text
    return len(text) + sum(map(len, stops))


def library(data: bytes) -> int:
    text, source = made(data, lambda it: it.edited(dumped(it.mutated(it.pick(requests("anthropic"))))))
    words = text.decode("utf-8", "replace")
    safe_parse_json(words)
    diagnose_json_truncation(words)
    sanitize_text(words)
    _tagged(words, source)
    try:
        document = json.loads(text)
        prompt = DIALECTS["anthropic"].parse(text).prompt
    except (KiroAsgiError, ValueError, RecursionError):
        return len(text)
    inject_anthropic_truncation_recovery(document)
    inject_openai_truncation_recovery(document)
    with contextlib.suppress(UnknownModel):
        json.dumps(translate_kiro_request(prompt).document())
    return len(text)


def _tagged(words: str, source: Source) -> None:
    """Thinking in tags is found wherever the text is cut."""
    results = []
    for way in ([words], cut_text(words, source)):
        parser = ThinkingParser()
        found = [parser.feed(piece) for piece in way]
        results.append(tuple("".join(each) for each in zip(*map(_said, [*found, parser.finalize()]), strict=True)))
    same(results)


def _said(result: ThinkingParseResult) -> tuple[str, str]:
    return result.thinking_content or "", result.regular_content or ""
