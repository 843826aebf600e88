from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import ConfigError
from kiro_asgi.model.events import (
    ContextUsage,
    Delta,
    RedactedThinking,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFragment,
)
from kiro_asgi.stages.thinking import ThinkingSplitter
from tests.helpers import run, run_apart
from tests.stages.deltas import answers

A, T = TextDelta, ThinkingDelta
SEAL, SEALED, FRAGMENT = SignatureDelta("s"), RedactedThinking("AAAA"), ToolCallFragment("c", "f", "{}", True)
END, SHARE = Stop(StopReason.END), ContextUsage(1.0)


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param([A("<think>t</think>a")], [T("t"), A("a")], id="whole"),
        pytest.param([A("<thi"), A("nk>t</th"), A("ink>"), A("a")], [T("t"), A("a")], id="tags-cut"),
        pytest.param([A("a <think>")], [A("a <think>")], id="not-leading"),
        pytest.param([A("<thi"), FRAGMENT, END], [A("<thi"), FRAGMENT, END], id="held-text-before-a-call"),
        pytest.param([A("<thi"), END], [A("<thi"), END], id="held-text-before-the-stop"),
        pytest.param([A("<thi"), SHARE, A("nk>t")], [SHARE, T("t")], id="reports-do-not-interrupt"),
        pytest.param([FRAGMENT, A("<think>t")], [FRAGMENT, A("<think>t")], id="a-call-is-an-answer"),
        pytest.param([A("<think>t"), FRAGMENT, A("u")], [T("t"), FRAGMENT, T("u")], id="a-call-does-not-end-a-section"),
        pytest.param([A("<")], [A("<")], id="F164-end"),
        pytest.param([T("t"), SEAL, A("<think>a")], [T("t"), SEAL, A("<think>a")], id="F176-native-switches-tags-off"),
        pytest.param(
            [A("<think>t"), T("n"), A("a</think>")], [T("t"), T("n"), A("a</think>")], id="native-in-a-section"
        ),
        pytest.param([SEALED, T("t"), A("a")], [SEALED, T("t"), A("a")], id="F146-others-pass"),
    ],
)
def test_splits_text(deltas: list[Delta], expected: list[Delta]) -> None:
    """F146: thinking is told from text, and nothing changes its place."""
    assert run(ThinkingSplitter(), deltas) == expected
    assert run_apart(ThinkingSplitter(), deltas) == expected


NATIVE: list[Delta] = [T("t"), T("u"), SEAL, A("a"), SEALED, T("v"), FRAGMENT, T("w")]


@pytest.mark.parametrize("mode", ["as_reasoning_content", "remove", "strip_tags", "pass"])
def test_the_signature_of_a_call_stays(mode: str) -> None:
    """It proves the call, whatever becomes of thinking; other signatures go with what they prove."""
    others = [SignatureDelta("gemini.thought:s"), SignatureDelta("gemini.text:s")]
    call = [SignatureDelta("gemini.call:s"), FRAGMENT]

    assert (
        run(ThinkingSplitter(mode=mode), [*others, *call]) == (others if mode == "as_reasoning_content" else []) + call
    )


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("as_reasoning_content", NATIVE, id="F166"),
        pytest.param("remove", [A("a"), FRAGMENT], id="F167"),
        pytest.param("strip_tags", [A("t"), A("u"), A("a"), A("v"), FRAGMENT, A("w")], id="F169"),
        pytest.param(
            "pass",
            [
                *map(A, ("<thinking>", "t", "u", "</thinking>", "a", "<thinking>", "v", "</thinking>")),
                FRAGMENT,
                *map(A, ("<thinking>", "w", "</thinking>")),
            ],
            id="F168",
        ),
    ],
)
def test_native_thinking_obeys_the_mode(mode: str, expected: list[Delta]) -> None:
    """Native thinking becomes what thinking between tags would, and its seals go where it is no longer thinking."""
    assert run(ThinkingSplitter(mode=mode), NATIVE) == expected
    assert run_apart(ThinkingSplitter(mode=mode), NATIVE) == expected


def test_refuses_a_wrong_mode() -> None:
    """F170: at construction, not with the first text."""
    with pytest.raises(ConfigError, match="hide"):
        ThinkingSplitter(mode="hide")


@pytest.mark.parametrize(
    "first", [A("a"), A("<think>t</think>\na"), FRAGMENT, T("t")], ids=["text", "section", "call", "native"]
)
def test_steps_aside_once_the_answer_has_begun(first: Delta) -> None:
    """F162: then it hands its input on as it is, without a look at any item."""
    stage = ThinkingSplitter()
    list(stage.feed([first]))
    items: Iterator[Delta] = iter([A("b")])

    assert stage.feed(items) is items


@pytest.mark.parametrize("mode", ["as_reasoning_content", "strip_tags", "pass", "remove"])
@pytest.mark.parametrize("other", [FRAGMENT, Stop(StopReason.END)], ids=["call", "stop"])
def test_nothing_but_white_space_after_a_section_is_no_text(mode: str, other: Delta) -> None:
    """F161: what is followed by a call or by nothing has no answer text; text behind the call keeps its white space."""
    stage = ThinkingSplitter(mode=mode)
    out = run_apart(stage, [A("<think>t</think>"), A("\n"), A("\n "), other, A("\nb")])
    shown = {"as_reasoning_content": [T("t")], "remove": [], "strip_tags": [A("t")]}

    if mode == "pass":
        out, shown["pass"] = out[3:], []
    assert out == [*shown[mode], other, A("\nb")]


@given(answers(), st.sampled_from(["as_reasoning_content", "strip_tags", "pass", "remove"]), st.booleans())
def test_whatever_is_not_text_or_thinking_passes_in_order(deltas: list[Delta], mode: str, anywhere: bool) -> None:
    """F146: fragments, stops and reports are the same ones in the same order."""
    stage = ThinkingSplitter(mode=mode, scan="anywhere" if anywhere else "start")
    touched = (TextDelta, ThinkingDelta, SignatureDelta, RedactedThinking)

    assert [d for d in run_apart(stage, deltas) if not isinstance(d, touched)] == [
        d for d in deltas if not isinstance(d, touched)
    ]
