"""Every request of the corpus through the whole gateway, against a service that enforces its rules."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from kiro_asgi import App, simulator
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.model.rules import Loss
from kiro_asgi.simulator.kiro.checks import RULES
from kiro_asgi.simulator.kiro.document import KiroDocument
from kiro_asgi.simulator.kiro.message_checks import KiroRequest, check
from kiro_asgi.simulator.kiro.models import MODELS
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.server import Simulator
from kiro_asgi.upstreams.base import Credential, CredentialKind, Rendered
from kiro_asgi.upstreams.kiro.models import FALLBACK, find
from kiro_asgi.upstreams.kiro.rules import TABLE
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.asgi.driver import Exchange, post
from tests.corpus.content import Piece, Told, is_renamed, pieces
from tests.corpus.entries import CORPUS, HERE, Entry

PATHS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic_count": "/v1/messages/count_tokens",
}
DIALECTS = {"anthropic": AnthropicMessages(), "openai": OpenAIChat(), "responses": OpenAIResponses()}

KEY = Credential(CredentialKind.API_KEY, "ksk_test")
HEADERS = {"authorization": "Bearer ksk_test", "tokentype": "API_KEY"}
FOREIGN = b'{"message": "Invalid signature in thinking block", "reason": "THINKING_SIGNATURE_INVALID"}'

MAY_LOSE: dict[str, tuple[str, ...]] = {
    "thinking": ("thinking.", "adapted.signatures"),
    "schema": ("schema.", "tools.duplicate_dropped", "tools.withheld"),
    "tool": ("tools.duplicate_dropped", "tools.withheld"),
    "image": ("images.limit",),
    "input": ("calls.empty_keys",),
}
"""Kind of content to the rules that may cost some of it; texts and documents may not be lost at all."""

EFFORT = "Invalid additionalModelRequestFields: property 'effort' must be one of ['low', 'medium', 'high', 'max']"
IMPROPER, INVALID = "Improperly formed request.", "REQUEST_BODY_INVALID"

NEEDED = [
    ("tools.duplicate_dropped", "repeated_tools", "TOOL_DUPLICATE"),
    ("tools.stubbed", "missing_tools", "TOOL_CONFIG_MISSING"),
    ("tools.renamed", "mcp_long_names", INVALID),
    ("tools.renamed", "names_in_two_cases", "TOOL_DUPLICATE"),
    ("tools.undescribed", "undescribed_tools", INVALID),
    ("tools.description_moved", "description_long", INVALID),
    ("schema.keywords", "schema_references", IMPROPER),
    ("schema.malformed", "schema_oddities", IMPROPER),
    ("schema.required", "schema_oddities", IMPROPER),
    ("schema.combinators", "schema_alternatives", "TOOL_SCHEMA_INVALID"),
    ("schema.root", "schema_alternatives", "TOOL_SCHEMA_INVALID"),
    ("images.limit", "images_25", "IMAGE_COUNT_EXCEEDED"),
    ("images.mismatch", "image_mislabelled", "IMAGE_MIME_MISMATCH"),
    ("images.format", "image_format_unknown", "IMAGE_FORMAT_UNSUPPORTED"),
    ("documents.renamed", "documents", "DOCUMENT_DUPLICATE_NAME"),
    ("attachments.base64", "image_wrapped", INVALID),
    ("results.no_output", "empty_results", INVALID),
    ("calls.empty_keys", "empty_keys", INVALID),
    ("calls.id_changed", "foreign_ids", INVALID),
    ("calls.id_repeated", "ids_used_again", INVALID),
    ("calls.unanswered", "interrupted_turn", "TOOL_USE_RESULT_MISMATCH"),
    ("results.orphan_to_text", "orphaned_results", IMPROPER),
    ("results.duplicate_dropped", "duplicate_results", INVALID),
    ("results.duplicate_to_text", "duplicate_results", INVALID),
    ("results.relocated", "late_results", INVALID),
    ("thinking.unsigned_dropped", "unsigned_thinking", "THINKING_SIGNATURE_INVALID"),
    ("thinking.malformed_dropped", "sealed_thinking_malformed", INVALID),
    ("thinking.second_dropped", "interleaved_thinking", INVALID),
    ("thinking.effort", "chat_effort_claude", EFFORT),
    ("turns.prefill", "prefill", INVALID),
    ("turns.user_first", "assistant_first", IMPROPER),
    ("turns.merged", "consecutive_users", IMPROPER),
    ("content.filled", "blank_turns", IMPROPER),
    ("size.message", "message_large", "CONTENT_LENGTH_EXCEEDS_THRESHOLD"),
    ("size.result", "result_large", "CONTENT_LENGTH_EXCEEDS_THRESHOLD"),
    ("size.payload", "body_large", IMPROPER),
]
"""A rule of ours, a request of the corpus, and what the service says to it without that rule."""

CHATS = [entry for entry in CORPUS if entry.api in DIALECTS]
ACCEPTED = [entry for entry in CHATS if entry.expect.status == 200]
REFUSED = [entry for entry in CORPUS if entry.expect.status != 200]


def each(entries: list[Entry]) -> Any:
    return pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in entries])


async def ask(app: App, entry: Entry) -> Exchange:
    """Ask the gateway; every other entry is streamed."""
    body = entry.body if entry.api == "anthropic_count" else {**entry.body, "stream": CORPUS.index(entry) % 2 == 0}
    return await post(PATHS[entry.api], body).run(app)


def chats(sim: Simulator) -> list[RecordedRequest]:
    """The chat requests that the service got."""
    return [request for request in sim.requests if request.operation == "GenerateAssistantResponse"]


def render(entry: Entry, upstream: KiroUpstream) -> Rendered:
    """What *upstream* makes of an entry."""
    prompt = DIALECTS[entry.api].parse(json.dumps(entry.body).encode()).prompt
    model = find(prompt.model, FALLBACK)
    assert model is not None
    return upstream.render(prompt, model, KEY)


def notes_of(entry: Entry) -> set[str]:
    """The rules that are noted about an entry, once it is adapted as the entry expects."""
    upstream = KiroUpstream()
    if entry.expect.heals:
        adapted = upstream.adapt_after_error(upstream.fault(400, (), FOREIGN), render(entry, upstream))
        assert adapted is not None
        upstream = adapted
    return {note.rule for note in render(entry, upstream).notes}


def unexplained(piece: Piece, notes: Iterable[str]) -> bool:
    """Whether nothing noted may have cost *piece*."""
    return not any(rule.startswith(MAY_LOSE.get(piece.kind, ())) for rule in notes)


@each(ACCEPTED)
@pytest.mark.anyio
async def test_accepted_whole(entry: Entry, app: App, sim: Simulator) -> None:
    """The service takes what the gateway makes of it, at once or after the one remedy, and nothing is lost silently.

    Every string that the client tells the model reaches the service, or a rule is noted that says of itself that it
    loses content of this kind.  Words of the conversation, and of documents, have no such rule.
    """
    prompt = DIALECTS[entry.api].parse(json.dumps(entry.body).encode()).prompt
    if prompt.tool_choice.demanded and not entry.expect.heals:
        allowed = prompt.tool_choice.permitted or {tool.name for tool in prompt.tools}
        names = {ours: theirs for theirs, ours in render(entry, KiroUpstream()).tool_names.items()}
        name = min(allowed)
        sim.enqueue(simulator.answer(*simulator.tool_call(names.get(name, name), {})))
    answer = await ask(app, entry)

    assert answer.status == 200, answer.content
    assert [request.status for request in chats(sim)] == ([400, 200] if entry.expect.heals else [200])
    told, notes = Told(chats(sim)[-1].json()), notes_of(entry)
    missing = [
        each
        for each in pieces(entry.body)
        if each.text not in entry.expect.unsaid and not told.holds(each.text) and not is_renamed(each, notes)
    ]
    losing = [rule for rule in notes if TABLE[rule].loss is Loss.CONTENT]
    assert [(each.kind, each.path, each.text[:60]) for each in missing if unexplained(each, losing)] == []
    assert [text for text in entry.expect.said if not told.holds(text)] == []


@each([entry for entry in ACCEPTED if entry.expect.notes or entry.expect.heals])
def test_noted(entry: Entry) -> None:
    """The rules that the request is here for have had something to do."""
    assert {*entry.expect.notes, *entry.expect.heals} <= notes_of(entry)


@pytest.mark.parametrize(("rule", "name", "answer"), NEEDED)
def test_every_repair_is_needed(rule: str, name: str, answer: str) -> None:
    """Without the rule the service refuses the very request that it is for: so neither side checks in vain."""
    entry = next(entry for entry in CORPUS if entry.name == name)
    rendered = render(entry, KiroUpstream(settings=KiroSettings(rules_off=(rule,))))

    body = rendered.request.body
    refused = check(KiroRequest(HEADERS, KiroDocument(json.loads(body)), MODELS, len(body)), RULES)

    assert refused is not None
    assert (refused.reason or refused.message) == answer


@each(REFUSED)
@pytest.mark.anyio
async def test_refused(entry: Entry, app: App, sim: Simulator) -> None:
    """A request that cannot be sent costs no call, and the refusal names the rule and the JSON path."""
    answer = await ask(app, entry)

    message = answer.json()["error"]["message"]
    assert answer.status == entry.expect.status
    assert entry.expect.place in message
    assert not entry.expect.rule or f"(rule {entry.expect.rule})" in message
    assert chats(sim) == []


@each([entry for entry in CORPUS if entry.api == "anthropic_count"])
@pytest.mark.anyio
async def test_counted(entry: Entry, app: App, sim: Simulator) -> None:
    """What is only counted is counted without a call."""
    answer = await ask(app, entry)

    assert answer.status == 200, answer.content
    assert answer.json()["input_tokens"] > 100
    assert chats(sim) == []


def test_the_search_for_lost_content_finds_it() -> None:
    """Taking any one text out of a payload is seen; so a silent loss would be."""
    entry = next(entry for entry in CORPUS if entry.name == "claude_code_turn")
    payload = {"everything": [each.text for each in pieces(entry.body)]}

    for index, lost in enumerate(payload["everything"]):
        rest = payload["everything"][:index] + payload["everything"][index + 1 :]
        assert Told(payload).holds(lost)
        if not any(lost.strip() in text for text in rest):
            assert not Told(rest).holds(lost)


def test_the_corpus_is_large_and_small() -> None:
    """At least forty requests in less than 300 KB."""
    assert len(CORPUS) >= 40
    assert sum(path.stat().st_size for path in HERE.iterdir() if path.is_file()) < 300_000
