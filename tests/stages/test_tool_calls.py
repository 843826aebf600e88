from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import ConfigError
from kiro_asgi.model.events import (
    ContextUsage,
    Delta,
    Notice,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages.parts.argument_text import malformed_call, truncation_info
from kiro_asgi.stages.tool_calls import EMISSIONS, ToolCallAssembler
from kiro_asgi.wire.json import JsonError, loads
from tests.helpers import run, run_apart
from tests.stages.deltas import answers
from tests.stages.timing import assert_linear

A = TextDelta
NO_ID = Notice("tool_call.no_id", "f")
HI, THOUGHT, SEAL, SHARE = TextDelta("hi"), ThinkingDelta("hm"), SignatureDelta("s"), ContextUsage(1.0)


def part(call_id: str, text: str = "", name: str = "f") -> ToolCallFragment:
    return ToolCallFragment(call_id, name, text)


def last(call_id: str, text: str = "", name: str = "f") -> ToolCallFragment:
    return ToolCallFragment(call_id, name, text, True)


def whole(call_id: str, *texts: str, name: str = "f") -> list[Delta]:
    return [ToolCallStart(call_id, name), *map(ToolInputDelta, texts), ToolCallEnd(call_id)]


def cut(call_id: str, text: str, name: str = "f", reason: str = "") -> ToolCallCut:
    return ToolCallCut(truncation_info(call_id, name, text, reason=reason))


def malformed(call_id: str, text: str, reason: str = "", name: str = "f") -> ToolCallMalformed:
    if not reason:
        with pytest.raises(JsonError) as caught:
            loads(text)
        reason = caught.value.message
    return ToolCallMalformed(malformed_call(call_id, name, text, reason=reason))


AS_KIRO = [part("c"), part("c", '{"a"'), part("c", ":1}"), last("c")]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(AS_KIRO, whole("c", '{"a":1}'), id="F192-F195-F210"),
        pytest.param([last("c", '{"a":1}')], whole("c", '{"a":1}'), id="F194-all-in-one-fragment"),
        pytest.param(
            [part("c", '{"a"'), last("c", ":1}")], whole("c", '{"a":1}'), id="F194-first-and-last-carry-input"
        ),
        pytest.param([part("c"), last("c")], whole("c", "{}"), id="F207-no-arguments"),
        pytest.param([part("c"), last("c", " \n")], whole("c", "{}"), id="blank-arguments"),
        pytest.param(
            [part("c", "{"), ToolCallFragment("c", "", "}"), ToolCallFragment("c", stop=True)],
            whole("c", "{}"),
            id="name-not-repeated",
        ),
        pytest.param([part("c", "{"), part("", "}"), last("")], whole("c", "{}"), id="no-id-continues"),
        pytest.param(
            [part("", '{"a"'), part("", ":1}"), last("")], [NO_ID, *whole("call_1", '{"a":1}')], id="no-id-at-all"
        ),
        pytest.param(
            [last("", '{"a":1}'), last("", '{"a":2}')],
            [NO_ID, *whole("call_1", '{"a":1}'), NO_ID, *whole("call_2", '{"a":2}')],
            id="two-without-ids",
        ),
        pytest.param(
            [part("", '{"a":1'), part("", '{"b":2}', name="g"), last("c", "[1]"), part("", name="f")],
            [
                NO_ID,
                Notice("tool_call.no_id", "g"),
                Notice("tool_call.wrapped", "f"),
                *whole("c", '{"input":[1]}'),
                NO_ID,
                cut("call_1", '{"a":1'),
                *whole("call_2", '{"b":2}', name="g"),
                cut("call_3", ""),
            ],
            id="another-tool-without-an-id",
        ),
        pytest.param([part("", "{}", name="")], [Notice("tool_call.stray")], id="neither-id-nor-name"),
        pytest.param(
            [part("c", "{", name=""), last("c", "}")],
            [Notice("tool_call.unnamed", "c"), *whole("c", "{}")],
            id="name-comes-late",
        ),
        pytest.param(
            [part("c", "{", name=""), last("c", "}", name="")],
            [Notice("tool_call.unnamed", "c"), malformed("c", "{}", "no tool name", "")],
            id="name-never-comes",
        ),
        pytest.param(
            [part("c", "{", name="")],
            [Notice("tool_call.unnamed", "c"), cut("c", "{", "", "no tool name")],
            id="name-never-comes-nor-the-end",
        ),
        pytest.param([last("c", '{"a":1')], [cut("c", '{"a":1')], id="F196-stop-with-half-the-json"),
        pytest.param([last("c", '{"a":}')], [malformed("c", '{"a":}')], id="F196-malformed"),
        pytest.param([part("c", '{"a":}')], [malformed("c", '{"a":}')], id="malformed-without-a-stop"),
        pytest.param([last("c", "{}{}")], [malformed("c", "{}{}")], id="two-values"),
        pytest.param([last("c", '{"a":NaN}')], [malformed("c", '{"a":NaN}')], id="strict"),
        pytest.param(
            [last("c", '\ufeff{"a":"x\ny",}')],
            [
                Notice("arguments.byte_order_mark", "f"),
                Notice("arguments.control_characters", "f"),
                Notice("arguments.trailing_commas", "f"),
                *whole("c", '{"a":"x\\ny"}'),
            ],
            id="mended",
        ),
        pytest.param([part("c", '{"a":1}')], whole("c", '{"a":1}'), id="F197-no-stop-but-complete"),
        pytest.param([part("c", '{"a":1')], [cut("c", '{"a":1')], id="F197-no-stop"),
        pytest.param([part("c")], [cut("c", "")], id="F197-nothing-came"),
        pytest.param([part("c", "1")], [cut("c", "1", reason="no arguments object")], id="no-stop-may-be-cut"),
        pytest.param(
            [last("c", "[1]")], [Notice("tool_call.wrapped", "f"), *whole("c", '{"input":[1]}')], id="list-is-wrapped"
        ),
        pytest.param(
            [last("c", '"{\\"a\\":1}"')],
            [Notice("tool_call.wrapped", "f"), *whole("c", '{"input":"{\\"a\\":1}"}')],
            id="object-in-a-string-is-wrapped",
        ),
        pytest.param([HI, *AS_KIRO, THOUGHT, SHARE], [HI, *whole("c", '{"a":1}'), THOUGHT, SHARE], id="others-pass"),
        pytest.param([*AS_KIRO, part("c", "x"), last("c")], whole("c", '{"a":1}'), id="F193-fragments-after-the-stop"),
        pytest.param(
            [*AS_KIRO, part("d"), last("d", '{ "a": 1 }')],
            [*whole("c", '{"a":1}'), Notice("tool_call.equal", "f")],
            id="F200-equal",
        ),
        pytest.param(
            [last("c", "{}"), last("d", "{}", name="g")],
            [*whole("c", "{}"), *whole("d", "{}", name="g")],
            id="other-name",
        ),
        pytest.param(
            [part("c", '{"a'), part("d", '{"b'), last("d", '":2}'), last("c", '":1}')],
            [*whole("d", '{"b":2}'), *whole("c", '{"a":1}')],
            id="F198-alternating-in-order-of-ends",
        ),
        pytest.param([part("c", '{"a'), part("d", '{"b')], [cut("c", '{"a'), cut("d", '{"b')], id="several-unfinished"),
    ],
)
def test_complete(deltas: list[Delta], expected: list[Delta]) -> None:
    """A call goes out the moment it is complete, and only then."""
    assert run(ToolCallAssembler(), deltas) == expected
    assert run_apart(ToolCallAssembler(), deltas) == expected


def test_a_call_is_sent_before_what_follows_it() -> None:
    """Emission `complete` does not wait for the end of the answer."""
    assert list(ToolCallAssembler().feed(AS_KIRO)) == whole("c", '{"a":1}')


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param([*AS_KIRO, HI], [HI, *whole("c", '{"a":1}')], id="F209-after-the-text"),
        pytest.param([last("c", "{}"), last("c", '{"a":1}')], whole("c", '{"a":1}'), id="F199-later-is-more-complete"),
        pytest.param([last("c", '{"a":1}'), last("c")], whole("c", '{"a":1}'), id="F199-earlier-is-more-complete"),
        pytest.param([last("c", '{"a'), last("c", '{"a":1}')], whole("c", '{"a":1}'), id="F199-whole-beats-cut"),
        pytest.param([last("c", '{"a'), last("c", "{}")], [cut("c", '{"a')], id="nothing-for-what-was-there"),
        pytest.param([last("c", '{"a'), last("c", "{")], [cut("c", '{"a')], id="cut-once"),
        pytest.param(
            [last("c", '{"a":1}'), last("d", '{"a":1}')],
            [*whole("c", '{"a":1}'), Notice("tool_call.equal", "f")],
            id="F200",
        ),
        pytest.param(
            [part("c", '{"a'), last("d", "{}"), last("c", '":1}')],
            [*whole("c", '{"a":1}'), *whole("d", "{}")],
            id="F201-order-of-first-appearance",
        ),
        pytest.param([part("c", '{"a":1}'), HI], [HI, *whole("c", '{"a":1}')], id="F197-never-stopped"),
    ],
)
def test_end(deltas: list[Delta], expected: list[Delta]) -> None:
    """F209, F439: all calls follow all else, each id once, the best of it."""
    assert run(ToolCallAssembler(emission="end"), deltas) == expected
    assert run_apart(ToolCallAssembler(emission="end"), deltas) == expected


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(AS_KIRO, whole("c", '{"a"', ":1}"), id="fragment-by-fragment"),
        pytest.param([part("c"), last("c")], whole("c", "{}"), id="no-arguments"),
        pytest.param(
            [part("c", " "), part("c", '{"a'), last("c", '":1}')], whole("c", ' {"a', '":1}'), id="leading-blank"
        ),
        pytest.param(
            [part("c", "[1"), last("c", "]")],
            [
                Notice("tool_call.wrapped", "f"),
                *whole("c", '{"input":[1]}'),
            ],
            id="no-object-is-held-and-wrapped",
        ),
        pytest.param(
            [part("c", '{"a'), part("d", '{"b'), last("d", '":2}'), HI, last("c", '":1}'), SHARE],
            [*whole("c", '{"a', '":1}'), *whole("d", '{"b":2}'), HI, SHARE],
            id="F198-one-at-a-time",
        ),
        pytest.param(
            [part("c", '{"a'), part("d", "{"), last("c", '":1}'), HI, part("d", '"b":'), last("d", "2}")],
            [*whole("c", '{"a', '":1}'), *whole("d", '{"b":', "2}"), HI],
            id="F198-the-next-streams-on",
        ),
        pytest.param(
            [part("c", '{"a'), HI, SEAL, SHARE, last("c", '":1}')],
            [
                ToolCallStart("c", "f"),
                ToolInputDelta('{"a'),
                SHARE,
                ToolInputDelta('":1}'),
                ToolCallEnd("c"),
                HI,
                SEAL,
            ],
            id="text-waits-reports-do-not",
        ),
        pytest.param(
            [part("c", '{"a'), HI],
            [ToolCallStart("c", "f"), ToolInputDelta('{"a'), cut("c", '{"a'), HI],
            id="never-ends",
        ),
        pytest.param(
            [part("c", "{"), part("d", '{"b')],
            [cut("c", "{"), cut("d", '{"b')],
            id="waited-in-vain",
        ),
        pytest.param(
            [part("c", "{", name=""), part("c", "}"), last("c")],
            [Notice("tool_call.unnamed", "c"), *whole("c", "{}")],
            id="waits-for-the-name",
        ),
        pytest.param([part("", '{"a"'), last("", ":1}")], [NO_ID, *whole("call_1", '{"a"', ":1}")], id="no-id-at-all"),
        pytest.param([part("", "{", name="")], [Notice("tool_call.stray")], id="neither-id-nor-name"),
        pytest.param([*AS_KIRO, part("c", "x")], whole("c", '{"a"', ":1}"), id="F193-after-the-stop"),
        pytest.param(
            [part("c", '{"a":1'), last("c", ",}")],
            [ToolCallStart("c", "f"), ToolInputDelta('{"a":1'), ToolInputDelta(",}"), malformed("c", '{"a":1,}')],
            id="what-was-sent-is-not-mended",
        ),
        pytest.param(
            [last("c", "[1,]")],
            [
                Notice("arguments.trailing_commas", "f"),
                Notice("tool_call.wrapped", "f"),
                *whole("c", '{"input":[1]}'),
            ],
            id="what-was-held-is-mended",
        ),
    ],
)
def test_incremental(deltas: list[Delta], expected: list[Delta]) -> None:
    """What can go out goes out; calls never overlap each other or text."""
    assert run(ToolCallAssembler(emission="incremental"), deltas) == expected
    assert run_apart(ToolCallAssembler(emission="incremental"), deltas) == expected


AGAIN = [last("c", "{}"), part("c"), part("c", '{"a"'), last("c", ":1}")]
"""A call without arguments, and once more with some, as some services send it."""


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(AGAIN, whole("c", '{"a":1}'), id="F199-complete-after-empty"),
        pytest.param([last("c"), *AGAIN[1:]], whole("c", '{"a":1}'), id="F199-complete-after-nothing"),
        pytest.param([*AGAIN, last("c", "{}")], whole("c", '{"a":1}'), id="F199-empty-after-complete"),
        pytest.param([last("c", "{}"), last("c"), part("c")], whole("c", "{}"), id="empty-again"),
        pytest.param(
            [last("c", "{}"), last("d", '{"b":2}'), *AGAIN[1:]],
            [*whole("c", '{"a":1}'), *whole("d", '{"b":2}')],
            id="F201-in-its-place",
        ),
        pytest.param([last("c", "{}"), last("c", '{"a')], [cut("c", '{"a')], id="never-empty-where-something-was"),
    ],
)
def test_what_comes_after_no_arguments(emission: str, deltas: list[Delta], expected: list[Delta]) -> None:
    """F199: of a call that comes without arguments and once more with some, those count, in every emission."""
    for out in (
        run(ToolCallAssembler(emission=emission), deltas),
        run_apart(ToolCallAssembler(emission=emission), deltas),
    ):
        assert _joined(out) == expected


def _joined(deltas: list[Delta]) -> list[Delta]:
    """*deltas* with the pieces of each call in one; without the beginning of a call that is cut."""
    out: list[Delta] = []
    for delta in deltas:
        if isinstance(delta, ToolInputDelta) and isinstance(out[-1], ToolInputDelta):
            out[-1] = ToolInputDelta(out[-1].json + delta.json)
        elif isinstance(delta, ToolCallCut):
            while out and isinstance(out[-1], ToolCallStart | ToolInputDelta):
                out.pop()
            out.append(delta)
        else:
            out.append(delta)
    return out


@pytest.mark.parametrize("emission", ["complete", "incremental"])
def test_what_follows_a_call_without_arguments_waits(emission: str) -> None:
    """It keeps its place; reports pass, and more than the cap waits for nothing (R18)."""
    stage = ToolCallAssembler(emission=emission, max_bytes=10)
    before = [*stage.feed([HI, last("c", "{}"), THOUGHT, SHARE, HI, SEAL])]
    after = [*stage.feed([A("x" * 10), last("c", '{"a":1}'), last("d", '{"b":2}')])]

    assert [delta for delta in before if not isinstance(delta, ToolCallStart)] == [HI, SHARE]
    assert [delta for delta in after if not isinstance(delta, ToolCallStart)] == [
        *whole("c", "{}")[1:], THOUGHT, HI, SEAL, A("x" * 10), *whole("d", '{"b":2}')[1:]
    ]  # fmt: skip
    assert [*stage.flush()] == []


def test_equal_calls_may_be_kept() -> None:
    """F200: by switch; two equal calls can both be meant."""
    deltas = [last("c", "{}"), last("d", "{}")]

    for emission in EMISSIONS:
        assert run(ToolCallAssembler(emission=emission, drop_equal=False), deltas) == [
            *whole("c", "{}"),
            *whole("d", "{}"),
        ]


def test_refuses_an_unknown_emission() -> None:
    """At construction."""
    with pytest.raises(ConfigError, match="never"):
        ToolCallAssembler(emission="never")


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("piece", ["x" * 30, "é" * 15], ids=["ascii", "two-bytes"])
def test_arguments_are_capped(emission: str, piece: str) -> None:
    """R18: a call that is too large is cut, and the rest of it ignored; the size is in bytes."""
    stage = ToolCallAssembler(emission=emission, max_bytes=100)
    deltas = [part("c", '{"a":"'), *[part("c", piece)] * 10, last("c", '"}'), HI]

    out = run(stage, deltas)

    cuts = [delta for delta in out if isinstance(delta, ToolCallCut)]
    assert [delta.info.reason for delta in cuts] == ["too large"]
    assert 100 < cuts[0].info.size_bytes <= 130
    assert HI in out
    assert not any(isinstance(delta, ToolCallEnd) for delta in out)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_one_fragment_alone_may_be_too_large(emission: str) -> None:
    """R18: also where it opens and ends the call."""
    text = '{"a":"' + "x" * 100 + '"}'

    assert run(ToolCallAssembler(emission=emission, max_bytes=100), [last("c", text)])[-1] == cut(
        "c", text, reason="too large"
    )


def test_text_behind_an_open_call_is_capped() -> None:
    """R18: a call that never ends does not hold the answer back for ever."""
    stage = ToolCallAssembler(emission="incremental", max_bytes=100)
    out = list(stage.feed([part("c", '{"a'), *[A("x" * 60)] * 2]))

    assert out == [ToolCallStart("c", "f"), ToolInputDelta('{"a'), cut("c", '{"a'), *[A("x" * 60)] * 2]


def test_small_fragments_cost_no_more_memory_than_large_ones() -> None:
    """R18: many small fragments are kept as one text, not as many strings."""
    stage = ToolCallAssembler()
    list(stage.feed([part("c", '{"a":"')]))
    tracemalloc.start()
    for _ in stage.feed(part("c", chr(97 + n % 26) + "é"[: n % 2]) for n in range(110_000)):
        pass
    kept, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < 2_000_000


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("calls", [1, 50], ids=["one-call", "fifty-alternating"])
def test_assembling_takes_linear_time(emission: str, calls: int) -> None:
    """R24: more fragments take proportionally longer."""

    def make(size: int) -> Callable[[], object]:
        deltas = [part(f"c{n % calls}", "[") for n in range(size)]
        return lambda: run(ToolCallAssembler(emission=emission), deltas)

    assert_linear(make, 6_000)


OBJECTS = st.dictionaries(
    st.text(max_size=4), st.text(max_size=4) | st.integers() | st.lists(st.text(max_size=2)), max_size=3
)


@given(
    st.lists(OBJECTS, max_size=4),
    st.lists(st.integers(0, 99)),
    st.randoms(use_true_random=False),
    st.sampled_from(EMISSIONS),
)
def test_any_interleaving_gives_every_call(
    objects: list[dict[str, object]], cuts: list[int], random: Random, emission: str
) -> None:
    """F198: fragments of parallel calls, cut and shuffled at will, come together again."""
    queues = []
    for number, value in enumerate(objects):
        raw = json.dumps(value)
        places = sorted({place % (len(raw) + 1) for place in cuts})
        texts = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
        queues.append([*(part(f"c{number}", text) for text in texts), last(f"c{number}")])
    deltas = []
    while queues:
        queue = random.choice(queues)
        deltas.append(queue.pop(0))
        queues = [queue for queue in queues if queue]

    calls: dict[str, str] = {}
    open_call = ""
    for delta in run_apart(ToolCallAssembler(emission=emission, drop_equal=False), deltas):
        match delta:
            case ToolCallStart(call_id):
                assert not open_call
                open_call, calls[call_id] = call_id, ""
            case ToolInputDelta(text):
                calls[open_call] += text
            case ToolCallEnd(call_id):
                assert open_call == call_id
                open_call = ""

    assert {call_id: json.loads(text) for call_id, text in calls.items()} == {f"c{n}": v for n, v in enumerate(objects)}


@given(answers(), st.sampled_from(EMISSIONS))
def test_what_is_no_fragment_passes(deltas: list[Delta], emission: str) -> None:
    """F146: everything else comes out once, text in its order and reports in theirs."""
    out = run_apart(ToolCallAssembler(emission=emission), deltas)

    for kind in {type(delta) for delta in deltas} - {ToolCallFragment, Notice}:
        assert [delta for delta in out if type(delta) is kind] == [delta for delta in deltas if type(delta) is kind]
