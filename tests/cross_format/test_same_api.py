"""One API on both sides loses nothing: what a client sends and nobody here understands reaches a service of its API.

Every request of the corpus is given a member that no class declares in each of its objects, and a block of a kind that
no API has in each of its lists of blocks; what is rendered must hold all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from attrs import evolve, frozen

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.gemini.dialect import GeminiApi
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.errors import RequestError, UpstreamRejected
from kiro_asgi.model.notes import Note, holding
from kiro_asgi.model.understood import understood
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered, Upstream
from kiro_asgi.upstreams.bedrock.upstream import BedrockUpstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream, ResponsesUpstream
from tests.corpus.entries import CORPUS
from tests.dialects.openai_responses.bodies import CODEX

KEY: Final = Credential(CredentialKind.API_KEY, "key")
CUSTOM: Final = "http://127.0.0.1:9/v1"


@frozen
class Pair:
    """A client API, and a service of it."""

    dialect: Dialect
    upstream: Upstream
    model: ModelCard


CLAUDE: Final = ModelCard("claude-sonnet-4-5", images=True)
GPT: Final = ModelCard("gpt-4o", images=True)

PAIRS: Final[Mapping[str, Pair]] = {
    "anthropic": Pair(AnthropicMessages(), AnthropicUpstream(), CLAUDE),
    "anthropic-custom": Pair(AnthropicMessages(), AnthropicUpstream(name="own", endpoint=CUSTOM), CLAUDE),
    "bedrock": Pair(
        AnthropicMessages(),
        BedrockUpstream(endpoint="http://127.0.0.1:9", control="http://127.0.0.1:9"),
        ModelCard("anthropic.claude-sonnet-4-5-20250929-v1:0", images=True),
    ),
    "chat": Pair(OpenAIChat(), OpenAIUpstream(), GPT),
    "chat-custom": Pair(OpenAIChat(), OpenAIUpstream(name="own", endpoint=CUSTOM), GPT),
    "responses": Pair(OpenAIResponses(), ResponsesUpstream(), GPT),
    "gemini": Pair(GeminiApi(), GeminiUpstream(), ModelCard("gemini-2.5-flash", images=True)),
}

DATA: Final = frozenset(
    {
        *("args", "arguments", "citations", "definition", "input", "input_schema", "labels", "metadata", "outputs"),
        *("parameters", "parametersJsonSchema", "properties", "response", "responseJsonSchema", "responseSchema"),
        *("results", "schema"),
    }
)
"""Members whose values are the client's own data."""

PIXEL: Final = {"mimeType": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}  # fmt: skip  # noqa: E501

GEMINI: Final = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Look."}, {"inlineData": PIXEL}]},
        {"role": "model", "parts": [{"text": "So."}, {"functionCall": {"name": "look", "args": {"at": 1}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"seen": [1, "two"]}}}]},
        {"role": "user", "parts": [{"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}]},
    ],
    "tools": [{"functionDeclarations": [{"name": "look", "parameters": {"type": "object", "properties": {}}}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}},
    "generationConfig": {"temperature": 1, "thinkingConfig": {"thinkingBudget": 1024}},
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
}


def requests(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if name == "gemini":
        yield "gemini", GEMINI
        return
    api = {"chat": "openai", "chat-custom": "openai", "responses": "responses"}.get(name, "anthropic")
    for entry in CORPUS:
        if entry.api == api and entry.expect.status == 200 and len(json.dumps(entry.body)) < 50_000:
            yield entry.name, entry.body
    if api == "responses":
        yield "codex", dict(CODEX)


CASES: Final = [(name, entry, body) for name in PAIRS for entry, body in requests(name)]


def rendered(pair: Pair, body: Mapping[str, Any]) -> tuple[Rendered, list[Note]]:
    """What the service is sent, and notes on what it is not."""
    content = json.dumps({"model": pair.model.id, **body}).encode()
    parsed = pair.dialect.parse(content)
    api = pair.upstream.traits.api
    answer = pair.upstream.render(understood(parsed.prompt, api), pair.model, KEY)
    return answer, [*holding(pair.dialect.notes(content, parsed), api), *answer.notes]


def with_marks(value: Any, marks: list[str], place: str = "", member: str = "invented_member") -> None:
    """Give each object within *value* that is not data a *member* with a mark of its own, *marks*, and their places."""
    if isinstance(value, list):
        for at, each in enumerate(value):
            with_marks(each, marks, f"{place}[{at}]", member)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name not in DATA or (name == "input" and not place):
                with_marks(each, marks, f"{place}.{name}" if place else name, member)
        if _is_nothing(value):
            return
        value[member] = f"mark-{len(marks)}."
        marks.append(place)


def _is_nothing(value: Mapping[str, Any]) -> bool:
    """Whether a block or a message says nothing, so that it is left out whole."""
    text, content = value.get("text", "x"), value.get("content", "x")
    return (isinstance(text, str) and not text.strip()) or (not content and not value.get("tool_calls"))


@pytest.mark.parametrize(("name", "entry", "body"), CASES, ids=[f"{name}-{entry}" for name, entry, _ in CASES])
def test_no_member_is_lost(name: str, entry: str, body: Mapping[str, Any]) -> None:
    """Except those that a note names, by the place of what they are of."""
    marked, marks = json.loads(json.dumps(dict(body))), list[str]()
    with_marks(marked, marks)
    answer, notes = rendered(PAIRS[name], marked)
    sent = json.dumps(answer.document, ensure_ascii=False)

    lost = [place for at, place in enumerate(marks) if f"mark-{at}." not in sent]
    unnamed = [place for place in lost if not any(_is_about(note, place) for note in notes)]
    assert unnamed == [], [(note.rule, note.times, note.place) for note in notes]


WORDS: Final = ("self", "cls", "shape", "more", "unread", "given", "members", "api", "own", "message")
"""Names that code has for things of its own."""


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", PAIRS)
def test_a_member_may_have_any_name(name: str, word: str) -> None:
    """In every object of a request, and it is lost nowhere."""
    for _, body in requests(name):
        marked, marks = json.loads(json.dumps(dict(body))), list[str]()
        with_marks(marked, marks, member=word)
        answer, notes = rendered(PAIRS[name], marked)
        sent = json.dumps(answer.document, ensure_ascii=False)
        lost = [place for at, place in enumerate(marks) if f"mark-{at}." not in sent]
        assert [place for place in lost if not any(_is_about(note, place) for note in notes)] == []


def _is_about(note: Note, place: str) -> bool:
    """Whether *note* may be about what stands at *place*: it names the place, a part of it, or what it is part of; a
    rule that applied more than once names the first place alone, and some are named after the member."""
    if note.rule.partition(".")[0] == place or (note.rule, place.rpartition(".")[2]) == (
        "cache.limit",
        "cache_control",
    ):
        return True
    if note.rule == "tools.left_out" and place.startswith("tool_choice"):
        return True
    if note.times > 1:
        return bool(note.place) and place.startswith(note.place[: note.place.index("[")] if "[" in note.place else " ")
    return bool(note.place) and (note.place.startswith(place) or place.startswith(note.place.partition(".")[0]))


@pytest.mark.parametrize("name", PAIRS)
def test_no_block_is_lost(name: str) -> None:
    """A block, and a tool, of a kind that nobody knows goes where it stood; to other servers a tool is a function."""
    pair = PAIRS[name]
    for entry, body in requests(name):
        marked = json.loads(json.dumps(dict(body)))
        count = with_blocks(marked)
        if not count:
            continue
        answer, _ = rendered(pair, marked)
        assert json.dumps(answer.document).count('"block-') == count, (entry, answer.notes)


def with_blocks(body: dict[str, Any]) -> int:
    """Put a block behind the others in each list of blocks, and a tool behind the others; how many that were."""
    count = 0
    for message in (*body.get("messages", ()), *body.get("contents", ()), *body.get("input", ())):
        held = message.get("content", message.get("parts")) if message.get("role") in ("user", "model") else None
        if isinstance(held, list) and held and message.get("type", "message") == "message":
            mark = f"block-{count}"
            held.append({"type": "invented", "body": mark} if "content" in message else {"invented": {"body": mark}})
            count += 1
    if isinstance(body.get("tools"), list) and body.get("tool_choice") is None:
        mark = f"block-{count}"
        named = {"invented": {"body": mark}} if "contents" in body else {"type": "invented_20300101", "body": mark}
        body["tools"].append(named)
        count += 1
    return count


FIELD: Final[dict[str, dict[str, Any]]] = {
    "anthropic": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "speed": "fast"},
    "chat": {"messages": [{"role": "user", "content": "hi"}], "novelty": "flex"},
    "responses": {"input": "hi", "novelty": "flex"},
    "gemini": {"contents": [{"parts": [{"text": "hi"}]}], "modelArmorConfig": "flex"},
}
"""A request with one field that is not understood, which is its last."""


@pytest.mark.parametrize("name", FIELD)
def test_what_the_service_refuses_is_taken_out_once_and_named(name: str) -> None:
    """Each by itself: a service names one at a time, and no other is taken with it."""
    pair, body = PAIRS[name], FIELD[name]
    *_, field = body
    answer, _ = rendered(pair, {**body, "inventedToo": 1})
    assert field in answer.document

    error = UpstreamRejected(f"Unrecognized request argument supplied: {field}", code="x")
    less = pair.upstream.adapt_after_error(error, answer)
    assert less is not None and less.remedies[-1].lasting
    again, notes = rendered(Pair(pair.dialect, less, pair.model), {**body, "inventedToo": 1})
    assert field not in again.document and "inventedToo" in again.document
    assert "adapted.field" in [note.rule for note in notes]

    none = less.adapt_after_error(UpstreamRejected("Unknown parameter: 'inventedToo'.", code="x"), again)
    assert none is not None
    bare, _ = rendered(Pair(pair.dialect, none, pair.model), {**body, "inventedToo": 1})
    assert "inventedToo" not in bare.document
    assert none.adapt_after_error(error, bare) is None


@pytest.mark.parametrize("message", ["speed: must be one of fast, slow", "unsupported value: 'slow'", "no such model"])
def test_another_refusal_changes_nothing(message: str) -> None:
    """One about a value is the client's to read."""
    pair = PAIRS["anthropic"]
    answer, _ = rendered(pair, FIELD["anthropic"])
    assert pair.upstream.adapt_after_error(UpstreamRejected(message, code="x"), answer) is None


@pytest.mark.parametrize(
    ("name", "upstream"),
    [
        ("anthropic", AnthropicUpstream(withheld=("speed", "invented"))),
        ("chat", OpenAIUpstream(withheld=("novelty", "invented"))),
        ("responses", ResponsesUpstream(withheld=("novelty", "invented"))),
        ("gemini", GeminiUpstream(withheld=("modelArmorConfig", "invented"))),
    ],
)
def test_what_is_withheld_is_sent_nowhere(name: str, upstream: Upstream) -> None:
    """Neither as a field, nor within one, nor as a block; a note says so."""
    pair = evolve(PAIRS[name], upstream=upstream)
    answer, notes = rendered(pair, {**FIELD[name], "other": {"invented": "secret"}})
    sent = json.dumps(answer.document)

    assert "fast" not in sent and "flex" not in sent and "secret" not in sent and '"other"' in sent
    assert [note.times for note in notes if note.rule == "fields.withheld"] == [2]


@pytest.mark.parametrize("name", PAIRS)
def test_no_note_claims_what_is_not_so(name: str) -> None:
    """What arrives is not called lost; a service of another API does lose it."""
    pair = PAIRS[name]
    body = FIELD[name.partition("-")[0] if name != "bedrock" else "anthropic"]
    _, notes = rendered(pair, body)
    content = json.dumps({"model": pair.model.id, **body}).encode()
    elsewhere = holding(pair.dialect.notes(content, pair.dialect.parse(content)), "")

    assert [note.place for note in notes if note.rule.startswith("fields.")] == ["model"] * (name == "gemini")
    assert [note for note in elsewhere if note.rule.startswith("fields.")]


def test_a_system_text_among_the_contents_keeps_its_members() -> None:
    """Gemini's own instruction is where it goes."""
    spoken = {"role": "system", "parts": [{"text": "Be brief.", "invented": 1}]}
    answer, _ = rendered(PAIRS["gemini"], {"contents": [spoken, {"role": "user", "parts": [{"text": "Hi."}]}]})
    assert answer.document["systemInstruction"] == {"parts": [{"text": "Be brief.", "invented": 1}]}


def test_what_openai_refuses_of_a_tool_s_message_is_named() -> None:
    """Its name and status go to no service, and the note does not say that one of the API gets them."""
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "Seen.", "name": "look", "status": "ok", "other": 1}
    asked = {"role": "user", "content": "Look."}
    answer, notes = rendered(PAIRS["chat"], {"messages": [asked, {"role": "assistant", "tool_calls": [call]}, result]})

    assert answer.document["messages"][2].keys() == {"role", "tool_call_id", "content", "other"}
    assert sorted(note.place for note in notes) == ["messages[2].name", "messages[2].status"]


def test_a_part_that_cannot_be_left_out_is_refused_elsewhere() -> None:
    """With its place, as before."""
    parsed = PAIRS["gemini"].dialect.parse(json.dumps({"model": "m", **GEMINI}).encode())
    with pytest.raises(RequestError, match="cannot be passed on"):
        understood(parsed.prompt, "")
