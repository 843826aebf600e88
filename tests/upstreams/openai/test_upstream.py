"""Where requests go, what they say of us, and what is asked differently after a refusal."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import KiroAsgiError, UpstreamProtocolError, UpstreamRejected, UpstreamThrottled
from kiro_asgi.failures.remedies import Remedy
from kiro_asgi.model.prompt import (
    Prompt,
    Role,
    Sampling,
    Text,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolResult,
    Turn,
)
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, ModelPage, ThinkingForm, Upstream
from kiro_asgi.upstreams.openai.adapting import DEMANDED, REPLAYED
from kiro_asgi.upstreams.openai.models import BUILTIN, EMBEDDING
from kiro_asgi.upstreams.openai.rules import RULES
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from tests.upstreams.kiro.prompts import ask, assistant, user

KEY = Credential(CredentialKind.API_KEY, "sk-secret")
NONE = Credential(CredentialKind.API_KEY, "")
PROMPT = ask(user("Hi"))
MODEL = ModelCard("gpt-4.1")
AZURE = "https://me.openai.azure.com/openai/deployments/x?api-version=2024-10-21"


def test_it_is_an_upstream() -> None:
    """The protocol holds, and so does that every rule has a name of its own."""
    upstream: Upstream = OpenAIUpstream()

    assert upstream.name == "openai"
    assert upstream.forwarding is not None
    assert upstream.forwarding.dialect == "openai_chat"
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("", "https://api.openai.com/v1/chat/completions"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1/chat/completions"),
        (AZURE, "https://me.openai.azure.com/openai/deployments/x/chat/completions?api-version=2024-10-21"),
    ],
)
def test_addresses(endpoint: str, url: str) -> None:
    """A base as client libraries have it; a query goes with every path; a credential's own address goes first."""
    upstream = OpenAIUpstream(endpoint=endpoint)

    assert upstream.render(PROMPT, MODEL, KEY).request.url == url
    assert upstream.forwarding.request(b"{}", KEY, (), MODEL, True).url == url
    assert upstream.models_request(KEY).url == url.replace("chat/completions", "models")
    other = evolve(KEY, endpoint="https://api.githubcopilot.com")
    assert upstream.render(PROMPT, MODEL, other).request.url == "https://api.githubcopilot.com/chat/completions"


def test_headers() -> None:
    """A key is a bearer, and no key is none; the operator's headers replace ours of the same name."""
    plain = dict(OpenAIUpstream().render(PROMPT, MODEL, KEY).request.headers)
    told = ((b"api-key", b"k"), (b"User-Agent", b"me"))
    own = OpenAIUpstream(headers=told).render(PROMPT, MODEL, NONE).request.headers

    assert plain == {
        b"content-type": b"application/json",
        b"accept": b"text/event-stream, application/json",
        b"accept-encoding": b"identity",
        b"user-agent": b"kiro-asgi",
        b"authorization": b"Bearer sk-secret",
    }
    assert [value for name, value in own if name.lower() == b"user-agent"] == [b"me"]
    assert (b"api-key", b"k") in own
    assert b"authorization" not in dict(own)


def test_secrets_do_not_show() -> None:
    """Not in any repr."""
    upstream = OpenAIUpstream(headers=((b"api-key", b"sk-secret"),))
    found = upstream.render(PROMPT, MODEL, KEY)

    assert "sk-secret" not in repr((upstream, found, found.request, upstream.forwarding))


def test_a_clients_own_request_is_sent_on_untouched() -> None:
    """With our headers, and of its own those of the API that say nothing about whose it is."""
    given = [
        (b"OpenAI-Beta", b"x=1"),
        (b"Authorization", b"Bearer theirs"),
        (b"openai-organization", b"org"),
        (b"cookie", b"c"),
    ]
    request = OpenAIUpstream().forwarding.request(b' {"model" : 1}', KEY, given, MODEL, True)
    headers = dict(request.headers)

    assert request.body == b' {"model" : 1}'
    assert headers[b"authorization"] == b"Bearer sk-secret"
    assert headers[b"openai-beta"] == b"x=1"
    assert not {b"cookie", b"openai-organization", b"Authorization"} & set(headers)


def test_thinking_in_tags_is_looked_for_where_the_server_lets_models_do_that() -> None:
    """Only there."""
    assert not OpenAIUpstream().render(PROMPT, MODEL, KEY).thinking_tags
    assert OpenAIUpstream(thinking_tags=("think",)).render(PROMPT, MODEL, KEY).thinking_tags


# Models.

THINKS = frozenset({ThinkingForm.EFFORT})


def test_models_that_are_known() -> None:
    """OpenAI's own; of other servers none."""
    known = (*BUILTIN, *EMBEDDING)
    assert OpenAIUpstream().builtin == OpenAIUpstream(endpoint="https://eu.api.openai.com/v1").builtin == known
    assert OpenAIUpstream(endpoint="http://localhost/v1").builtin == ()
    assert OpenAIUpstream().normalise(" GPT-5 ") == "gpt-5"


@pytest.mark.parametrize(
    ("body", "card"),
    [
        (b'{"data":[{"id":"gpt-5","object":"model"}]}', next(card for card in BUILTIN if card.id == "gpt-5")),
        (b'{"data":[{"id":"m","max_model_len":4096},{"id":"m"},{"id":""},7]}', ModelCard("m", context_window=4096)),
        (b'[{"id":"m","context_length":8192}]', ModelCard("m", context_window=8192)),
        (b'{"models":[{"name":"m","max_context_length":5}]}', ModelCard("m", "m", 5)),
        (
            b'{"data":[{"id":"m","name":"M","context_length":9,"top_provider":{"max_completion_tokens":3},'
            b'"architecture":{"input_modalities":["text"]}}]}',
            ModelCard("m", "M", 9, 3, images=False),
        ),
        (b'{"data":[{"id":"m","meta":{"n_ctx_train":7}}]}', ModelCard("m", context_window=7)),
        (
            b'{"data":[{"id":"m","max_context_length":8,"capabilities":{"vision":false,"reasoning":true}}]}',
            ModelCard("m", context_window=8, images=False, thinking=THINKS),
        ),
        (b'{"data":[{"id":"m","supported_parameters":["tools","reasoning"]}]}', ModelCard("m", thinking=THINKS)),
        (b'{"data":[{"id":"m","supported_parameters":["tools"]}]}', ModelCard("m", thinking=frozenset())),
        (
            b'{"data":[{"id":"m","capabilities":{"supports":{"vision":true,"reasoning_effort":["high","low",3]}}}]}',
            ModelCard("m", efforts=("low", "high"), thinking=THINKS),
        ),
        (b'{"data":[{"id":"m","capabilities":["completion"],"supported_parameters":{}}]}', ModelCard("m")),
    ],
)
def test_lists_of_models(body: bytes, card: ModelCard) -> None:
    """As OpenAI and others write them; each model once, and absent facts by default."""
    assert OpenAIUpstream(endpoint="http://localhost/v1").parse_models(body) == ModelPage((card,))


def test_models_that_do_not_speak_this_api_are_left_out() -> None:
    """Where names say so, which is at OpenAI only; an empty list is one."""
    body = b'{"data":[{"id":"text-embedding-4"},{"id":"gpt-4o"},{"id":"tts-1"}]}'

    cards = OpenAIUpstream().parse_models(body).cards
    assert [(card.id, card.embeds) for card in cards] == [("text-embedding-4", True), ("gpt-4o", False)]
    others = OpenAIUpstream(endpoint="http://localhost/v1").parse_models(body).cards
    assert [card.embeds for card in others] == [None, False, None]


@pytest.mark.parametrize(("kind", "embeds"), [("embeddings", True), ("embedding", True), ("llm", False), ("new", None)])
def test_whether_a_model_makes_embeddings_is_read_where_a_server_says_it(kind: str, embeds: bool | None) -> None:
    """LM Studio and Together do."""
    body = json.dumps({"data": [{"id": "nomic", "type": kind}]}).encode()

    assert OpenAIUpstream(endpoint="http://localhost/v1").parse_models(body).cards[0].embeds is embeds


def test_an_empty_list_of_models_is_one() -> None:
    assert OpenAIUpstream().parse_models(b'{"object":"list","data":null}') == ModelPage(())


@pytest.mark.parametrize("body", [b"<html>", b"7", b'{"data":{"a":1}}'])
def test_what_is_no_list_is_refused(body: bytes) -> None:
    """A page of a proxy is no empty list."""
    with pytest.raises(UpstreamProtocolError):
        OpenAIUpstream().parse_models(body)


# Asking differently.

FULL = ask(
    user("q"),
    assistant(ThinkingPart("hm"), Text("a")),
    user("r"),
    tools=(Tool("f"),),
    tool_choice=ToolChoice(parallel=False),
    sampling=Sampling(10, 0.5, top_k=3, stop=("x", "y")),
)
LOCAL = OpenAIUpstream(endpoint="http://localhost/v1")


def refused(message: str) -> UpstreamRejected:
    return UpstreamRejected(f"{message} (HTTP 400)", code="rejected")


def adapt_after_error(upstream: OpenAIUpstream, error: KiroAsgiError) -> OpenAIUpstream | None:
    return upstream.adapt_after_error(error, upstream.render(FULL, MODEL, KEY))


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Unrecognized request argument supplied: stream_options", "stream_options"),
        ("body.parallel_tool_calls: Extra inputs are not permitted", "parallel_tool_calls"),
        ("Unsupported value: 'temperature' does not support 0.5 with this model.", "temperature"),
        ("Unknown parameter: 'top_k'.", "top_k"),
        ("Invalid 'stop': array too long. Expected an array with maximum length 4, but got 8 instead.", "stop"),
    ],
)
def test_a_field_that_is_refused_is_left_out(message: str, field: str) -> None:
    """Once, and it is told; the rest of the request stays as it was."""
    before = LOCAL.render(FULL, MODEL, KEY)
    upstream = adapt_after_error(LOCAL, refused(message))
    assert upstream is not None
    after = upstream.render(FULL, MODEL, KEY)

    assert {**before.document, field: None} == {**after.document, field: None}
    assert field not in after.document
    assert "adapted.field" in [note.rule for note in after.notes]
    assert after.stop == (("x", "y") if field == "stop" else ())
    assert upstream.adapt_after_error(refused(message), before) is None


def test_the_greatest_length_has_two_names() -> None:
    """Old servers know one, new models the other; the refusal often names both."""
    upstream = adapt_after_error(LOCAL, refused("extra field: max_completion_tokens"))
    assert upstream is not None
    assert upstream.render(FULL, MODEL, KEY).document["max_tokens"] == 10

    old = OpenAIUpstream(max_tokens_field="max_tokens")
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
    upstream = adapt_after_error(old, refused(message))
    assert upstream is not None
    document = upstream.render(FULL, MODEL, KEY).document
    assert document["max_completion_tokens"] == 10
    assert "max_tokens" not in document


def test_ids_of_calls_are_nine_letters_and_digits_where_a_server_wants_that() -> None:
    """Mistral's refusal, word for word; call and result keep the same id, and it is told."""
    message = "Tool call id was call_abc but must be a-z, A-Z, 0-9, with a length of 9."
    called = ToolCallPart("call_abc-1", "f", {})
    prompt = Prompt("m", (Turn(Role.ASSISTANT, (called,)), Turn(Role.USER, (ToolResult("call_abc-1", (Text("1"),)),))))
    upstream = LOCAL.adapt_after_error(refused(message), LOCAL.render(prompt, MODEL, KEY))
    assert upstream is not None
    found = upstream.render(prompt, MODEL, KEY)
    call, result = (each for each in found.document["messages"] if each["role"] != "user")

    assert re.fullmatch("[a-zA-Z0-9]{9}", result["tool_call_id"])
    assert call["tool_calls"][0]["id"] == result["tool_call_id"]
    assert "adapted.call_ids" in [note.rule for note in found.notes]
    assert upstream.adapt_after_error(refused(message), found) is None


def _called(*ids: str) -> Prompt:
    """A conversation in which each of these was called and answered, one after the other."""
    turns = (
        (Turn(Role.ASSISTANT, (ToolCallPart(name, "f", {}),)), Turn(Role.USER, (ToolResult(name, (Text("1"),)),)))
        for name in ids
    )
    return Prompt("m", (Turn(Role.USER, (Text("q"),)), *(turn for pair in turns for turn in pair)))


def _sent_ids(upstream: OpenAIUpstream, prompt: Prompt, model: str = "m") -> list[str]:
    """Ids of the calls, each the same as its result's."""
    sent = upstream.render(prompt, ModelCard(model), KEY).document["messages"]
    calls = [message["tool_calls"][0]["id"] for message in sent if message["role"] == "assistant"]
    assert calls == [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    return calls


@pytest.mark.parametrize(
    ("endpoint", "model", "call_ids", "short"),
    [
        ("https://api.mistral.ai/v1", "anything", "auto", True),
        ("https://codestral.mistral.ai/v1", "m", "auto", True),
        ("https://notmistral.ai/v1", "m", "auto", False),
        ("https://openrouter.ai/api/v1", "mistralai/Mistral-Large-2411", "auto", True),
        ("http://localhost:8000/v1", "devstral-small", "auto", True),
        ("http://localhost:8000/v1", "qwen3", "auto", False),
        ("http://localhost:8000/v1", "qwen3", "nine", True),
        ("https://api.mistral.ai/v1", "mistral-large", "any", False),
        ("", "gpt-4o", "auto", False),
    ],
)
def test_who_is_known_to_want_short_ids(endpoint: str, model: str, call_ids: str, short: bool) -> None:
    """Mistral's hosts and models, or what the operator says."""
    upstream = OpenAIUpstream(name="local", endpoint=endpoint, call_ids=call_ids)
    (sent,) = _sent_ids(upstream, _called("call_abc-1"), model)

    assert (sent != "call_abc-1") is short
    assert not short or re.fullmatch("[a-zA-Z0-9]{9}", sent)


IDS = st.text("aZ09_-é", min_size=1, max_size=12) | st.just("D681PevKs")


@given(st.lists(IDS, max_size=6))
def test_short_ids_are_one_to_one_and_stay(ids: list[str]) -> None:
    """The longer a conversation gets, the same are its ids; those that fit are the client's own, unless used again."""
    upstream = OpenAIUpstream(name="local", endpoint="http://localhost/v1", call_ids="nine")
    sent = _sent_ids(upstream, _called(*ids))

    assert len(set(sent)) == len(ids)
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", each) for each in sent)
    for size in range(len(ids)):
        assert _sent_ids(upstream, _called(*ids[:size])) == sent[:size]
    assert "D681PevKs" not in ids or "D681PevKs" in sent


def test_signatures_of_calls_go_back_to_servers_that_may_have_given_them() -> None:
    """Google's own server of this API wants them where it put them; OpenAI has no such field."""
    parts = (ThinkingPart(signature="gemini.call:c2ln"), ToolCallPart("c1", "f", {}))
    prompt = Prompt("m", (Turn(Role.ASSISTANT, parts), Turn(Role.USER, (ToolResult("c1", (Text("1"),)),))))
    call = {upstream: _first_call(upstream, prompt) for upstream in ("local", "openai")}

    assert call["local"]["extra_content"] == {"google": {"thought_signature": "c2ln"}}
    assert "extra_content" not in call["openai"]


def _first_call(name: str, prompt: Prompt) -> Any:
    upstream = LOCAL if name == "local" else OpenAIUpstream()
    messages = upstream.render(prompt, MODEL, KEY).document["messages"]
    return next(each["tool_calls"][0] for each in messages if each["role"] == "assistant")


def test_several_fields_may_be_refused_one_after_the_other() -> None:
    """Each once, so it comes to an end."""
    upstream: Any = LOCAL
    for name in ("stream_options", "top_k", "max_completion_tokens"):
        upstream = adapt_after_error(upstream, refused(f"unknown field {name}"))

    assert [each.feature for each in upstream.remedies] == ["stream_options", "top_k", "max_completion_tokens"]
    assert adapt_after_error(upstream, refused("unknown field top_k")) is None


def test_thinking_is_handed_back_where_it_is_missed_and_not_where_it_is_refused() -> None:
    """Servers differ, and say so; each is believed once."""
    refusal = refused("reasoning_content is not supported")
    upstream = adapt_after_error(LOCAL, refusal)
    assert upstream is not None
    found = upstream.render(FULL, MODEL, KEY)
    assert "reasoning_content" not in found.document["messages"][1]
    assert "adapted.reasoning" in [note.rule for note in found.notes]
    assert adapt_after_error(upstream, refusal) is None

    upstream = adapt_after_error(evolve(LOCAL, replay_thinking=False), refused("Missing `reasoning_content` field"))
    assert upstream is not None
    assert upstream.render(FULL, MODEL, KEY).document["messages"][1]["reasoning_content"] == "hm"


@pytest.mark.parametrize("endpoint", [LOCAL.endpoint, "https://api.openai.com/v1"])
@pytest.mark.parametrize("replayed", [True, False])
@pytest.mark.parametrize("demanded", [True, False])
@pytest.mark.parametrize("without", [(), (REPLAYED,), (DEMANDED,), (DEMANDED, REPLAYED)])
def test_what_is_remembered_of_thinking_is_what_is_sent(
    endpoint: str, replayed: bool, demanded: bool, without: tuple[str, ...]
) -> None:
    """A server that is sent thinking has it kept for it, one that demands it has a blank where there is none, and no
    other."""
    upstream = OpenAIUpstream(endpoint=endpoint, replay_thinking=replayed, demands_thinking=demanded)
    upstream = upstream.with_remedies(tuple(map(Remedy, without)))
    silent = evolve(FULL, turns=tuple(_without_thinking(turn) for turn in FULL.turns))
    said, blank = (
        next(
            message
            for message in upstream.render(each, MODEL, KEY).document["messages"]
            if message["role"] == "assistant"
        )
        for each in (FULL, silent)
    )

    assert ("reasoning_content" in said) is bool(upstream.traits.thinking_owner)
    assert ("reasoning_content" in blank) is upstream.traits.demands_thinking


def _without_thinking(turn: Turn) -> Turn:
    return evolve(turn, parts=tuple(part for part in turn.parts if not isinstance(part, ThinkingPart)))


@pytest.mark.parametrize(
    "error",
    [
        refused("max_completion_tokens is too large: 10"),
        refused("unknown field tools"),
        refused("unknown field seed"),
        UpstreamThrottled("unsupported top_k"),
    ],
)
def test_other_refusals_stand(error: KiroAsgiError) -> None:
    """A bad value, a field that matters, one that was not sent, another trouble."""
    assert adapt_after_error(LOCAL, error) is None
