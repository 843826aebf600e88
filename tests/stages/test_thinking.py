from __future__ import annotations

from collections.abc import Callable, Iterator

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
from kiro_asgi.stages.thinking import (
    MODES,
    SCANS,
    TAGS,
    ThinkingParser,
    ThinkingParseResult,
    ThinkingSplitter,
    ThinkingState,
)
from tests.helpers import run, run_apart
from tests.stages.deltas import answers
from tests.stages.timing import assert_linear

PRE, IN, OUT = ThinkingState.PRE_CONTENT, ThinkingState.IN_THINKING, ThinkingState.STREAMING


def parse(texts: list[str], **options: object) -> tuple[str, str]:
    """All thinking and all answer."""
    parser = ThinkingParser(**options)  # type: ignore[arg-type]
    results = [*map(parser.feed, texts), parser.finalize()]
    return (
        "".join(result.thinking_content or "" for result in results),
        "".join(result.regular_content or "" for result in results),
    )


def order(text: str, **options: object) -> list[tuple[str, str]]:
    """Runs of text (``a``) and thinking (``t``) in order."""
    parser = ThinkingParser(**options)  # type: ignore[arg-type]
    runs: list[tuple[str, str]] = []
    for piece in (*parser.pieces(text), *parser.release()):
        kind = "t" if type(piece) is ThinkingDelta else "a"
        if runs and runs[-1][0] == kind:
            runs[-1] = kind, runs[-1][1] + piece.text
        else:
            runs.append((kind, piece.text))
    return runs


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        pytest.param("<thinking>t</thinking>a", "t", "a", id="F149"),
        pytest.param("<think>t</think>a", "t", "a", id="F150"),
        pytest.param("<reasoning>t</reasoning>a", "t", "a", id="F151"),
        pytest.param("<thought>t</thought>a", "t", "a", id="F152"),
        pytest.param("\n <think>x</think>y", "x", "y", id="F153"),
        pytest.param("<think>a</thinking>b</think>c", "a</thinking>b", "c", id="F154"),
        pytest.param("Hello", "", "Hello", id="F156"),
        pytest.param("<thinking>t</thinking>\n\na\n ", "t", "a\n ", id="F161-white-space-between-goes"),
        pytest.param("<thinking>t \n</thinking> \t\r\n\u2003", "t \n", "", id="F161-nothing-but-white-space"),
        pytest.param("a<thinking>t</thinking>", "", "a<thinking>t</thinking>", id="F162-not-leading"),
        pytest.param("<think>t</think><think>u</think>", "t", "<think>u</think>", id="F162-only-once"),
        pytest.param("<thinking>no end", "no end", "", id="F164-unclosed"),
        pytest.param("<", "", "<", id="F164-lone-bracket"),
        pytest.param("<thinking>t</think", "t</think", "", id="F164-half-closing-tag"),
        pytest.param("<thinkin g>", "", "<thinkin g>", id="no-tag"),
        pytest.param(" " * 20 + "<think>t</think>", "t", "", id="F155-twenty-blanks"),
        pytest.param(" " * 21 + "<think>t</think>", "", " " * 21 + "<think>t</think>", id="F155-one-more"),
        pytest.param("<think></think>a", "", "a", id="empty-section"),
    ],
)
def test_a_leading_section_is_thinking(text: str, thinking: str, answer: str) -> None:
    """In one piece, character by character, and cut once at every place."""
    assert parse([text]) == (thinking, answer)
    assert parse(list(text)) == (thinking, answer)
    for place in range(len(text)):
        assert parse([text[:place], text[place:]]) == (thinking, answer)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "a <think>t</think>\n b\n<think>u</think> \n",
            [("a", "a "), ("t", "t"), ("a", "b\n"), ("t", "u")],
            id="white-space-behind-each",
        ),
        pytest.param("pre<thinking>t</thinking>post", [("a", "pre"), ("t", "t"), ("a", "post")], id="F172"),
        pytest.param("<think>t</think>a<thought>u</thought>", [("t", "t"), ("a", "a"), ("t", "u")], id="several"),
        pytest.param("a `<think>x</think>` b", [("a", "a `<think>x</think>` b")], id="code-span"),
        pytest.param("``a ` <think>`` b", [("a", "``a ` <think>`` b")], id="code-span-of-two"),
        pytest.param("it`s\n<think>t</think>", [("a", "it`s\n"), ("t", "t")], id="stray-back-tick"),
        pytest.param("`a` <think>t</think>", [("a", "`a` "), ("t", "t")], id="behind-a-code-span"),
        pytest.param("```\n<think>\n```\n", [("a", "```\n<think>\n```\n")], id="fence"),
        pytest.param("~~~x\n<think>\n```\n<think>", [("a", "~~~x\n<think>\n```\n<think>")], id="fence-of-tildes"),
        pytest.param("```\nx\n```\n<think>t</think>", [("a", "```\nx\n```\n"), ("t", "t")], id="behind-a-fence"),
        pytest.param("````\n```\n<think>", [("a", "````\n```\n<think>")], id="shorter-fence-does-not-close"),
        pytest.param("```\n```py\n<think>", [("a", "```\n```py\n<think>")], id="fence-with-a-word-does-not-close"),
        pytest.param("    ```\n<think>t</think>", [("a", "    ```\n"), ("t", "t")], id="indented-is-no-fence"),
        pytest.param("a ```\n<think>t</think>", [("a", "a ```\n"), ("t", "t")], id="not-at-the-start-of-a-line"),
        pytest.param("```x``` <think>t</think>", [("a", "```x``` "), ("t", "t")], id="span-that-looks-like-a-fence"),
        pytest.param("```x` <think>", [("a", "```x` <think>")], id="span-that-looks-like-a-fence-and-goes-on"),
        pytest.param("~~~ ~~~\n<think>", [("a", "~~~ ~~~\n<think>")], id="fence-of-tildes-with-more-tildes"),
        pytest.param("~~<think>t</think>", [("a", "~~"), ("t", "t")], id="two-tildes"),
    ],
)
def test_anywhere_a_section_outside_of_code_is_thinking(text: str, expected: list[tuple[str, str]]) -> None:
    """F172, F173: text, thinking and text in order; tags in Markdown code are text; however it is cut."""
    assert order(text, scan="anywhere") == expected
    thinking = "".join(run for kind, run in expected if kind == "t")
    answer = "".join(run for kind, run in expected if kind == "a")
    for place in range(len(text)):
        assert parse([text[:place], text[place:]], scan="anywhere") == (thinking, answer)
    assert parse(list(text), scan="anywhere") == (thinking, answer)


@pytest.mark.parametrize(
    ("mode", "thinking", "answer"),
    [
        pytest.param("as_reasoning_content", "t", "a", id="F166"),
        pytest.param("remove", "", "a", id="F167"),
        pytest.param("pass", "", " <think>t</think>a", id="F168"),
        pytest.param("strip_tags", "", "ta", id="F169"),
    ],
)
def test_modes(mode: str, thinking: str, answer: str) -> None:
    """What becomes of thinking, of its tags, and of the white space behind them."""
    for between in ("", "\n\n", " \t"):
        text = f" <think>t</think>{between}a"
        for place in range(len(text)):
            assert parse([text[:place], text[place:]], mode=mode) == (thinking, answer)
        assert parse(list(text), mode=mode) == (thinking, answer)


@pytest.mark.parametrize(
    "options", [{"mode": "hide"}, {"scan": "end"}, {"tags": ("a b",)}, {"tags": ("",)}, {"tags": ("<x",)}]
)
def test_refuses_options_that_cannot_work(options: dict[str, object]) -> None:
    """F170: a wrong setting fails at start-up."""
    with pytest.raises(ConfigError):
        ThinkingParser(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("texts", "states"),
    [
        pytest.param(
            ["", " ", "<thin", "king>", "t</thin", "king>", "a"], [PRE, PRE, PRE, IN, IN, OUT, OUT], id="section"
        ),
        pytest.param(["  ", "<th", "e", "<thinking>"], [PRE, PRE, OUT, OUT], id="none"),
    ],
)
def test_states(texts: list[str], states: list[ThinkingState]) -> None:
    """F148: the state is seen from outside and only moves forward."""
    parser = ThinkingParser()
    seen = []
    for text in texts:
        parser.feed(text)
        seen.append(parser.state)

    assert seen == states


R = ThinkingParseResult


@pytest.mark.parametrize(
    ("texts", "results"),
    [
        pytest.param(
            ["<think>a", "b", "c</think>d"],
            [R("a", None, True), R("b"), R("c", "d", False, True), R()],
            id="F143-F160-first-and-last",
        ),
        pytest.param(["<think>a</think>b"], [R("a", "b", True, True), R()], id="F161-F163-all-at-once"),
        pytest.param(
            ["<think>a", "</think>"], [R("a", None, True), R(None, None, False, True), R()], id="text-came-before"
        ),
        pytest.param(["<think>a"], [R("a", None, True), R(None, None, False, True)], id="F164-unclosed"),
        pytest.param(["<think>a</"], [R("a", None, True), R("</", None, False, True)], id="F164-held-at-the-end"),
        pytest.param(["<think></think>", "a"], [R(), R(None, "a"), R()], id="nothing-thought"),
        pytest.param(["<thin", "g"], [R(), R(None, "<thing"), R()], id="F157-no-tag-after-all"),
    ],
)
def test_results(texts: list[str], results: list[ThinkingParseResult]) -> None:
    """F143, F163: what each call gives, and where thinking begins and ends; each is flagged once."""
    parser = ThinkingParser()

    assert [*map(parser.feed, texts), parser.finalize()] == results


def test_long_thinking_is_not_held() -> None:
    """F158, F159: the tail that waits is shorter than the closing tag, whatever came before."""
    parser = ThinkingParser()
    parser.feed("<thinking>")
    fed = given = ""
    for piece in ("x" * 50, "<" * 30, "</thinkin", "y", "</thinking"):
        fed += piece
        given += parser.feed(piece).thinking_content or ""
        assert fed.startswith(given)
        assert len(fed) - len(given) < len("</thinking>")


def test_parsers_share_nothing() -> None:
    """F165: one parser an answer."""
    first, second = ThinkingParser(), ThinkingParser()
    first.feed("<thinking>t")

    assert second.feed("a") == R(None, "a")


PIECES = st.lists(
    st.sampled_from(
        [*(f"<{tag}>" for tag in TAGS), *(f"</{tag}>" for tag in TAGS), "<", "a", "\n", " ", "`", "```", "~~~", "é"]
    )
)


@given(PIECES, st.lists(st.integers(0, 300)), st.sampled_from(MODES), st.sampled_from(SCANS))
def test_output_does_not_depend_on_cuts(pieces: list[str], cuts: list[int], mode: str, scan: str) -> None:
    """F157, F158: however a text is cut, the same is thinking and the same is answer."""
    text = "".join(pieces)
    places = sorted({place % (len(text) + 1) for place in cuts})
    parts = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]

    assert parse(parts, mode=mode, scan=scan) == parse([text], mode=mode, scan=scan)


@given(PIECES, st.sampled_from(SCANS))
def test_pass_changes_nothing(pieces: list[str], scan: str) -> None:
    """F168: in `pass` mode the answer is what came in, but for blanks behind a closing tag, which are nobody's."""
    thinking, answer = parse(pieces, mode="pass", scan=scan)
    assert (thinking, "".join(answer.split())) == ("", "".join("".join(pieces).split()))


@pytest.mark.parametrize(
    ("scan", "text", "thinking", "answer"),
    [
        ("open", "I think so\n</think>\n\nHello", "I think so\n", "Hello"),
        ("open", "<thought>so</thought> Hello", "so", "Hello"),
        ("open", "never closed", "never closed", ""),
        ("auto", "I think so\n</think>\n\nHello", "", "I think so\nHello"),
        ("auto", "<think>so</think>Hello </think>", "so", "Hello </think>"),
        ("auto", "write `</think>` at its end</think>!", "", "write `</think>` at its end!"),
        ("auto", "one</think>two</think>", "", "onetwo</think>"),
        ("start", "I think so</think>Hello", "", "I think so</think>Hello"),
    ],
)
def test_a_closing_tag_alone(scan: str, text: str, thinking: str, answer: str) -> None:
    """The template of a model may have written the opening tag; where nobody says so, the closing one goes."""
    assert parse([text], scan=scan, tags=("think", "thought")) == (thinking, answer)
    assert parse([*text], scan=scan, tags=("think", "thought")) == (thinking, answer)


@pytest.mark.parametrize(
    "unit", [" ", "<", "<think", "<thinking></thinking>", "`", "~", "`<think>", "```\n", "a\n"], ids=repr
)
@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("start", ["", "<thinking>"], ids=["answer", "thinking"])
def test_parsing_takes_linear_time(unit: str, scan: str, start: str) -> None:
    """R24: more text takes proportionally longer, one character a call."""

    def make(size: int) -> Callable[[], object]:
        parser = ThinkingParser(scan=scan)
        parser.feed(start)
        return lambda: list(map(parser.feed, (unit * size)[:size]))

    assert_linear(make, 1_500)


def test_a_mebibyte_of_blanks_before_a_tag() -> None:
    """R24, R18: it is given up as text at once, so nothing piles up."""
    parser = ThinkingParser()
    blanks = " " * 2**20

    assert parser.feed(blanks) == R(None, blanks)
    assert parser.feed("<thinking>") == R(None, "<thinking>")


def test_pieces_are_never_empty() -> None:
    """An empty delta would only cost."""
    parser = ThinkingParser(scan="anywhere", mode="pass")
    pieces = [piece for text in ("", "<think>", "</think>", "a") for piece in parser.pieces(text)]

    assert pieces == [TextDelta("<think>"), TextDelta("</think>"), TextDelta("a")]


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
