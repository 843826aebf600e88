"""Signatures of tool calls, for clients that do not hand them back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import (
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.model.prompt import Image, Part, Prompt, Role, Text, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.signatures import marked
from kiro_asgi.stages.call_signatures import CallSignatures, SignedCall, signature_keys, signed, unsigned_calls
from tests.helpers import run_apart


def seal(name: str) -> str:
    return marked("gemini", "call", name)


def user(*parts: Part) -> Turn:
    return Turn(Role.USER, parts)


def model(*parts: Part) -> Turn:
    return Turn(Role.ASSISTANT, parts)


def call(name: str, **arguments: object) -> ToolCallPart:
    return ToolCallPart(name, "f", arguments)


def lacking(prompt: Prompt) -> tuple[str, ...]:
    """Ids of the calls that want a signature."""
    parts = (prompt.turns[turn].parts[place] for turn, place in unsigned_calls(prompt))
    return tuple(part.call_id for part in parts if isinstance(part, ToolCallPart))


ASKED = user(Text("go on"))
RESULT = user(ToolResult("a"))


def test_each_call_is_known_with_the_signature_before_it() -> None:
    """Only the seal of a call counts, and only for the next call; everything goes on as it came."""
    deltas = [
        SignatureDelta(marked("gemini", "thought", "t")),
        ToolCallStart("a", "f"),
        ToolCallEnd("a"),
        SignatureDelta(seal("s")),
        TextDelta(""),
        ToolCallStart("b", "f"),
        ToolInputDelta('{"a":'),
        ToolInputDelta("1}"),
        ToolCallEnd("b"),
        ToolCallStart("c", "f"),
        SignatureDelta("unmarked"),
        ToolCallStart("d", "f"),
    ]
    stage = CallSignatures()

    assert run_apart(stage, deltas) == deltas
    [found] = stage.found
    assert (found.call_id, found.name, found.signature, "".join(found.pieces)) == ("b", "f", seal("s"), '{"a":1}')


def test_only_who_asked_for_thinking_sees_signatures_of_anything_else() -> None:
    """Without their thinking they are blocks that nobody expects; those of calls are needed all the same."""
    of_text = SignatureDelta(marked("gemini", "text", "t"))
    deltas = [SignatureDelta(seal("s")), ToolCallStart("a", "f"), ToolCallEnd("a"), TextDelta("x"), of_text]

    assert run_apart(CallSignatures(True), deltas) == deltas
    assert run_apart(CallSignatures(False), deltas) == deltas[:-1]


def test_a_signature_of_thinking_that_is_shown_goes_with_it() -> None:
    """Its block is there already; one behind the text would be another."""
    deltas = [ThinkingDelta("hm"), SignatureDelta("a.details:1"), TextDelta("x"), SignatureDelta("a.details:2")]

    assert run_apart(CallSignatures(False), deltas) == deltas[:-1]


def test_only_calls_since_the_user_spoke_need_a_signature() -> None:
    """A result is no word of the user's; what is signed already is not asked for."""
    prompt = Prompt(
        "m",
        (ASKED, model(call("old")), RESULT, ASKED, model(call("a"), call("b")), RESULT, model(Text("x"), call("c"))),
    )
    kept = model(ThinkingPart(signature=seal("s")), call("d"))

    apart = (ASKED, model(ThinkingPart(signature=seal("s"))), model(call("e")), model(call("f")))

    assert lacking(prompt) == ("a", "b", "c")
    assert lacking(Prompt("m", apart)) == ("f",)
    assert lacking(Prompt("m", (ASKED, kept))) == ()
    assert lacking(Prompt("m", (model(call("z")),))) == ("z",)


SAID = (ASKED, model(Text("Let me  look."), call("t:0", path="/", depth=1)), user(ToolResult("t:0", (Text("a"),))))


def remembered(*, system: tuple[str, ...] = ("Be brief.",), turns: tuple[Turn, ...] = SAID) -> set[str]:
    """The key of a call that answers *turns*."""
    made = SignedCall("t:1", "f", seal("s"))
    made.pieces += ['{"b": 2.0, ', '"a": [1, "x"]}']
    [key] = signature_keys([made], Prompt("m", turns, system=system))
    return {key}


def looked_up(
    *, system: tuple[str, ...] = ("Be brief.",), turns: tuple[Turn, ...] = SAID, answer: tuple[Turn, ...] = ()
) -> set[str]:
    """The key under which that call is looked for behind *turns*."""
    answered = answer or (model(Text("So."), call("t:1", a=[1, "x"], b=2)),)
    prompt = Prompt("m", (*turns, *answered, user(ToolResult("t:1"))), system=system)
    return {key for place, key in unsigned_calls(prompt).items() if place[0] >= len(turns)}


def test_a_call_is_known_again_however_its_client_writes_it() -> None:
    """Texts joined or cut, blanks, thinking, the order of members, and numbers as JavaScript writes them."""
    cut = (
        user(Text("go "), Text("on")),
        model(ThinkingPart("hm")),
        model(Text("Let me"), Text(" look.\n")),
        model(call("t:0", depth=1.0, path="/")),
        user(ToolResult("t:0", (Text("a"),))),
    )
    apart = (model(Text("So.")), model(ThinkingPart("hm")), model(call("t:1", b=2.0, a=[1, "x"])))

    assert remembered() == looked_up() == looked_up(turns=cut) == looked_up(answer=apart)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"system": ("Be long.",)}, id="system"),
        pytest.param({"turns": (user(Text("go off")), *SAID[1:])}, id="question"),
        pytest.param({"turns": (ASKED, model(Text("Look."), *SAID[1].parts[1:]), SAID[2])}, id="answer"),
        pytest.param({"turns": (ASKED, model(call("t:0", path="/etc", depth=1)), SAID[2])}, id="arguments-before"),
        pytest.param({"turns": (*SAID[:2], user(ToolResult("t:0", (Text("b"),))))}, id="result"),
        pytest.param({"turns": (user(Image(data="AA=="), Text("go on")), *SAID[1:])}, id="image"),
        pytest.param({"turns": (ASKED, model(Text("Hi.")), *SAID)}, id="turns-before"),
        pytest.param({"turns": SAID[:1]}, id="fewer-turns"),
        pytest.param({"answer": (model(call("t:1", a=[1, "y"], b=2)),)}, id="arguments"),
        pytest.param({"answer": (model(ToolCallPart("t:1", "g", {"a": [1, "x"], "b": 2})),)}, id="tool"),
        pytest.param({"answer": (model(call("t:2", a=[1, "x"], b=2)),)}, id="id"),
    ],
)
def test_a_call_of_another_turn_is_another(other: dict[str, tuple[Turn, ...]]) -> None:
    """The id is the service's choice, and may be that of any call."""
    assert not remembered() & looked_up(**other)


def test_what_was_cut_is_not_remembered() -> None:
    """What the client makes of such arguments is not known."""
    cut = SignedCall("a", "f", seal("s"))
    cut.pieces.append('{"a": ')

    assert signature_keys([cut], Prompt("m", SAID)) == {}


def test_a_signature_is_put_before_its_call_and_nowhere_else() -> None:
    """What the client handed back stays; a call that nobody knows stays without."""
    own = ThinkingPart(signature=seal("own"))
    prompt = Prompt("m", (ASKED, model(Text("x"), call("a"), call("b"), own, call("c"))))

    after = signed(prompt, {(1, 1): seal("1")})

    assert after.turns[1].parts == (
        Text("x"),
        ThinkingPart(signature=seal("1")),
        call("a"),
        call("b"),
        own,
        call("c"),
    )
    assert signed(prompt, {}) is prompt


PARTS = st.one_of(
    st.builds(Text, st.sampled_from("xy")),
    st.builds(call, st.sampled_from("abc")),
    st.builds(ThinkingPart, signature=st.sampled_from(["", "plain", seal("s")])),
    st.builds(ToolResult, st.sampled_from("abc")),
)
TURNS = st.builds(Turn, st.sampled_from(Role), st.lists(PARTS, max_size=4).map(tuple))


@given(st.lists(TURNS, max_size=5).map(tuple))
def test_what_has_been_signed_lacks_nothing(turns: tuple[Turn, ...]) -> None:
    """Given all signatures, no call of the current turn is without; a second time nothing changes."""
    prompt = Prompt("m", turns)
    once = signed(prompt, {place: seal("s") for place in unsigned_calls(prompt)})

    assert unsigned_calls(once) == {}
