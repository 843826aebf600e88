"""The kit's checks fail on parts that are broken, each with words that say what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import define, evolve, field

from kiro_asgi.dialects import DialectManifest, Endpoint, ErrorReply
from kiro_asgi.errors import UpstreamError
from kiro_asgi.model.events import TextDelta
from kiro_asgi.state.memory import MemoryStore
from kiro_asgi.testing import (
    Clock,
    check_broken_stream,
    check_cuts,
    check_dialect,
    check_store,
    check_stream,
    check_upstream,
)
from tests.examples import example
from tests.testing.test_parts import LINES

PlainText = example("plain_dialect").PlainText
PLAIN: DialectManifest = example("plain_dialect").PLAIN


class Another(PlainText):
    name = "another"


class Crashing(PlainText):
    def parse(self, body: bytes, headers: Any = (), /) -> Any:
        return super().parse(body + body[0:1] if body[0] else body, headers)


class Streaming(PlainText):
    def parse(self, body: bytes, headers: Any = (), /) -> Any:
        return evolve(super().parse(body, headers), stream="yes")


class Losing(PlainText):
    def whole(self, message: Any, meta: Any) -> bytes:
        return message.blocks[-1].text.encode() if type(message.blocks[-1]).__name__ == "TextBlock" else b"-"


class Speechless(PlainText):
    def broken(self, error: Any) -> Iterable[bytes]:
        return []


class OneId(PlainText):
    def meta(self, parsed: Any, token: Any, created: int) -> Any:
        return evolve(super().meta(parsed, token, created), id="plain_1")


class Blaming(PlainText):
    def error(self, error: Any, request_id: str) -> ErrorReply:
        return evolve(super().error(error, request_id), status=401)


class Forgetting(PlainText):
    """Its encoder counts what it is fed at once."""

    def encoder(self, meta: Any) -> Any:
        made = super().encoder(meta)

        class Counting:
            heartbeat = b""
            error = made.error

            def feed(self, items: Iterable[Any]) -> Iterator[bytes]:
                listed = [*items]
                yield from made.feed(listed)
                yield b"%d" % len(listed)

            def flush(self) -> Iterator[bytes]:
                return iter(())

        return Counting()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Another, "the dialect is named 'another', and its manifest 'plain'"),
        (Crashing, "it is not refused with a RequestError, but IndexError"),
        (Streaming, "its stream is 'yes', not True or False"),
        (Losing, "is not in the body"),
        (Speechless, "ends without a word"),
        (OneId, "two answers have the same id 'plain_1'; make it of the token"),
        (Blaming, "the client would take 401 for its own key's"),
        (Forgetting, "is another where its events come one by one"),
    ],
)
def test_a_broken_client_api(kind: type, words: str) -> None:
    """Each of its own kind."""
    with pytest.raises(AssertionError, match=words):
        check_dialect(evolve(PLAIN, make=kind), b"Hi", headers=[(b"x-model", b"m")])


RiverUpstream = example("river_upstream").RiverUpstream
RIVER = example("river_upstream").RIVER
river = example("river_upstream")


@define
class Patient(river.Answer):
    def flush(self) -> Iterator[Any]:
        return iter(())


@define
class Careless(river.Answer):
    def feed(self, items: Iterable[Any], /) -> Iterator[Any]:
        for item in items:
            yield TextDelta(item["text"]) if not item.get("end") else TextDelta("")
        self._ended = True


def with_stage(stage: type) -> type:
    class Broken(RiverUpstream):
        def decoder(self, content_type: str) -> Any:
            return (river.upstreams.JsonLines(), stage())

    return Broken


class Telling(RiverUpstream):
    def url(self, credential: Any, path: str, public: str = "") -> str:
        return super().url(credential, f"{path}?key={credential.secret}", public)


class Splitting(RiverUpstream):
    def request_headers(self, credential: Any, *kinds: Any) -> Any:
        return (*super().request_headers(credential, *kinds), (b"x-note", b"a\r\nb: c"))


class Trusting(RiverUpstream):
    def parse_models(self, body: bytes) -> Any:
        return river.ModelPage(tuple(river.upstreams.loads(body)))


class Silent(RiverUpstream):
    def fault(self, status: int, headers: Any, body: bytes) -> Any:
        return UpstreamError("")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (with_stage(Patient), "passes for a whole one; raise an UpstreamProtocolError"),
        (with_stage(Careless), "text"),
        (Telling, "the secret is in the address"),
        (Splitting, "the header b'x-note' of prompt 0 has a line end"),
        (Trusting, "a list of models that is .* is TypeError"),
        (Silent, "fault gives an error without a message"),
    ],
)
def test_a_broken_service(kind: type, words: str) -> None:
    """Each of its own kind."""

    def make(configured: Any) -> Any:
        upstream = kind(tone="plain", **river.upstreams.common(configured))
        return river.upstreams.direct_setup(configured, upstream, (), river.ENDPOINT)

    with pytest.raises((AssertionError, KeyError), match=words):
        check_upstream(evolve(RIVER, make=make), LINES, "application/x-ndjson")


class Greedy(MemoryStore):
    async def take(self, key: str) -> bytes | None:
        return await self.get(key)


class Sticky(MemoryStore):
    async def delete(self, key: str) -> None:
        pass


class Racing(MemoryStore):
    async def take(self, key: str) -> bytes | None:
        value = await self.get(key)
        await asyncio.sleep(0)
        await self.delete(key)
        return value


class Open(MemoryStore):
    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        yield


class Forgetful(MemoryStore):
    async def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        return {key: b"v" for key in keys[:1] if await self.get(key) is not None}


class Lasting(MemoryStore):
    async def set(self, key: str, value: bytes, ttl: float) -> None:
        await super().set(key, value, 1e9)


class Emptied(MemoryStore):
    async def aclose(self) -> None:
        self.__init__()  # type: ignore[misc]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Greedy, "gave .* bytes .*, not nothing|not 0 bytes"),
        (Sticky, "gave .*, not nothing"),
        (Racing, "of 20 who take a value at once get it; one must"),
        (Forgetful, "values that are read together are others"),
        (Open, "a lock was given to 20 at once"),
        (Lasting, "get gives a value whose time to live is over"),
        (Emptied, "a store that was closed has lost its values"),
    ],
)
async def test_a_broken_store(kind: type, words: str) -> None:
    """Each of its own kind."""
    clock = Clock()
    with pytest.raises(AssertionError, match=words):
        await check_store(lambda: kind(clock=clock), clock)


@define
class ByPiece:
    """Rewrites each piece by itself."""

    _seen: list[str] = field(factory=list)

    def feed(self, items: Iterable[Any], /) -> Iterator[Any]:
        for item in items:
            yield TextDelta(item.text.replace("bird", "fish"))

    def flush(self) -> Iterator[Any]:
        return iter(())


def test_a_stage_that_depends_on_the_cut() -> None:
    """With the cut, and the difference."""
    with pytest.raises(AssertionError, match=r"cut into characters, the result is another: .*bird.* in the place of"):
        check_cuts(ByPiece, [TextDelta("a bird")])


MESSAGES = b"""event: message_start
data: {"type":"message_start","message":{"content":[],"stop_reason":null,"stop_sequence":null,"usage":{}}}

"""


@pytest.mark.parametrize(
    ("api", "stream"),
    [
        ("openai_chat", b"data: {}\n\n"),
        ("openai_responses", b"event: x\ndata: {}\n\n"),
        ("anthropic", MESSAGES),
        ("gemini", b": ping\n\n"),
    ],
)
def test_a_broken_stream(api: str, stream: bytes) -> None:
    """Of each API, in both checks."""
    for check in (check_stream, check_broken_stream):
        with pytest.raises(AssertionError):
            check(api, stream)


def test_an_api_without_a_grammar() -> None:
    """The message has those that have one."""
    with pytest.raises(ValueError, match="there is no grammar for 'soap'; there is one for openai_chat, "):
        check_stream("soap", b"")


def test_the_endpoint_can_be_named() -> None:
    """Of an API whose requests differ from path to path: the request of another path is refused there."""
    manifest = example("ollama_dialect").OLLAMA
    with pytest.raises(Exception, match="messages: required field missing"):
        check_dialect(manifest, {"model": "m", "prompt": "Hi"}, endpoint=Endpoint("POST", "/chat"))
