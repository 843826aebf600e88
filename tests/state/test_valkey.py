"""What is particular to the engine on a server: other gateways, a server that is away, and one that comes back."""

from __future__ import annotations

import gc
import logging
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from kiro_asgi.errors import ConfigError, StoreUnavailable
from kiro_asgi.state.base import scoped
from tests.valkey_server import free_port, needs_server, program, running

valkey = pytest.importorskip("valkey")

from kiro_asgi.state.valkey import ValkeyServer, ValkeyStore  # noqa: E402 - the client is an extra

pytestmark = [pytest.mark.anyio, needs_server]

TLS = Path(__file__).parents[1] / "net" / "tls"
KEY = scoped("alice", "response", "resp_1")


@pytest.fixture(scope="module")
def url():
    with running() as server:
        yield server.url


@pytest.fixture
async def stores(url):
    """Two gateways' stores on one empty server."""
    both = [ValkeyStore(ValkeyServer(url)) for _ in range(2)]
    await both[0]._server.ask(lambda client: client.flushall())
    yield both
    for store in both:
        await store.aclose()


async def test_another_gateway_finds_a_value_at_once(stores):
    one, other = stores
    for number in range(50):
        await one.set(KEY, b"%d" % number, 60)
        assert await other.get(KEY) == b"%d" % number
    await other.delete(KEY)
    assert await one.get(KEY) is None


async def test_values_pass_away(stores):
    one, other = stores
    await one.set(KEY, b"value", 0.05)
    await anyio.sleep(0.1)
    assert await other.get(KEY) is None
    await one.set(KEY, b"value", 0)
    assert await one.get(KEY) is None


async def test_of_several_who_take_one_gets_it(stores):
    await stores[0].set(KEY, b"value", 60)
    got = []

    async def take(store):
        got.append(await store.take(KEY))

    async with anyio.create_task_group() as group:
        for store in stores * 5:
            group.start_soon(take, store)
    assert sorted(got, key=lambda value: value or b"") == [*[None] * 9, b"value"]


async def test_a_lock_holds_across_gateways(stores):
    inside = entered = 0

    async def enter(store):
        nonlocal inside, entered
        async with store.lock(KEY):
            inside += 1
            assert inside == 1
            await anyio.sleep(0.002)
            entered += 1
            inside -= 1

    async with anyio.create_task_group() as group:
        for store in stores * 5:
            group.start_soon(enter, store)
    assert entered == 10


async def test_nobody_releases_the_lock_of_another(stores):
    one, other = stores
    async with one.lock(KEY):
        await one._server.ask(lambda client: client.delete(f"kiro-asgi:1:kept:{KEY}:lock"))  # its minute is over
        async with other.lock(KEY):
            pass
        async with anyio.create_task_group() as group:
            held = anyio.Event()

            async def hold():
                async with other.lock(KEY):
                    held.set()
                    await anyio.sleep(0.2)

            group.start_soon(hold)
            await held.wait()
    key = f"kiro-asgi:1:kept:{KEY}:lock"
    assert await one._server.ask(lambda client: client.get(key)) is None


async def test_a_cancelled_question_leaves_no_answer_for_the_next(stores):
    """The reply to a question that was given up must not be taken for that to another."""
    one, other = stores
    await other.set(KEY, b"right", 60)
    for _ in range(20):
        with anyio.move_on_after(0.0005):
            await one._server.ask(lambda client: client.execute_command("ECHO", b"wrong"))
        assert await one.get(KEY) == b"right"


async def test_what_cannot_be_written_waits_for_the_server(caplog):
    port = free_port()
    store = ValkeyStore(ValkeyServer(f"valkey://127.0.0.1:{port}"))
    await store.set(KEY, b"value", 60)
    assert await store.get(KEY) == b"value", "this process has it"
    with pytest.raises(StoreUnavailable, match="state server"):
        await store.get(scoped("alice", "response", "another"))
    with running(port) as server:
        other = ValkeyStore(ValkeyServer(server.url))
        with anyio.fail_after(10):
            while await other.get(KEY) != b"value":  # noqa: ASYNC110 - a thread writes it
                await anyio.sleep(0.05)
        await store.aclose()
        await other.aclose()


async def test_a_server_that_is_away_is_left_alone_for_a_while(caplog):
    now = 100.0
    server = ValkeyServer(f"valkey://127.0.0.1:{free_port()}", lambda: now)
    asked = 0

    def ask(client):
        nonlocal asked
        asked += 1
        return client.ping()

    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            with pytest.raises(StoreUnavailable) as caught:
                await server.ask(ask)
    assert asked == 5
    assert caught.value.retry_after == 2
    assert len(caplog.records) == 1, "it is told once"

    now += 2
    with pytest.raises(StoreUnavailable):
        await server.ask(ask)
    assert asked == 6


async def test_a_server_that_comes_back_is_used_by_itself(caplog):
    now, port = 100.0, free_port()
    server = ValkeyServer(f"valkey://127.0.0.1:{port}", lambda: now)
    with running(port):
        assert await server.ask(lambda client: client.ping())
    for _ in range(6):
        with pytest.raises(StoreUnavailable):
            await server.ask(lambda client: client.ping())
    with running(port):
        now += 5
        assert await server.ask(lambda client: client.ping())
    await server.aclose()


@pytest.mark.parametrize("url", ["http://host", "valkey+both://host", "host"])
def test_an_address_that_is_none(url):
    with pytest.raises(ConfigError, match=r"state\.url"):
        ValkeyServer(url)


async def test_a_refusal_of_the_server_is_told_without_its_password():
    with running(0, "--requirepass", "right-horse") as server:
        for url in (server.url, f"valkey://:wrong-battery@127.0.0.1:{server.port}"):
            with pytest.raises(StoreUnavailable) as caught:
                await ValkeyServer(url).ask(lambda client: client.get("x"))
            assert "battery" not in str(caught.value)


@contextmanager
def sentinel(primary):
    """The port of a sentinel that watches *primary*."""
    with tempfile.TemporaryDirectory() as folder:
        port, config = free_port(), Path(folder, "sentinel.conf")
        config.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor mine 127.0.0.1 {primary.port} 1\n")
        process = subprocess.Popen([str(program()), str(config), "--sentinel"], stdout=subprocess.DEVNULL)
        try:
            yield port
        finally:
            process.kill()
            process.wait()


async def works(url):
    store = ValkeyStore(ValkeyServer(url))
    with anyio.fail_after(10):
        while True:
            try:
                await store._server.ask(lambda client: client.set("probe", b"1"))
            except StoreUnavailable:
                await anyio.sleep(0.05)
                store._server._rests_until = 0
            else:
                break
    async with store.lock(KEY):
        await store.set(KEY, b"value", 60)
    assert (await store.get(KEY), await store.take(KEY), await store.get(KEY)) == (b"value", b"value", None)
    await store.aclose()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the client leaves such a socket open
async def test_a_server_with_tls():
    """It must show a certificate that is trusted, and its own; nothing is said to another, or without encryption."""
    port, pair = free_port(), [str(TLS / name) for name in ("certificate.pem", "key.pem")]
    tls = ("--tls-cert-file", pair[0], "--tls-key-file", pair[1], "--tls-auth-clients", "no")
    with running(0, "--tls-port", str(port), "--tls-ca-cert-file", pair[0], *tls):
        await works(f"valkeys://127.0.0.1:{port}/0?ssl_ca_certs={pair[0]}&ssl_check_hostname=false")
        another = f"valkeys://127.0.0.1:{port}/0?ssl_ca_certs={pair[0]}"
        for url in (another, f"valkeys://127.0.0.1:{port}/0", f"valkey://127.0.0.1:{port}/0"):
            with pytest.raises(StoreUnavailable):
                await ValkeyStore(ValkeyServer(url)).get(KEY)
        gc.collect()


async def test_the_primary_that_sentinels_name():
    with running() as primary, sentinel(primary) as port:
        await works(f"valkey+sentinel://127.0.0.1:{port}/mine?db=0")


async def test_a_cluster():
    with running(0, "--cluster-enabled", "yes") as node:
        with valkey.Valkey(port=node.port) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        await works(f"valkey+cluster://127.0.0.1:{node.port}")


@pytest.fixture
async def small(url):
    """A store in which each client has room for three values of 600 bytes, or for five."""
    store = ValkeyStore(ValkeyServer(url), 5, 3_100)
    await store._server.ask(lambda client: client.flushall())
    yield store
    await store.aclose()


def key_of(owner, name):
    return scoped(owner, "response", name)


async def kept(store, owner, names):
    return [name for name in names if await store.get(key_of(owner, name)) is not None]


async def test_a_client_keeps_no_more_than_its_room(small):
    """What ends first makes room, of its own values alone."""
    await small.set(key_of("bob", "b"), b"x" * 600, 60)
    for number, name in enumerate("abcde"):
        await small.set(key_of("alice", name), b"x" * 600, 60 + number)
    assert await kept(small, "alice", "abcde") == ["c", "d", "e"]
    assert await kept(small, "bob", "b") == ["b"]
    for number, name in enumerate("fghijk"):
        await small.set(key_of("alice", name), b"", 100 + number)
    assert await kept(small, "alice", "cdefghijk") == ["g", "h", "i", "j", "k"]


async def test_what_is_replaced_taken_deleted_or_over_needs_no_room(small):
    for _ in range(5):
        await small.set(key_of("alice", "a"), b"x" * 600, 60)
    await small.set(key_of("alice", "b"), b"x" * 600, 60)
    await small.set(key_of("alice", "c"), b"x" * 600, 0.05)
    await anyio.sleep(0.1)
    await small.set(key_of("alice", "d"), b"x" * 600, 60)
    assert await kept(small, "alice", "abcd") == ["a", "b", "d"]
    assert await small.take(key_of("alice", "a")) == b"x" * 600
    await small.delete(key_of("alice", "b"))
    for name in "ef":
        await small.set(key_of("alice", name), b"x" * 600, 60)
    assert await kept(small, "alice", "abdef") == ["d", "e", "f"]


async def test_what_is_larger_than_the_room_is_not_kept(small):
    """Nor is what was there before it."""
    await small.set(key_of("alice", "a"), b"x", 60)
    await small.set(key_of("alice", "a"), b"x" * 4_000, 60)
    assert await small.get(key_of("alice", "a")) is None


async def test_nothing_of_a_client_is_left_on_the_server(small):
    """Neither values nor what is kept about them."""
    for number in range(20):
        await small.set(key_of("alice", str(number)), b"x" * 100, 0.2)
    await anyio.sleep(0.3)
    assert await small._server.ask(lambda client: client.dbsize()) == 0
