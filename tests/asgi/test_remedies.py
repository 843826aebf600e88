"""What is changed between two tries, and what people are told when there is none."""

from __future__ import annotations

import json
import re

import pytest

from kiro_asgi import errors
from kiro_asgi.asgi.exchange.reports import localized
from kiro_asgi.simulator import CorruptChecksum, ExceptionFrame, Head, Reset, answer, refusal, text
from tests.asgi.answers import DIALECTS, cut_of, error_of, text_of
from tests.asgi.driver import Exchange, ask, post

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)
CHAT = "/generateAssistantResponse"
SPENT = {"openai": ("insufficient_quota", "insufficient_quota"), "anthropic": ("billing_error", None)}
FOREIGN = refusal(400, "Invalid signature in thinking block", "THINKING_SIGNATURE_INVALID")


def after_thinking() -> Exchange:
    thought = {"type": "thinking", "thinking": "The sum is even.", "signature": "c2lnbmVkLWVsc2V3aGVyZQ=="}
    turns = [
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "4"}]},
        {"role": "user", "content": "And again?"},
    ]
    return post("/v1/messages", {"model": "claude-opus-4.8", "max_tokens": 99, "messages": turns})


async def test_foreign_signatures_are_left_out_once(gateway, sim):
    """A signature of another account or beginning makes the request go out without earlier thinking, at once."""
    sim.enqueue(FOREIGN, answer(*text("4 again")))
    exchange = await after_thinking().run(gateway(retry={"base": 60.0}))
    first, second = (json.loads(request.body) for request in sim.requests)

    assert text_of("anthropic", exchange) == "4 again"
    assert "reasoningContent" in json.dumps(first) and "reasoningContent" not in json.dumps(second)
    for member in ("currentMessage", "conversationId"):
        assert second["conversationState"][member] == first["conversationState"][member]


async def test_and_no_more_than_once(gateway, sim):
    """The second refusal is the answer."""
    sim.enqueue(FOREIGN, FOREIGN)
    exchange = await after_thinking().run(gateway())

    assert exchange.status == 400
    assert len(sim.requests) == 2


async def test_what_was_mended_stays_with_the_request(gateway, sim):
    """The next request is put as usual: what one conversation needs says nothing about others."""
    app = gateway()
    sim.enqueue(FOREIGN, answer(*text("4 again")), answer(*text("fine")))
    await after_thinking().run(app)
    await after_thinking().run(app)

    assert b"reasoningContent" in sim.requests[-1].body


@EACH_DIALECT
async def test_an_account_at_fault_is_left_alone(dialect, gateway, sim):
    """Suspicious activity: the service's own words, no second try, and the next client is told without a call."""
    app = gateway(fresh=True, retry={"suspicion": 60.0})
    replies = [await ask(dialect, "sim:suspicious", stream=True).run(app) for _ in range(3)]

    assert [reply.status for reply in replies] == [502] * 3
    assert all("suspicious activity" in error_of(dialect, reply)["message"] for reply in replies)
    assert len([request for request in sim.requests if request.path == CHAT]) == 1


@EACH_DIALECT
async def test_a_spent_quota_says_when_there_is_a_new_one(dialect, gateway, sim):
    """A 402 in the words of the API, with the day; no client is to sleep until then, or to try by itself."""
    exchange = await ask(dialect, "sim:quota", stream=False).run(gateway())
    error = error_of(dialect, exchange)

    assert exchange.status == 402
    assert (error["type"], error.get("code")) == SPENT[dialect]
    assert error["message"].endswith("; resets at 2096-10-02 07:06 UTC")
    assert "retry-after" not in exchange.headers and "retry-after-ms" not in exchange.headers
    assert exchange.headers["x-should-retry"] == "false"


@EACH_DIALECT
@pytest.mark.parametrize(
    ("language", "words"),
    [pytest.param("en", "Stream connection failed", id="en"), pytest.param("zh", "网络连接不稳定", id="zh")],
)
async def test_people_are_told_in_their_language_that_the_network_failed(dialect, language, words, gateway, sim):
    """F088: one sentence of ours, never the service's bytes."""
    sim.enqueue((Head(), *text("some"), Reset()))
    exchange = await ask(dialect, "hi", stream=True).run(gateway(stream={"language": language}))

    assert cut_of(dialect, exchange)["message"].startswith(words)


FAILURES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.KiroAsgiError) and kind is not errors.InternalError
]


@pytest.mark.parametrize("kind", FAILURES, ids=lambda kind: kind.__name__)
def test_every_failure_has_words_in_each_language(kind):
    """F088: whatever breaks an answer off, people read a sentence in their language; the error stays what it is."""
    error = kind("own words {}", code="c")
    chinese = localized(error, "zh")

    assert re.search("[\u4e00-\u9fff]", chinese.message)
    assert (type(chinese), chinese.code, error.message) == (kind, "c", "own words {}")
    assert localized(error, "en") is error


@EACH_DIALECT
async def test_what_the_service_says_in_a_stream_is_told_in_the_language_of_its_readers(dialect, gateway, sim):
    """F088: an exception of the service, not only the network; none of its own words."""
    sim.enqueue(answer(*text("some"), ExceptionFrame("ThrottlingException", "canary-77")))
    exchange = await ask(dialect, "hi", stream=True).run(gateway(stream={"language": "zh"}))

    assert cut_of(dialect, exchange)["message"].startswith("请求过于频繁")
    assert b"canary" not in exchange.content


async def test_the_size_of_the_prompt_is_told_at_the_start(gateway, sim):
    """F415: estimated here, since the service has not said anything yet, and larger for a longer prompt."""
    told = []
    for words in (1, 500):
        sim.enqueue(answer(*text("fine")))
        exchange = await ask("anthropic", "word " * words, stream=True).run(gateway())
        start = re.search(rb'"message_start".*?"input_tokens":(\d+)', exchange.content)
        told.append(int(start[1]))

    assert 0 < told[0] < told[1] - 300


@pytest.mark.parametrize("checksums", ["warn", "off"])
async def test_each_damage_that_is_tolerated_is_a_notice(checksums, gateway, sim, caplog):
    """F093: a frame with a wrong checksum is read where that is set; the log counts them, where they are looked for."""
    sim.enqueue(answer(*map(CorruptChecksum, text("x")), *map(CorruptChecksum, text("x")), *text("xy")))
    exchange = await ask("openai", "hi", stream=False).run(gateway(kiro={"checksums": checksums}))

    assert text_of("openai", exchange) == "xxxy"
    assert ("frame.checksum (2)" in caplog.text) is (checksums == "warn")
