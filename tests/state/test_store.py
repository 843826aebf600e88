"""What every engine of a store promises."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiro_asgi.state.base import owner_of, scoped
from tests.state.engines import ENGINES, Clock

pytestmark = pytest.mark.anyio

KEYS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.binary(max_size=4), st.sampled_from([0.0, 1.0, 2.5, 60.0])),
        st.tuples(st.sampled_from(["get", "take", "delete"]), KEYS),
        st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 30.0])),
    ),
    max_size=30,
)


EACH_ENGINE = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


@EACH_ENGINE
@settings(max_examples=50)
@given(steps=STEPS)
async def test_a_store_is_a_dictionary_whose_values_expire(engine, steps):
    """F254: whatever happens to it, a store gives what a dictionary with expiry times gives."""
    clock = Clock()
    model: dict[str, tuple[bytes, float]] = {}

    def living(key):
        value, end = model.get(key, (None, 0.0))
        return value if end > clock.now else None

    async with engine(clock) as store:
        for step in steps:
            match step:
                case "set", key, value, ttl:
                    await store.set(key, value, ttl)
                    model[key] = value, clock.now + ttl
                case "get", key:
                    assert await store.get(key) == living(key)
                case "take", key:
                    assert await store.take(key) == living(key)
                    model.pop(key, None)
                case "delete", key:
                    await store.delete(key)
                    model.pop(key, None)
                case "wait", seconds:
                    clock.now += seconds

        assert {key: await store.get(key) for key in "abc"} == {key: living(key) for key in "abc"}


@EACH_ENGINE
async def test_of_many_who_take_one_gets(engine):
    """What is meant for one reader reaches one."""
    taken = []
    async with engine(Clock()) as store:
        await store.set("k", b"v", 1.0)

        async def take():
            taken.append(await store.take("k"))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(take)

    assert sorted(taken, key=bool) == [*[None] * 19, b"v"]


@EACH_ENGINE
async def test_a_lock_excludes(engine):
    """Under a lock several operations are one; other keys are not held up."""
    async with engine(Clock()) as store:
        await store.set("n", b"0", 60.0)

        async def add():
            async with store.lock("n"):
                value = await store.get("n")
                await anyio.sleep(0.001)
                await store.set("n", b"%d" % (int(value) + 1), 60.0)

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(add)
            async with store.lock("other"):
                pass

        assert await store.get("n") == b"20"


@EACH_ENGINE
async def test_a_lock_is_free_again_after_a_failure_or_a_cancellation(engine):
    """Whoever holds a lock gives it back, however that ends; whoever waits for it may give up."""
    async with engine(Clock()) as store:
        with pytest.raises(ZeroDivisionError):
            async with store.lock("k"):
                raise ZeroDivisionError
        held, gave_up = anyio.Event(), anyio.Event()

        async def hold():
            async with store.lock("k"):
                held.set()
                await gave_up.wait()

        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            await held.wait()
            with anyio.move_on_after(0.02) as waiting:
                async with store.lock("k"):
                    pytest.fail("a lock was given to two")
            gave_up.set()
        with anyio.move_on_after(0.02):
            async with store.lock("k"):
                await anyio.sleep_forever()

        assert waiting.cancelled_caught
        with anyio.fail_after(10):
            async with store.lock("k"):
                pass


@EACH_ENGINE
async def test_a_closed_store_goes_on(engine):
    """Closing lets go of what a store holds of the machine; the values stay, and it can be used and closed again."""
    async with engine(Clock()) as store:
        await store.aclose()
        await store.set("k", b"v", 60.0)
        await store.aclose()
        await store.aclose()

        assert await store.get("k") == b"v"


@given(st.tuples(st.text(), st.text(), st.text()), st.tuples(st.text(), st.text(), st.text()))
def test_keys_are_one_to_one_and_of_fixed_size(one, other):
    """R47/F254: no client reaches another's values, nor makes a key as long as it likes."""
    assert (scoped(*one) == scoped(*other)) is (one == other)
    assert len(scoped(*one)) == 81
    assert scoped("ab", "c", "d") != scoped("a", "bc", "d")
    assert (owner_of(scoped(*one)) == owner_of(scoped(*other))) is (one[0] == other[0])
