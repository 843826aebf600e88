"""Signatures of tool calls, for clients that do not hand them back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import SignatureDelta, TextDelta, ThinkingDelta, ToolCallEnd, ToolCallStart
from kiro_asgi.model.prompt import Part, Prompt, Role, Text, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.signatures import marked
from kiro_asgi.stages.call_signatures import CallSignatures, signed, unsigned_calls
from tests.helpers import run_apart


def seal(name: str) -> str:
    return marked("gemini", "call", name)


def user(*parts: Part) -> Turn:
    return Turn(Role.USER, parts)


def model(*parts: Part) -> Turn:
    return Turn(Role.ASSISTANT, parts)


def call(name: str) -> ToolCallPart:
    return ToolCallPart(name, "f", {})


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
        ToolCallEnd("b"),
        ToolCallStart("c", "f"),
        SignatureDelta("unmarked"),
        ToolCallStart("d", "f"),
    ]
    stage = CallSignatures()

    assert run_apart(stage, deltas) == deltas
    assert stage.found == {"b": seal("s")}


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

    assert unsigned_calls(prompt) == ("a", "b", "c")
    assert unsigned_calls(Prompt("m", apart)) == ("f",)
    assert unsigned_calls(Prompt("m", (ASKED, kept))) == ()
    assert unsigned_calls(Prompt("m", (model(call("z")),))) == ("z",)


def test_a_signature_is_put_before_its_call_and_nowhere_else() -> None:
    """What the client handed back stays; a call that nobody knows stays without."""
    own = ThinkingPart(signature=seal("own"))
    prompt = Prompt("m", (ASKED, model(Text("x"), call("a"), call("b"), own, call("c"))))

    after = signed(prompt, {"a": seal("1"), "c": seal("3"), "q": seal("4")})

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
    known = {name: seal(name) for name in "abc"}
    once = signed(Prompt("m", turns), known)

    assert unsigned_calls(once) == ()
    assert signed(once, known) == once
