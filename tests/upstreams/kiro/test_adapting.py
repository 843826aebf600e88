"""How the service is asked again after it refused, what a request weighs, and what is said of its size."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given

from kiro_asgi.errors import ContextTooLong, UpstreamRejected
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Document, Image, Prompt, ThinkingPart, Tool, Turn
from kiro_asgi.stages.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, TURN_TOKENS, TokenEstimator
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro.hosts import KiroHosts
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.upstreams.kiro.invariants import breaches, items
from tests.upstreams.kiro.prompts import (
    PLAIN,
    PNG,
    PROMPTS,
    TOKEN,
    ask,
    assistant,
    call,
    messages,
    rendered,
    result,
    user,
)

ROUND = (user("x"), assistant(ThinkingPart("hm", "sig"), call()), user(result("c1", "r")))
OBJECT = {"type": "object", "properties": {}}


def adapt(upstream: KiroUpstream, code: str, *turns: Turn) -> KiroUpstream | None:
    """What *upstream* becomes after a refusal of *turns*, of `ROUND` where there are none."""
    rendered = upstream.render(ask(*(turns or ROUND)), PLAIN, TOKEN)
    return upstream.adapt_after_error(UpstreamRejected("no", code=code), rendered)


@pytest.mark.parametrize(
    ("code", "settings", "rule", "gone", "there"),
    [
        pytest.param(
            "THINKING_SIGNATURE_INVALID", {}, "adapted.signatures", "reasoningContent", "toolUses", id="signature"
        ),
        pytest.param(
            "TOOL_CONFIG_MISSING",
            {"rules_off": ["tools.stubbed"]},
            "adapted.stubs",
            "cachePoint",
            '"tools"',
            id="stubs",
        ),
        pytest.param("improperly_formed", {}, "adapted.as_text", "toolUses", "The tool f was run", id="F073"),
    ],
)
def test_each_refusal_is_healed_once(code: str, settings: dict[str, Any], rule: str, gone: str, there: str) -> None:
    """F073, F074: the next try differs in what was refused and says so; after a second refusal there is none."""
    upstream = KiroUpstream(settings=KiroSettings(**settings))
    adapted = adapt(upstream, code)
    assert adapted is not None
    body = adapted.render(ask(*ROUND), PLAIN, TOKEN).request.body.decode()
    notes = adapted.render(ask(*ROUND), PLAIN, TOKEN).notes

    assert gone not in body
    assert there in body
    assert Note(rule) in notes
    assert adapt(adapted, code) is None


@pytest.mark.parametrize(
    ("code", "settings"),
    [
        pytest.param("THINKING_SIGNATURE_INVALID", {"replay_thinking": False}, id="not-replayed"),
        pytest.param("TOOL_CONFIG_MISSING", {}, id="stubs-are-on"),
        pytest.param("improperly_formed", {"tool_history": "text"}, id="F074-text"),
        pytest.param("improperly_formed", {"tool_history": "native"}, id="native-means-native"),
        pytest.param("improperly_formed", {"rules_off": ["adapted.as_text"]}, id="off"),
        pytest.param("INVALID_MODEL_ID", {}, id="other"),
    ],
)
def test_what_asking_differently_cannot_help(code: str, settings: dict[str, Any]) -> None:
    """There is no second try where it would be the same as the first."""
    assert adapt(KiroUpstream(settings=KiroSettings(**settings)), code) is None


@pytest.mark.parametrize("code", ["THINKING_SIGNATURE_INVALID", "improperly_formed"])
def test_what_was_not_said_cannot_be_the_trouble(code: str) -> None:
    """F072: a conversation without tool calls and without thinking would be the same the second time."""
    assert adapt(KiroUpstream(), code, user("hi")) is None


def test_the_words_count_beside_any_reason() -> None:
    """F073: "Improperly formed request." is what it is, also where the service gives a reason."""
    error = UpstreamRejected("Improperly formed request. (HTTP 400)", code="REQUEST_BODY_INVALID")
    upstream = KiroUpstream()
    adapted = upstream.adapt_after_error(error, upstream.render(ask(*ROUND), PLAIN, TOKEN))

    assert adapted is not None and adapted.settings.tool_history == "text"


def test_adaptations_add_up() -> None:
    """A request that is refused for two reasons is adapted of both."""
    upstream = adapt(KiroUpstream(), "THINKING_SIGNATURE_INVALID")
    upstream = upstream and adapt(upstream, "improperly_formed")
    assert upstream is not None

    assert [note.rule for note in upstream.render(ask(*ROUND), PLAIN, TOKEN).notes][:2] == [
        "adapted.signatures",
        "adapted.as_text",
    ]


# Sizes.


def test_weight_counts_what_is_sent() -> None:
    """Texts, names, arguments, results and tools, an image and a document at their price, and every turn."""
    image, pdf = Image("image/png", PNG), Document("application/pdf", "JVBERi0=")
    prompt = ask(
        user("abcd"), assistant(call(x=1)), user(result("c1", "efgh"), image, pdf), tools=(Tool("f", "d", OBJECT),)
    )
    estimator = TokenEstimator()
    tool = {"name": "f", "description": "d", "inputSchema": {"json": OBJECT}}
    texts = ["abcd", "f", "efgh", json.dumps([{"x": 1}, [tool]], separators=(",", ":"))[1:-1]]

    assert KiroUpstream().estimate_tokens(rendered(prompt), estimator) == (
        sum(map(estimator.estimate_tokens, texts)) + 3 * TURN_TOKENS + IMAGE_TOKENS + DOCUMENT_TOKENS
    )


def test_statistics() -> None:
    """F071: sizes and counts for a log line, and not a word."""
    image = Image("image/png", PNG)
    prompt = ask(user("x", image), assistant(call()), user(result("c1", "r")), tools=(Tool("f"),), system=("Brief.",))
    found = rendered(prompt)

    assert KiroUpstream().statistics(found) == {
        "bytes": len(found.request.body),
        "messages": 5,
        "tools": 1,
        "tool_results": 1,
        "images": 1,
        "system": 6,
    }


@given(PROMPTS)
def test_any_request_can_be_weighed_and_counted(prompt: Prompt) -> None:
    """Nothing that is sent weighs nothing, and all messages are counted."""
    found = rendered(prompt)

    assert KiroUpstream().estimate_tokens(found, TokenEstimator()) >= TURN_TOKENS
    assert KiroUpstream().statistics(found)["messages"] == len(items(json.loads(found.request.body)))


LONG = tuple(
    turn
    for number in range(10)
    for turn in (
        user(f"question {number} " + "x" * 200),
        assistant(call(f"c{number}")),
        user(result(f"c{number}", "r")),
        assistant("ok"),
    )
)


def test_the_limit_grows_with_the_window_and_images_do_not_count() -> None:
    """600,000 bytes are meant for 200,000 tokens; an image is counted otherwise by the service."""
    prompt = ask(user("x" * 1_500))
    small, large = ModelCard("small", context_window=200_000), ModelCard("large", context_window=1_000_000)
    with pytest.raises(ContextTooLong) as caught:
        rendered(prompt, small, payload_bytes=1_000)

    assert caught.value.param == "messages[0]"
    assert "where 1,000 are taken; the largest part is messages[0] with 1,500 characters" in caught.value.message
    assert rendered(prompt, large, payload_bytes=1_000)
    assert rendered(prompt, small, payload_bytes=0)
    assert rendered(ask(user("x", Image("image/png", "iVBORw0KGgoA" + "A" * 5_000))), small, payload_bytes=1_000)


@pytest.mark.parametrize("limit", [1_500, 3_000, 5_000])
def test_trimming_leaves_out_whole_exchanges(limit: int) -> None:
    """The oldest go first, calls with their results; the system text stays, and the model is told."""
    prompt = ask(*LONG, user("now"), system=("Be brief.",))
    found = rendered(prompt, payload_bytes=limit, trim_history=True)
    body = json.loads(found.request.body)
    (note,) = (note for note in found.notes if note.rule == "size.trimmed")
    first = items(body)[2]["userInputMessage"]["content"]

    assert breaches(body) == []
    assert len(found.request.body) <= limit
    assert note.times == (4 * 10 + 3 - len(items(body))) // 2
    assert items(body)[0]["userInputMessage"]["content"] == "Be brief."
    assert first.startswith("Earlier exchanges of this conversation were left out")
    assert items(body)[-1]["userInputMessage"]["content"].endswith("now")


def test_trimming_never_leaves_out_the_question() -> None:
    """Where what must stay is too large already, the request is refused; so it is where results belong to the calls
    that would have to go."""
    for prompt in (ask(*LONG, user("x" * 3_000)), ask(user("x" * 3_000), assistant(call()), user(result("c1", "r")))):
        with pytest.raises(ContextTooLong):
            rendered(prompt, payload_bytes=1_500, trim_history=True)


def test_what_fits_is_not_trimmed() -> None:
    """The setting only says what happens to what is too long."""
    prompt = ask(*LONG, user("now"))

    assert messages(prompt, trim_history=True) == messages(prompt)


# Where it goes.


@pytest.mark.parametrize(
    ("region", "host"), [("eu-central-1", "q.eu-central-1"), ("evil.test/#", "q.us-west-2"), ("", "q.us-west-2")]
)
def test_a_credential_may_name_its_region(region: str, host: str) -> None:
    """R40: where the profile names none the credential's region counts, if it is one."""
    credential = evolve(TOKEN, profile_arn="", region=region)

    hosts = KiroHosts(KiroSettings(region="us-west-2"))
    for address in (hosts.generation(credential), hosts.management(credential)):
        assert address.base == f"https://{host}.amazonaws.com"
