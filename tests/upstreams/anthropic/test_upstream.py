"""The service as a whole: doors, models, remedies, sizes."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi.errors import ConfigError, UpstreamProtocolError, UpstreamRejected
from kiro_asgi.limits import API_HEADER_CHARACTERS, API_HEADERS, BETA_CHARACTERS, BETAS
from kiro_asgi.model.features import betas_in
from kiro_asgi.model.prompt import Document, Image, Prompt, Thinking, ThinkingMode, ThinkingPart, Tool
from kiro_asgi.stages.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, TURN_TOKENS, TokenEstimator
from kiro_asgi.upstreams.anthropic.models import FIVE, named
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, ModelPage, ThinkingForm, Upstream
from tests.growth import assert_linear
from tests.upstreams.anthropic.asking import BUDGETED, KEY, rendered
from tests.upstreams.kiro.prompts import PNG, ask, assistant, call, result, user

ANTHROPIC: Upstream = AnthropicUpstream()
TOKEN = Credential(CredentialKind.ACCESS_TOKEN, "sk-ant-oat-secret", endpoint="https://elsewhere/base/")
THOUGHT = ThinkingPart("hm", "c2ln")


def headers(upstream: AnthropicUpstream, credential: Credential = KEY) -> dict[bytes, bytes]:
    return dict(upstream.render(ask(user("hi")), BUDGETED, credential).request.headers)


# Doors.


def test_requests() -> None:
    """Method, address and headers of a request for an answer."""
    request = rendered(ask(user("hi")), betas=("b-1", "b-2"), headers=((b"x-team", b"t"),)).request
    assert (request.method, request.url) == ("POST", "https://api.anthropic.com/v1/messages")
    assert dict(request.headers) == {
        b"content-type": b"application/json",
        b"accept": b"text/event-stream",
        b"accept-encoding": b"identity",
        b"anthropic-version": b"2023-06-01",
        b"anthropic-beta": b"b-1,b-2",
        b"x-api-key": b"sk-ant-secret",
        b"user-agent": b"kiro-asgi",
        b"x-team": b"t",
    }


@pytest.mark.parametrize(
    ("settings", "credential", "url"),
    [
        ({}, KEY, "https://api.anthropic.com/v1/messages"),
        ({"endpoint": "http://localhost:1/"}, KEY, "http://localhost:1/v1/messages"),
        ({"endpoint": "http://localhost:1/"}, TOKEN, "https://elsewhere/base/v1/messages"),
    ],
)
def test_addresses(settings: Any, credential: Credential, url: str) -> None:
    """A credential may have an address of its own, which counts more than the setting."""
    assert AnthropicUpstream(**settings).render(ask(user("hi")), BUDGETED, credential).request.url == url


def test_how_a_credential_is_shown() -> None:
    """Tokens are bearers, and so are keys where that is set; no request shows its credential twice."""
    for upstream, credential in ((AnthropicUpstream(), TOKEN), (AnthropicUpstream(bearer=True), KEY)):
        shown = headers(upstream, credential)
        assert shown[b"authorization"] == b"Bearer " + credential.secret.encode()
        assert b"x-api-key" not in shown
    assert b"authorization" not in headers(AnthropicUpstream())


def test_an_operators_header_replaces_ours() -> None:
    """No header comes twice."""
    upstream = AnthropicUpstream(headers=((b"User-Agent", b"mine"), (b"x-a", b"b")))
    made = upstream.render(ask(user("hi")), BUDGETED, KEY).request.headers
    assert [value for name, value in made if name.lower() == b"user-agent"] == [b"mine"]


@pytest.mark.parametrize("settings", [{"version": "a\r\nb"}, {"user_agent": ""}, {"betas": ("ok", "no\n")}])
def test_what_cannot_stand_in_a_header(settings: Any) -> None:
    """Settings cannot write headers of their own."""
    with pytest.raises(ConfigError):
        AnthropicUpstream(**settings)


def test_secrets_are_not_shown() -> None:
    """Neither the upstream nor a request shows a secret when it is printed."""
    upstream = AnthropicUpstream(headers=((b"x-secret", b"hush"),))
    assert "hush" not in repr(upstream)
    assert "secret" not in repr(upstream.render(ask(user("hi")), BUDGETED, KEY).request)


def test_a_clients_request_goes_on() -> None:
    """F429: the body as it is, and of the headers those that belong to the API: never a secret of the client's."""
    upstream = AnthropicUpstream(betas=("ours",))
    assert upstream.forwarding is not None and upstream.forwarding.dialect == "anthropic"
    sent = upstream.forwarding.request(
        b"{ }",
        KEY,
        [
            (b"Anthropic-Beta", b"one, two"),
            (b"anthropic-beta", b"ours,bad name,\x00"),
            (b"anthropic-version", b"2026-10-21"),
            (b"anthropic-version", b"no date"),
            (b"x-api-key", b"client-key"),
            (b"authorization", b"Bearer client"),
            (b"cookie", b"c=1"),
            (b"user-agent", b"client/1"),
            (b"x-other", b"1"),
            (b"Anthropic-Workspace-Id", b"wrkspc_1"),
            (b"anthropic-of-tomorrow", b"some value"),
            (b"anthropic-broken", b"a\r\nx-api-key: b"),
            (b"anthropic-long", b"a" * (API_HEADER_CHARACTERS + 1)),
            (b"anthropic-dangerous-direct-browser-access", b"true"),
            (b"x-claude-code-session-id", b"s"),
        ],
        BUDGETED,
        True,
    )
    assert (sent.url, sent.body) == ("https://api.anthropic.com/v1/messages", b"{ }")
    assert dict(sent.headers) == {
        b"content-type": b"application/json",
        b"accept-encoding": b"identity",
        b"anthropic-version": b"2026-10-21",
        b"anthropic-beta": b"one,two,ours",
        b"x-api-key": b"sk-ant-secret",
        b"user-agent": b"kiro-asgi",
        b"anthropic-workspace-id": b"wrkspc_1",
        b"anthropic-of-tomorrow": b"some value",
    }


def test_headers_of_the_api_are_bounded_and_the_operators_come_first() -> None:
    """However many a client sends; and where the operator has set one, a client cannot."""
    upstream = evolve(ANTHROPIC, headers=((b"anthropic-workspace-id", b"ours"),))
    given = [(b"anthropic-workspace-id", b"theirs"), *((b"anthropic-h%d" % at, b"1") for at in range(API_HEADERS * 2))]
    assert upstream.forwarding is not None
    sent = upstream.forwarding.request(b"", KEY, given, BUDGETED, True).headers

    assert [value for name, value in sent if name == b"anthropic-workspace-id"] == [b"ours"]
    assert sum(name.startswith(b"anthropic-h") for name, _ in sent) == API_HEADERS - 1


def test_a_translated_request_asks_for_the_clients_features() -> None:
    """Beside the operator's, each once."""
    upstream = AnthropicUpstream(betas=("ours", "both"))
    prompt = evolve(ask(user("hi")), betas=("theirs", "both"))
    headers = dict(upstream.render(prompt, BUDGETED, KEY).request.headers)

    assert headers[b"anthropic-beta"] == b"theirs,both,ours"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(b"a-1, b-2 ,,a-1", ("a-1", "b-2"), id="a-list"),
        pytest.param(b"a\xff,b c,\x00,\xc3\xa9,d\r\ne,a", ("a",), id="no-names"),
        pytest.param(b"b" * BETA_CHARACTERS + b"," + b"c" * (BETA_CHARACTERS + 1), ("b" * BETA_CHARACTERS,), id="long"),
        pytest.param(b",".join(b"%d" % at for at in range(BETAS + 9)), tuple(map(str, range(BETAS))), id="many"),
    ],
)
def test_features_that_a_client_names(value: bytes, expected: Any) -> None:
    """Names only, of a length and a number that are bounded, whether the request goes on as it is or not."""
    given = [(b"x-other", b"x"), (b"Anthropic-Beta", value), (b"anthropic-beta", expected[0].encode())]
    assert betas_in(given) == expected
    assert ANTHROPIC.forwarding is not None
    passed = dict(ANTHROPIC.forwarding.request(b"", KEY, given, BUDGETED, True).headers)

    assert passed[b"anthropic-beta"] == ",".join(expected).encode()


def test_features_take_linear_work() -> None:
    """However many a header has."""
    assert_linear(lambda size: partial(betas_in, [(b"anthropic-beta", b"a, " * size)]), 500)


def test_a_client_without_a_version() -> None:
    """Then ours is said."""
    assert ANTHROPIC.forwarding is not None
    assert (
        dict(ANTHROPIC.forwarding.request(b"", KEY, (), BUDGETED, True).headers)[b"anthropic-version"] == b"2023-06-01"
    )


# Remedies.

REFUSED = ANTHROPIC.fault(400, (), b'{"error":{"message":"Invalid `signature` in `thinking` block"}}')


def test_a_refused_signature_is_healed_once() -> None:
    """F187: once more without earlier thinking, which is noted; a second refusal is the client's to read."""
    prompt = ask(user("hi"), assistant(THOUGHT, "so"), user("?"))
    adapted = ANTHROPIC.adapt_after_error(REFUSED, rendered(prompt))
    assert isinstance(adapted, AnthropicUpstream)
    again = adapted.render(prompt, BUDGETED, KEY)
    assert [note.rule for note in again.notes][:2] == ["adapted.signatures", "thinking.dropped"]
    assert b'"thinking"' not in again.request.body
    assert adapted.adapt_after_error(REFUSED, again) is None


def test_what_is_not_adapted() -> None:
    """Nothing was handed back, or something else was refused."""
    assert ANTHROPIC.adapt_after_error(REFUSED, rendered(ask(user("hi")))) is None
    thoughtful = rendered(ask(user("hi"), assistant(THOUGHT, "so"), user("?")))
    assert ANTHROPIC.adapt_after_error(UpstreamRejected("no", code="validation"), thoughtful) is None


# Sizes.


def test_weight() -> None:
    """Everything that is sent weighs something: texts by the estimator, images and documents at their price."""
    estimate_tokens = TokenEstimator().estimate_tokens

    def weight(prompt: Prompt) -> float:
        return ANTHROPIC.estimate_tokens(rendered(prompt), TokenEstimator())

    hi = weight(ask(user("hi")))
    assert hi == TURN_TOKENS + estimate_tokens("hi")
    assert weight(ask(user("hi"), system=("word",))) == hi + estimate_tokens("word")
    assert weight(ask(user("hi", Image("image/png", PNG)))) == hi + IMAGE_TOKENS
    assert weight(ask(user("hi", Document("application/pdf", "QQ==")))) == hi + DOCUMENT_TOKENS
    assert weight(ask(user("hi", Document("text/plain", text="word")))) == hi + estimate_tokens("word")
    assert weight(ask(user("hi"), tools=(Tool("f", "does"),))) > hi + estimate_tokens("does")
    called = weight(ask(user("hi"), assistant(call(a=1)), user(result("c1", "word"))))
    assert called > hi + 2 * TURN_TOKENS + estimate_tokens("word")
    assert weight(ask(user("hi"), assistant(THOUGHT, "so"), user("a"))) == hi + 2 * TURN_TOKENS + estimate_tokens(
        "hmsoa"
    )


def test_statistics() -> None:
    """A log line has sizes and counts, and no word."""
    turns = (user("hi", Image("image/png", PNG)), assistant(call()), user(result("c1", "1")))
    made = rendered(ask(*turns, tools=(Tool("f"),), system=("four",)))
    assert ANTHROPIC.statistics(made) == {
        "bytes": len(made.request.body),
        "messages": 3,
        "tools": 1,
        "tool_results": 1,
        "images": 1,
        "system": 4,
    }


# Models.


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("Claude-Sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-0", "claude-sonnet-4"),
        ("claude-4.5-sonnet", "claude-sonnet-4-5"),
        ("claude-4-opus", "claude-opus-4"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
        ("claude-3.5-haiku", "claude-3-5-haiku"),
        ("claude-mythos-5.2", "claude-mythos-5-2"),
        ("claude-5.2-mythos-20260901", "claude-mythos-5-2"),
        ("claude-nextkind-12-0", "claude-nextkind-12"),
        ("anthropic/claude-opus-4.7", "claude-opus-4-7"),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1"),
        ("claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("Other-Model", "other-model"),
    ],
)
def test_spellings(name: str, expected: str) -> None:
    """Users of dots and of dashes, with dates and without, mean the same model."""
    assert ANTHROPIC.normalise(name) == ANTHROPIC.normalise(expected) == expected


def test_a_model_that_no_list_has_is_asked_as_its_version_says() -> None:
    """A kind that comes next, and a version that comes next, are no reason to ask in the oldest form."""
    for name in ("claude-nextkind-5-2", "claude-haiku-7", "claude-opus-12-3"):
        card = named(name)
        assert (card.efforts, card.context_window, card.max_output_tokens) == (FIVE, 1_000_000, 128_000)
        prompt = ask(user("hi"), thinking=Thinking(ThinkingMode.ADAPTIVE, effort="xhigh"))
        assert rendered(prompt, card).document["output_config"] == {"effort": "xhigh"}
    assert named("claude-opus-4-20250514-x") == ModelCard("claude-opus-4-20250514-x", thinking=BUDGETS)


def test_the_known_models_are_found() -> None:
    """No two of the table have one spelling, so that each is found under it."""
    names = [ANTHROPIC.normalise(card.id) for card in ANTHROPIC.builtin]
    assert len(set(names)) == len(names)


def test_asking_for_models() -> None:
    """The list comes in pages, each of which names what is asked for the next."""
    request = ANTHROPIC.models_request(TOKEN, page="claude-a")
    assert (request.method, request.url) == ("GET", "https://elsewhere/base/v1/models?limit=1000&after_id=claude-a")
    assert dict(request.headers)[b"anthropic-version"] == b"2023-06-01"
    assert ANTHROPIC.models_request(KEY).url == "https://api.anthropic.com/v1/models?limit=1000"


BUDGETS = frozenset({ThinkingForm.BUDGET})
EFFORTS = frozenset({ThinkingForm.EFFORT})


@pytest.mark.parametrize(
    ("thinking", "forms", "asked"),
    [
        pytest.param({"supported": False}, frozenset(), None, id="none"),
        pytest.param({"supported": True}, BUDGETS, "enabled", id="as-the-name-says"),
        pytest.param(
            {"supported": True, "types": {"adaptive": {"supported": True}}}, EFFORTS, "adaptive", id="adaptive"
        ),
        pytest.param(
            {"supported": True, "types": {"adaptive": {"supported": False}, "enabled": {"supported": True}}},
            BUDGETS,
            "enabled",
            id="budget",
        ),
        pytest.param("yes", frozenset(), None, id="odd"),
    ],
)
def test_the_list_says_how_to_ask_for_thinking(
    thinking: Any, forms: frozenset[ThinkingForm], asked: str | None
) -> None:
    """Whatever the version in the name suggests."""
    listed = {"data": [{"id": "claude-sonnet-4-5-20250929", "capabilities": {"thinking": thinking}}]}
    (card,) = ANTHROPIC.parse_models(json.dumps(listed).encode()).cards

    assert card.thinking == forms
    body = rendered(ask(user("hi"), thinking=Thinking(ThinkingMode.ENABLED)), card).document
    assert body.get("thinking", {}).get("type") == asked


def test_reading_models() -> None:
    """What the service says of a model counts; what it does not say is known, or usual."""
    effort = {"supported": True, "low": {"supported": True}, "max": {"supported": False}, "high": {"supported": True}}
    abilities = {"effort": effort, "image_input": {"supported": False}}
    sizes = {"max_input_tokens": 5, "max_tokens": 4}
    listing = {
        "data": [
            {"id": "claude-new", "display_name": "New", **sizes, "capabilities": abilities},
            {"id": "claude-opus-4-1-20250805", "max_tokens": "many"},
            {"id": "claude-opus-4-1-20250805"},
            {"id": 3},
            None,
        ],
        "has_more": True,
        "last_id": "x",
    }
    assert ANTHROPIC.parse_models(json.dumps(listing).encode()) == ModelPage(
        (
            ModelCard("claude-new", "New", 5, 4, images=False, efforts=("low", "high"), thinking=BUDGETS),
            ModelCard("claude-opus-4-1-20250805", "Claude Opus 4.1", 200_000, 32_000, thinking=BUDGETS),
        ),
        "x",
    )
    assert ANTHROPIC.parse_models(b'{"data":[],"has_more":false,"last_id":"x"}') == ModelPage(())


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>"])
def test_what_is_no_list(body: bytes) -> None:
    """Anything but an object is not the list."""
    with pytest.raises(UpstreamProtocolError):
        ANTHROPIC.parse_models(body)


def test_a_models_own_name_asks_for_what_it_can() -> None:
    """The table of families goes by the version in the name, however it is spelled."""
    prompt = ask(user("hi"), thinking=Thinking(ThinkingMode.ENABLED))
    for name, kind in (
        ("claude-3-5-sonnet", None),
        ("claude-3.7-sonnet", "enabled"),
        ("claude-opus-4.5", "enabled"),
        ("claude-opus-4-20250514", "enabled"),
        ("anthropic/claude-sonnet-4.6", "adaptive"),
        ("claude-opus-5", "adaptive"),
        ("my-model", "enabled"),
    ):
        assert rendered(prompt, ModelCard(name)).document.get("thinking", {}).get("type") == kind
