"""Every request of the corpus through the whole gateway to the other services, each of which enforces its rules."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from attrs import frozen

from kiro_asgi import App, create_app
from kiro_asgi.asgi.exchange.explain import GATEWAY_RULES
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.unread import RULES as API_RULES
from kiro_asgi.model.rules import Loss, Rule
from kiro_asgi.simulator.openai import read
from kiro_asgi.simulator.openai.checks import RULES as OPENAI_CHECKS
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.server import Simulator
from kiro_asgi.upstreams.anthropic.rules import RULES as ANTHROPIC_RULES
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered, Upstream
from kiro_asgi.upstreams.gemini.rules import RULES as GEMINI_RULES
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.openai.rules import RULES as OPENAI_RULES
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from kiro_asgi.upstreams.settings import AnswerOptions
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, post
from tests.corpus.content import Piece, Told, forms, is_renamed, names, options, pieces
from tests.corpus.entries import CORPUS, Entry
from tests.ways import why_translated

PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "responses": "/v1/responses"}
DIALECTS = {"anthropic": AnthropicMessages(), "openai": OpenAIChat(), "responses": OpenAIResponses()}
CHATS = [entry for entry in CORPUS if entry.api in PATHS]


@frozen
class Target:
    """A model of a service."""

    upstream: str
    model: str
    api: str
    """Of the service."""

    rules: tuple[Rule, ...]

    @property
    def name(self) -> str:
        """What a client asks for."""
        return f"{self.upstream}/{self.model}"


TARGETS = (
    Target("gemini", "gemini-2.5-flash", "gemini", GEMINI_RULES),
    Target("gemini", "gemini-3-pro-preview", "gemini", GEMINI_RULES),
    Target("anthropic", "claude-sonnet-4-5", "anthropic", ANTHROPIC_RULES),
    Target("anthropic", "claude-opus-4-6", "anthropic", ANTHROPIC_RULES),
    Target("openai", "gpt-4o", "openai", OPENAI_RULES),
    Target("openai", "gpt-5", "openai", OPENAI_RULES),
    Target("local", "gpt-4o", "openai", OPENAI_RULES),
)

RELAYED = TARGETS[2::2]
"""One model of each upstream whose API clients speak."""

REFUSALS: dict[str, dict[str, str]] = {
    "documents_by_address": {"gemini": "documents.address", "openai": "documents.address"},
    "image_by_address": {"gemini": "images.address"},
    "image_format_unknown": {"gemini": "images.format", "anthropic": "images.format"},
    "image_no_base64": dict.fromkeys(("gemini", "anthropic", "openai"), "attachments.base64"),
}
"""A request to the APIs of the services that cannot be given it, each with the rule that says so."""

MAY_LOSE: dict[str, tuple[str, ...]] = {
    "thinking": ("thinking.", "adapted.signatures"),
    "schema": ("schema.", "tools.duplicate_dropped"),
    "tool": ("tools.duplicate_dropped",),
    "name": ("tools.duplicate_dropped", "tools.renamed"),
    "option": ("sampling.", "stop.", "thinking.max_tokens", "adapted.field"),
}
"""Kind of content to the rules that may cost some of it; words, attachments and arguments may not be lost at all."""

REPEATED = ("text", "input", "image", "document")
"""Kinds of content that are told as often as the client tells them."""

REPEATS = {"calls.duplicate_dropped", "results.duplicate_dropped"}
"""Rules that drop what was said before."""

FORMS = {"response_format", "text", "output_config", "output_format"}
"""Fields that demand a form of the answer."""

PLACE = re.compile(r"(messages|input|tools|tool_choice|system|response_format|output_config)[^ :]*: ")

EACH = pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in CHATS])


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """What is asked of an upstream has nothing to do with the loop."""
    return "asyncio"


@pytest.fixture(scope="module")
async def gateways(service: Simulator) -> AsyncIterator[Callable[[str], App]]:
    """Gateways in front of all services, by whether requests may go on as they are."""
    upstreams = {
        "gemini": {"api_key": "goo", "endpoint": service.url},
        "anthropic": {"api_key": "sk-ant", "endpoint": service.url},
        "openai": {"api_key": "sk-oai", "endpoint": f"{service.url}/v1"},
        "custom": {"local": {"endpoint": f"{service.url}/v1", "relay": "allow"}},
    }
    apps = {
        relay: create_app(
            settings_for(
                service.url, {**upstreams, "stream": {"relay": relay}, "structured": {"streaming": "unchecked"}}
            )
        )
        for relay in ("never", "auto")
    }
    yield apps.__getitem__
    for app in apps.values():
        await app.aclose()


def asking(entry: Entry, target: Target) -> Exchange:
    """The question to that model, and for the rules that are applied; every other entry is streamed.

    So is one that wants JSON, since the simulated services do not give any, and a collected answer is held to it.
    """
    formed = not FORMS.isdisjoint(entry.body)
    body = {**entry.body, "model": target.name, "stream": formed or CORPUS.index(entry) % 2 == 0}
    exchange = post(PATHS[entry.api], body)
    exchange.scope["headers"].append((b"x-kiro-asgi-rules", b"1"))
    return exchange


def asked(sim: Simulator, target: Target) -> list[RecordedRequest]:
    """What the service was asked."""
    return [request for request in sim.requests if request.operation == f"{target.api}.chat"]


def notes_of(answer: Exchange) -> dict[str, int]:
    """The rules that the client is told of, each with how often it was applied."""
    found = re.findall(r"([a-z_0-9.]+)(?:;n=([0-9]+))?(?:;at=\"[^\"]*\")?(?:, |$)", answer.headers["x-kiro-asgi-rules"])
    return {name: int(times or 1) for name, times in found}


def told_by(entry: Entry, target: Target) -> list[Piece]:
    """What the service must be told; Gemini has the answer's schema in its own words."""
    every = (*pieces(entry.body), *names(entry.body), *options(entry.body))
    found = [piece for piece in every if piece.text not in entry.expect.unsaid]
    if target.api != "gemini":
        return found
    return [*(piece for piece in found if piece.kind != "form"), *forms(entry.body)]


def unexplained(piece: Piece, notes: Iterable[str], rules: tuple[Rule, ...]) -> bool:
    """Whether no rule that was noted may have cost *piece*."""
    if is_renamed(piece, notes):
        return False
    may = [rule for rule in rules if rule.name in notes and rule.name.startswith(MAY_LOSE.get(piece.kind, ()))]
    return not any(rule.loss is Loss.CONTENT or piece.kind in ("name", "option") for rule in may)


def missing(entry: Entry, target: Target, document: Any, notes: Iterable[str]) -> list[Piece]:
    """What *document* does not tell, or not as often as the client, and no rule explains."""
    told, every = Told(document), told_by(entry, target)
    often = Counter(piece.text for piece in every if piece.kind in REPEATED and not REPEATS & {*notes})
    lost = [
        piece
        for piece in every
        if not (
            told.holds_value(piece.text) if piece.kind == "option" else told.holds(piece.text, often[piece.text] or 1)
        )
    ]
    return [piece for piece in lost if unexplained(piece, notes, target.rules)]


def check_refusal(entry: Entry, target: Target, answer: Exchange) -> None:
    """It names the rule, where it is not the client's API itself that refuses, and the place."""
    message, rule = answer.json()["error"]["message"], REFUSALS.get(entry.name, {}).get(target.api, "")
    assert answer.status == 400, target.name
    assert PLACE.match(message), target.name
    assert (f"(rule {rule})" in message) if rule else (entry.expect.status == 400 and not entry.expect.rule), message


def check_request(entry: Entry, target: Target, notes: dict[str, int], requests: list[RecordedRequest]) -> None:
    """It is taken, at once or after a remedy that was not known from an earlier entry, and tells everything."""
    remedies = sum(times for name, times in notes.items() if name.startswith("adapted."))
    assert target.api not in REFUSALS.get(entry.name, {})
    assert len(requests) <= remedies + 1, target.name
    assert [request.status for request in requests] == [*[400] * (len(requests) - 1), 200], target.name
    known = {rule.name for rule in (*target.rules, *API_RULES, *GATEWAY_RULES)}
    assert notes.keys() - known <= {"text.before_demanded_call"}, target.name  # of the answer, which follows the rules
    lost = missing(entry, target, requests[-1].json(), notes)
    assert [(piece.kind, piece.path, piece.text[:60]) for piece in lost] == [], (target.name, notes)


@EACH
@pytest.mark.anyio
async def test_accepted_whole_or_refused(entry: Entry, gateways: Callable[[str], App], sim: Simulator) -> None:
    """Each service takes what the gateway makes of it, or the gateway says at once what cannot be sent, and where.

    Every string that the client tells the model reaches the service, or a rule of that service is told that says of
    itself that it loses content of this kind.  After a remedy the same holds.
    """
    for target in TARGETS:
        sim.forget()
        answer = await asking(entry, target).run(gateways("never"))

        if answer.status == 200:
            check_request(entry, target, notes_of(answer), asked(sim, target))
        else:
            check_refusal(entry, target, answer)
            assert asked(sim, target) == [], target.name


def goes_through(entry: Entry, target: Target) -> bool:
    """Whether nothing in a request is the gateway's."""
    dialect = DIALECTS[entry.api]
    assert isinstance(dialect, AnthropicMessages | OpenAIChat)
    upstream = WRITERS["custom" if target.upstream == "local" else target.upstream][0]
    body = {**json.loads(asking(entry, target).body[0]), "model": target.model}
    options = AnswerOptions(first_event_timeout=1.0, thinking_first_event_timeout=1.0)
    return not why_translated(dialect, json.dumps(body).encode(), upstream, answer_options=options)


def test_some_of_them_go_through_and_most_do_not() -> None:
    """The corpus has both, so the test below tells something."""
    pairs = [(entry, target) for entry in CHATS for target in RELAYED if target.api == entry.api]
    through = sum(goes_through(entry, target) for entry, target in pairs)
    assert 20 < through < len(pairs) / 2


@EACH
@pytest.mark.anyio
async def test_relayed_as_it_is(entry: Entry, gateways: Callable[[str], App], sim: Simulator) -> None:
    """A service of the client's own API is asked in the client's bytes, but for the model, where nothing in the request
    is the gateway's; then it answers for itself."""
    for target in RELAYED:
        if target.api == entry.api and goes_through(entry, target):
            sim.forget()
            exchange = asking(entry, target)
            body = exchange.body[0]

            answer = await exchange.run(gateways("auto"))

            request, *again = asked(sim, target)
            model = request.json()["model"]
            assert model.startswith(target.model)
            sent = body.replace(target.name.encode(), model.encode(), 1)
            # What the service has refused in an entry before is left out.
            assert request.body == sent or request.json().items() < json.loads(sent).items()
            # What the service refuses may be mended; then it is asked again, and answers.
            assert answer.status == (again[-1] if again else request).status in (200, 400), target.name
            assert len(again) <= 2


KEY = Credential(CredentialKind.API_KEY, "sk")
WRITERS: dict[str, tuple[Upstream, str]] = {
    "gemini": (GeminiUpstream(), "gemini-3-pro-preview"),
    "anthropic": (AnthropicUpstream(), "claude-sonnet-4-5"),
    "openai": (OpenAIUpstream(), "gpt-4o"),
    "openai-thinking": (OpenAIUpstream(), "gpt-5"),
    "custom": (OpenAIUpstream(endpoint="http://localhost/v1"), "llama"),
}


def render(entry: Entry, writer: str) -> Rendered:
    """What an upstream, at the service's own address, makes of an entry."""
    upstream, model = WRITERS[writer]
    card = next((card for card in upstream.builtin if card.id.startswith(model)), ModelCard(model))
    return upstream.render(DIALECTS[entry.api].parse(json.dumps(entry.body).encode()).prompt, card, KEY)


WRITABLE = [
    entry for entry in CHATS if entry.name not in REFUSALS and (entry.expect.rule or entry.expect.status == 200)
]


@pytest.mark.parametrize("writer", WRITERS)
def test_written_twice_the_same(writer: str) -> None:
    """The same question is the same bytes, so that services find what they have read before."""
    for entry in WRITABLE:
        first, second = render(entry, writer), render(entry, writer)
        assert (first.request.body, first.notes) == (second.request.body, second.notes), entry.name


@pytest.mark.parametrize("writer", ["openai", "openai-thinking"])
def test_openai_itself_takes_it_whole(writer: str) -> None:
    """What is meant for OpenAI alone keeps its rules at once, and tells everything that was said."""
    for entry in WRITABLE:
        rendered = render(entry, writer)
        document, notes = json.loads(rendered.request.body), [note.rule for note in rendered.notes]
        question = read(document)

        assert [*filter(None, (rule(document, question) for rule in OPENAI_CHECKS))] == [], entry.name
        assert missing(entry, TARGETS[-1], document, notes) == [], entry.name
