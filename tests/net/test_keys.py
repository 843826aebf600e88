"""Keys of the settings, as they are and exchanged for tokens, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from attrs import define, evolve, field

from kiro_asgi import simulator
from kiro_asgi.config import AnthropicSettings, GeminiSettings, OpenAISettings
from kiro_asgi.errors import KiroAsgiError, UpstreamDenied, UpstreamFault, UpstreamQuotaSpent
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.access import KeyExchange, Keys
from kiro_asgi.upstreams.base import Credential, CredentialKind
from kiro_asgi.upstreams.gemini import GEMINI
from kiro_asgi.upstreams.manifest import Configured, Manifest
from kiro_asgi.upstreams.openai import OPENAI

pytestmark = pytest.mark.anyio

KEYS = (("openai.api_key", "sk-first"), ("openai.fallback_api_keys[0]", "sk-second"))
LASTS = 1800


@define
class Bench:
    """A token service that answers at every address, and a clock to be turned."""

    running: simulator.Simulator
    transport: Transport
    now: float = 1_800_000_000.0
    delay: float = 0.0
    given: list[str] = field(factory=list)
    """What was presented, in order."""

    refused: dict[str, simulator.Script] = field(factory=dict)
    """What is answered instead, by what is presented."""

    repeats: bool = False

    def answer(self, request: simulator.RecordedRequest) -> simulator.Script:
        presented = request.headers["authorization"]
        self.given.append(presented)
        document = {
            "token": "tid=1" if self.repeats else f"tid={len(self.given)}",
            "expires_at": self.now + LASTS,
            "endpoints": {"api": "https://api.example"},
        }
        return self.refused.get(presented) or (simulator.Pause(self.delay), *simulator.json_answer(200, document))

    def credentials(self, scheme: str = "token") -> Credentials:
        clocks = Clocks(lambda: self.now, lambda: self.now, lambda: 0.0)
        exchange = KeyExchange(f"{self.running.url}/v2/token", scheme, ((b"user-agent", b"kiro-asgi/1"),))
        return Credentials.create(Keys(KEYS, exchange), self.transport, clocks)


@pytest.fixture
async def bench(anyio_backend: str) -> AsyncIterator[Bench]:
    async with simulator.serve(strict=False) as running:
        transport = Transport()
        made = Bench(running, transport)
        running.answer_with(made.answer)
        yield made
        await transport.aclose()


# Keys as they are.


async def test_keys_are_used_in_their_order():
    """The first, until it rests; then the next; each names the setting that it stands in."""
    credentials = Credentials.create(Keys(KEYS), Transport())
    first = await credentials.get()
    credentials.cool(first, UpstreamQuotaSpent("spent"))
    second = await credentials.get()

    assert first == Credential(CredentialKind.API_KEY, "sk-first", source="openai.api_key")
    assert second == Credential(CredentialKind.API_KEY, "sk-second", source="openai.fallback_api_keys[0]")
    assert "sk-" not in repr(first) + repr(credentials)
    assert await credentials.renew(first) is None
    with pytest.raises(KiroAsgiError, match="spent"):
        await credentials.get(exclude=(second,))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (GeminiSettings(), (("t.api_key", ""),)),
        (AnthropicSettings(api_key="a"), (("t.api_key", "a"),)),
        (OpenAISettings(fallback_api_keys=("b",)), (("t.fallback_api_keys[0]", "b"),)),
        (
            OpenAISettings(api_key="a", fallback_api_keys=("b", "a", "b", "c")),
            (("t.api_key", "a"), ("t.fallback_api_keys[0]", "b"), ("t.fallback_api_keys[3]", "c")),
        ),
    ],
)
async def test_each_key_counts_once_and_none_is_an_empty_one(settings: Any, expected: Any):
    """A local endpoint wants no key; a key that was refused is not tried again under another name."""
    keys = settings.keys("t")

    assert keys == expected
    assert (await Credentials.create(Keys(keys), Transport()).get()).secret == expected[0][1]


async def test_keys_are_exchanged_where_that_is_set():
    """The scheme and the headers of every request are told to the token service too."""
    said = OpenAISettings(api_key="k", user_agent="me/1", headers=("x-a=1",))
    headers = ((b"user-agent", b"me/1"), (b"x-a", b"1"))

    assert _access(OPENAI, said) == _access(GEMINI, GeminiSettings(api_key="k")) == Keys((("t.api_key", "k"),))
    for given, scheme in (("token", "token"), ("bearer", "Bearer")):
        access = _access(OPENAI, evolve(said, token_url="https://h/token", token_scheme=given))
        assert access == Keys((("t.api_key", "k"),), KeyExchange("https://h/token", scheme, headers))


def _access(manifest: Manifest[Any], settings: Any) -> Any:
    return Configured("t", manifest, settings).make().access


# Keys that are exchanged.


async def test_a_stampede_makes_one_exchange(bench: Bench):
    """50 requests at once are served after one question, with the token and its address; the key stays here."""
    bench.delay = 0.1
    credentials = bench.credentials()
    came: list[Credential] = []

    async def one() -> None:
        came.append(await credentials.get())

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(one)

    token = Credential(CredentialKind.ACCESS_TOKEN, "tid=1", source="openai.api_key", endpoint="https://api.example")
    assert came == [token] * 50
    assert bench.given == ["token sk-first"]
    (asked,) = bench.running.requests
    assert (asked.method, asked.path, asked.headers["user-agent"]) == ("GET", "/v2/token", "kiro-asgi/1")
    assert "sk-" not in repr(credentials) and "tid" not in repr(credentials)


async def test_a_token_is_replaced_ahead_of_its_end(bench: Bench):
    """Five minutes before, and nobody waits for it; a clock that passes the end costs one exchange."""
    credentials = bench.credentials("Bearer")
    seen = []
    for seconds in (0, LASTS - 301, 2, 0, LASTS + 1):
        bench.now += seconds
        seen.append((await credentials.get()).secret)
        await credentials.aclose()

    assert seen == ["tid=1", "tid=1", "tid=1", "tid=2", "tid=3"]
    assert bench.given == ["Bearer sk-first"] * 3


async def test_a_refused_token_is_replaced_once(bench: Bench):
    """What the service does not take is exchanged anew; soon after, another token is no remedy."""
    credentials = bench.credentials()
    refused = await credentials.get()
    newer = await credentials.renew(refused)

    assert newer is not None
    assert newer.secret == "tid=2"
    assert await credentials.renew(refused) == newer
    assert await credentials.renew(newer) is None
    assert len(bench.given) == 2


async def test_the_same_token_again_is_no_remedy(bench: Bench):
    """A token service that keeps to a token that was refused is at fault."""
    bench.repeats = True
    credentials = bench.credentials()
    refused = await credentials.get()
    with pytest.raises(UpstreamFault, match="still gives the token that the service has refused") as caught:
        await credentials.renew(refused)

    assert caught.value.code == "credentials.same"


async def test_a_key_that_is_not_taken_makes_room_for_the_next(bench: Bench):
    """Once a minute it is tried again; until then only the next key's token is used."""
    bench.refused["token sk-first"] = simulator.json_answer(401, {"message": "Bad credentials sk-first"})
    credentials = bench.credentials()
    for seconds in (0, 30, 29, 2):
        bench.now += seconds
        assert (await credentials.get()).source == "openai.fallback_api_keys[0]"

    assert bench.given == ["token sk-first", "token sk-second", "token sk-first"]


@pytest.mark.parametrize(
    ("status", "headers", "kind", "code", "wait"),
    [
        (401, (), UpstreamDenied, "credentials.key", 60.0),
        (404, (), UpstreamDenied, "credentials.key", 60.0),
        (429, (("retry-after", "90"),), KiroAsgiError, "credentials.throttled", 90.0),
        (500, (), UpstreamFault, "credentials.fault", 2.0),
        (302, (("location", "https://elsewhere.example"),), KiroAsgiError, "credentials.foreign", 2.0),
    ],
)
async def test_a_token_service_that_gives_none(
    bench: Bench, status: int, headers: Any, kind: type[KiroAsgiError], code: str, wait: float
):
    """The error names the setting, when to ask again, and nothing of what was said; within that nobody asks."""
    answer = simulator.json_answer(status, {"message": "sk-first"}, headers)
    bench.refused.update({"token sk-first": answer, "token sk-second": answer})
    credentials = bench.credentials()
    for _ in range(3):
        with pytest.raises(kind, match=rf"openai.api_key: .* {status}") as caught:
            await credentials.get()

    assert (caught.value.code, caught.value.retry_after) == (code, wait)
    assert "sk-" not in repr(caught.value)
    assert len(bench.given) == 2


async def test_nobody_waits_longer_for_a_token_that_is_still_good(bench: Bench):
    """A failure ahead of the end hurts nobody."""
    credentials = bench.credentials()
    await credentials.get()
    bench.refused["token sk-first"] = simulator.json_answer(503, {})
    bench.now += LASTS - 100
    for _ in range(2):
        assert (await credentials.get()).secret == "tid=1"
        await credentials.aclose()

    assert len(bench.given) == 2
