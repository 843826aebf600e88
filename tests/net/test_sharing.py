"""Gateways on several machines, each with a token file of its own and all with one store, renew a sign-in once."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi import simulator
from kiro_asgi.config import KiroSettings
from kiro_asgi.errors import UpstreamFault
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.net.credentials.refresh import SharedRenewals, _key, _opened, _sealed
from kiro_asgi.net.transport import Transport
from kiro_asgi.state.base import Store
from kiro_asgi.state.sqlite import SqliteStore
from kiro_asgi.upstreams.access import SignIns
from kiro_asgi.upstreams.base import Credential, Token
from kiro_asgi.upstreams.kiro.tokens import KiroVendor
from tests.net.test_credentials import Bench, Hands
from tests.valkey_server import free_port, needs_server, running

pytestmark = pytest.mark.anyio

LIFE = 3600.0
OLD = Token("aoaOld", "aorOld", 1_000.0)


@define
class Machines:
    """A sign-in service, a clock, and a place that all of them share."""

    bench: Bench
    folder: Path
    open_store: Callable[[], Store]
    stack: AsyncExitStack
    files: list[Path] = field(init=False, factory=list)

    def add(self, left: float = -1.0) -> Credentials:
        """A gateway with a copy of the first token."""
        path = self.bench.sign_in(left, self.folder / f"token-{len(self.files)}.json")
        self.files.append(path)
        store = self.open_store()
        self.stack.push_async_callback(store.aclose)
        url = self.bench.running.url
        vendor = KiroVendor(KiroSettings(auth_endpoint=url, endpoint=url))
        return Credentials.create(
            SignIns(vendor, KiroSettings(credentials_file=str(path))),
            self.bench.transport,
            self.bench.hands.clocks(),
            shared=SharedRenewals(store),
        )

    def stored(self) -> set[str]:
        """The refresh tokens in the files."""
        return {json.loads(path.read_text())["refreshToken"] for path in self.files}


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture(params=["sqlite", pytest.param("valkey", marks=needs_server)])
async def machines(request: pytest.FixtureRequest, anyio_backend: str, tmp_path: Path) -> AsyncIterator[Machines]:
    async with simulator.serve() as service, AsyncExitStack() as stack:
        hands = Hands()
        bench = Bench(service, tmp_path / "unused", hands, Transport())
        if request.param == "sqlite":
            yield Machines(bench, tmp_path, lambda: SqliteStore(tmp_path / "state.db", clock=lambda: hands.wall), stack)
        else:
            url = request.getfixturevalue("server").url
            store = valkey_store(url)
            await store._server.ask(lambda client: client.flushall())
            await store.aclose()
            yield Machines(bench, tmp_path, lambda: valkey_store(url), stack)


def valkey_store(url: str):
    from kiro_asgi.state.valkey import ValkeyServer, ValkeyStore

    return ValkeyStore(ValkeyServer(url))


async def test_one_renewal_for_all(machines):
    """All come at once; one asks, and each has the new token in its own file."""
    machines.bench.running.accounts.delay = 0.1
    gateways = [machines.add() for _ in range(3)]
    came: list[Credential] = []

    async def ask(gateway: Credentials) -> None:
        came.append(await gateway.get())

    async with anyio.create_task_group() as group:
        for gateway in gateways:
            group.start_soon(ask, gateway)
    assert len({credential.secret for credential in came}) == 1
    assert machines.bench.refreshes == 1 == machines.bench.asked
    assert len(machines.stored()) == 1
    assert "aorOld" not in machines.stored()


async def test_a_chain_of_renewals_is_followed(machines):
    """Who was away finds what the token of then has become, and may be the next to renew it."""
    first, late = machines.add(), machines.add()
    for _ in range(3):
        newest = await first.get()
        machines.bench.hands.turn(LIFE)
    machines.bench.hands.turn(-LIFE / 2)
    assert (await late.get()).secret == newest.secret
    assert machines.bench.refreshes == 3

    machines.bench.hands.turn(LIFE)
    assert (await late.get()).secret == (await first.get()).secret != newest.secret
    assert (machines.bench.refreshes, machines.bench.asked) == (4, 4)


async def test_a_refresh_token_that_stays(machines):
    """Where a service replaces the access token alone, the newer is told by its end."""
    machines.bench.running.accounts.rotate = False
    gateways = [machines.add() for _ in range(2)]
    for renewals in (1, 2, 3):
        assert len({(await gateway.get()).secret for gateway in gateways}) == 1
        assert machines.bench.refreshes == renewals
        machines.bench.hands.turn(LIFE)


async def test_a_failed_renewal_leaves_the_lock_to_the_next(machines):
    """The one that could not renew keeps nobody else from it."""
    one, other = machines.add(), machines.add()
    machines.bench.running.enqueue(simulator.refusal(500, "an error of theirs"), operation="RefreshToken")
    with pytest.raises(UpstreamFault):
        await one.get()
    assert (await other.get()).secret
    assert machines.bench.refreshes == 1


@pytest.mark.parametrize("machines", ["sqlite"], indirect=True)
async def test_a_gateway_that_dies_in_a_renewal(machines):
    """Its lock ends by itself."""
    dead = machines.open_store()
    lock = dead.lock(_key(OLD))
    await lock.__aenter__()
    gateway = machines.add()
    with anyio.move_on_after(0.2):
        await gateway.get()
    assert machines.bench.asked == 0
    machines.bench.hands.turn(61)
    assert (await gateway.get()).secret
    assert machines.bench.refreshes == 1
    await lock.__aexit__(None, None, None)
    await dead.aclose()


@pytest.mark.parametrize("machines", ["sqlite"], indirect=True)
async def test_what_is_left_is_of_no_use_without_the_old_token(machines, caplog):
    """No token is in the file in clear; what was changed there, or is another's, counts as missing."""
    credential = await machines.add().get()
    store = machines.open_store()
    key = _key(OLD)
    left = await store.get(key)
    (refresh,) = machines.stored()
    content = b"".join(path.read_bytes() for path in machines.folder.glob("state.db*"))
    for secret in (credential.secret, refresh, "aorOld", "aoaOld"):
        assert secret.encode() not in left + content
    found = await SharedRenewals(store).newest(OLD)
    assert (found.access_token, found.refresh_token) == (credential.secret, refresh)

    await store.set(key, left[:-1], 60)
    with caplog.at_level(logging.ERROR, "kiro_asgi"):
        assert await SharedRenewals(store).newest(OLD) is OLD
    assert "damaged" in caplog.text
    await store.aclose()


@needs_server
@pytest.mark.parametrize("machines", ["sqlite"], indirect=True)
async def test_without_the_store_each_goes_on_alone(machines, caplog):
    """The log says so once."""
    machines.open_store = lambda: valkey_store(f"valkey://127.0.0.1:{free_port()}")
    gateway = machines.add()
    for renewals in (1, 2):
        assert (await gateway.get()).secret
        assert machines.bench.refreshes == renewals
        machines.bench.hands.turn(LIFE)
    assert caplog.text.count("each gateway renews tokens for itself") == 1


@given(st.text(max_size=8), st.integers(0, 200), st.integers(1, 255))
def test_a_seal_that_was_changed_is_none(refresh, place, change):
    """Whichever byte it is; and what was not changed is whole, whatever the token is made of."""
    new = Token("new", refresh, None, profile_arn="arn")
    sealed = bytearray(_sealed(OLD, new))
    assert _opened(OLD, bytes(sealed)).refresh_token == refresh
    sealed[place % len(sealed)] ^= change
    assert _opened(OLD, bytes(sealed)) is None
    assert _opened(OLD, b"") is None
