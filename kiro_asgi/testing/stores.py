"""The laws of a store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

import anyio
from attrs import define

from kiro_asgi.state.base import Store, each_of, scoped, stored_values

_STEPS: Final = 200
"""Random steps that are compared with those of a dictionary."""

_CROWD: Final = 20
"""Tasks that want the same at once."""

_LARGE: Final = 256 * 1024
"""Bytes of a value that any store has room for."""

_PATIENCE: Final = 30.0
"""Seconds after which something counts as never ending."""

_MOMENT: Final = 0.05
"""Seconds after which somebody who waits for a lock gives up."""


@define
class Clock:
    """Seconds since the epoch that stand still unless they are set, for stores that take a clock."""

    now: float = 1_000_000_000.0

    def __call__(self) -> float:
        """The time."""
        return self.now

    async def wait(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self.now += seconds


@define
class _TrueClock:
    """The clock of the machine."""

    async def wait(self, seconds: float) -> None:
        """Let *seconds* pass, and a little more."""
        await anyio.sleep(seconds + 0.05)


async def check_store(make: Callable[[], Store], clock: Clock | None = None) -> None:
    """Fail unless a store keeps the laws that `kiro_asgi.Store` states; on asyncio or on trio.

    Args:
        make: Makes an empty store; called several times, and each store is closed.
        clock: The clock that *make* gives to each.  Without one, values expire in true time, which takes a second.

    Raises:
        AssertionError: A law is broken; the message says which.
    """
    time = clock or _TrueClock()
    for law in (_is_a_dictionary, _reads_many, _gives_to_one, _excludes, _frees_locks, _goes_on_after_closing):
        store = make()
        try:
            with anyio.fail_after(_PATIENCE):
                await law(store)
        except TimeoutError:
            raise AssertionError(f"{law.__name__.strip('_')}: it does not end") from None
        finally:
            await store.aclose()
    store = make()
    await _expires(store, time)
    await store.aclose()


async def _is_a_dictionary(store: Store) -> None:
    """What is set is found until it is set anew, taken or deleted; random, and the same each time."""
    random, model = Random(0), dict[str, bytes]()
    keys = [scoped("somebody", "test", name) for name in "abc"]
    values = [b"", b"\x00\xff", "é".encode(), bytes(_LARGE)]
    for step in range(_STEPS):
        key, value = random.choice(keys), random.choice(values)
        name = random.choice(("set", "set", "get", "take", "delete"))
        found: bytes | None = None
        if name == "set":
            await store.set(key, value, 3600.0)
            model[key] = value
        elif name == "delete":
            await store.delete(key)
            model.pop(key, None)
        else:
            found = await (store.get(key) if name == "get" else store.take(key))
            expected = model.get(key) if name == "get" else model.pop(key, None)
            assert found == expected, f"step {step}: {name} gave {_shown(found)}, not {_shown(expected)}"
    for key in keys:
        left = await store.get(key)
        assert left == model.get(key), f"at the end: get gave {_shown(left)}, not {_shown(model.get(key))}"


async def _expires(store: Store, clock: Clock | _TrueClock) -> None:
    """A value is there before its time is over, and not after it; a new one has a time of its own."""
    key, other = scoped("somebody", "test", "short"), scoped("somebody", "test", "long")
    await store.set(key, b"v", 0.5)
    await store.set(other, b"v", 60.0)
    assert await store.get(key) == b"v", "a value is gone before its time to live is over"
    await clock.wait(0.5)
    assert await store.get(key) is None, "get gives a value whose time to live is over"
    assert await store.take(key) is None, "take gives a value whose time to live is over"
    assert await store.get(other) == b"v", "a value is gone before its time to live is over"
    await store.set(key, b"w", 60.0)
    assert await store.get(key) == b"w", "a value is not there that was set after another had expired"


async def _reads_many(store: Store) -> None:
    """What is read together is what is read one after the other."""
    keys = [scoped("somebody", "test", str(number)) for number in range(_CROWD)]
    assert await stored_values(store, keys) == {}, "an empty store gives values that are read together"
    for number, key in enumerate(keys[::2]):
        await store.set(key, b"v" * number, 3600.0)
    await store.delete(keys[2])
    found = await stored_values(store, keys)
    assert found == await each_of(store, keys), "values that are read together are others than those read by themselves"
    assert len(found) == _CROWD // 2 - 1, "of values that are read together some are missing"
    assert await stored_values(store, ()) == {}, "values are found without a key"


async def _gives_to_one(store: Store) -> None:
    """Of many who take a value at once, one gets it."""
    key, taken = scoped("somebody", "test", "taken"), list[bytes | None]()
    await store.set(key, b"v", 60.0)

    async def take() -> None:
        taken.append(await store.take(key))

    async with anyio.create_task_group() as group:
        for _ in range(_CROWD):
            group.start_soon(take)
    got = sum(each is not None for each in taken)
    assert got == 1, f"{got} of {_CROWD} who take a value at once get it; one must"


async def _excludes(store: Store) -> None:
    """Under a lock several operations are one, and other keys are free."""
    key, within, most = scoped("somebody", "test", "counter"), 0, 0

    async def enter() -> None:
        nonlocal within, most
        async with store.lock(key):
            within += 1
            most = max(most, within)
            await anyio.sleep(0.001)
            within -= 1

    async with anyio.create_task_group() as group:
        for _ in range(_CROWD):
            group.start_soon(enter)
        async with store.lock(scoped("somebody", "test", "other")):
            pass
    assert most == 1, f"a lock was given to {most} at once"


async def _frees_locks(store: Store) -> None:
    """A lock is free again after a failure or a cancellation within it, and after somebody gave up waiting."""
    key = scoped("somebody", "test", "lock")
    with suppress(ZeroDivisionError):
        async with store.lock(key):
            raise ZeroDivisionError
    with anyio.move_on_after(_MOMENT):
        async with store.lock(key):
            await anyio.sleep_forever()
    given = True

    async def wait_in_vain() -> None:
        nonlocal given
        with anyio.move_on_after(_MOMENT):
            async with store.lock(key):
                return
        given = False

    async with store.lock(key), anyio.create_task_group() as group:
        group.start_soon(wait_in_vain)
    assert not given, "a lock was given to two"
    with anyio.move_on_after(_PATIENCE / 2) as limit:
        async with store.lock(key):
            pass
    assert not limit.cancelled_caught, "a lock is not free again after a failure, a cancellation, or a wait in vain"


async def _goes_on_after_closing(store: Store) -> None:
    """A store that was closed can be used again, and has its values."""
    key = scoped("somebody", "test", "kept")
    await store.set(key, b"v", 60.0)
    await store.aclose()
    assert await store.get(key) == b"v", "a store that was closed has lost its values, or cannot be used again"
    await store.aclose()
    await store.aclose()


def _shown(value: bytes | None) -> str:
    return "nothing" if value is None else f"{len(value)} bytes ({value[:20]!r})"
