"""What the model read on the web, told behind its answer."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.openai_responses.tools import web_search_call
from kiro_asgi.model.events import (
    WEB_SEARCH,
    Appendix,
    Citation,
    Delta,
    Grounding,
    Notice,
    SearchHit,
    ServerCall,
    ServerResult,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ToolCallFragment,
    ToolOutput,
)
from kiro_asgi.model.message import Message, TextBlock, ThinkingBlock, ToolCallBlock, fold
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.stages.citations import WITHOUT_ADDRESS, Citations, CitedPages, Citing, markdown
from kiro_asgi.testing.grammar.events import check_events
from tests.helpers import run, run_apart

A, END = TextDelta("a"), Stop(StopReason.END)
FJORDS, BERGS = SearchHit("Fjords", "https://a.example/f"), SearchHit("Bergs", "http://b.example/")
READ = Grounding(("fjords", "deep ice"), (FJORDS, BERGS))


@pytest.mark.parametrize(
    ("grounding", "language", "expected"),
    [
        pytest.param(Grounding(), "zh", "", id="F319-nothing"),
        pytest.param(Grounding(("峡湾",)), "zh", "\n\n---\n**🔍 已为您搜索:** 峡湾", id="F320-query"),
        pytest.param(
            Grounding(hits=(FJORDS, BERGS)),
            "zh",
            "\n\n**🌐 来源引文:**\n[1] [Fjords](https://a.example/f)\n[2] [Bergs](http://b.example/)",
            id="F321-F323-sources",
        ),
        pytest.param(
            Grounding(("q",), (SearchHit("", ""), SearchHit("T", "ftp://x/"), SearchHit("", "https://c.example"))),
            "zh",
            "\n\n---\n**🔍 已为您搜索:** q\n\n**🌐 来源引文:**\n[1] [网页来源](#)\n[2] [T](#)\n[3] [网页来源](https://c.example)",
            id="F322-defaults",
        ),
        pytest.param(
            READ,
            "en",
            "\n\n---\n**Searched the web for:** fjords, deep ice\n\n**Sources:**\n[1] [Fjords](https://a.example/f)"
            "\n[2] [Bergs](http://b.example/)",
            id="english",
        ),
        pytest.param(
            Grounding(hits=(SearchHit(" a\n[b] \\", "https://a.example/f (g)"), SearchHit("", ""))),
            "en",
            "\n\n**Sources:**\n[1] [a \\[b\\] \\\\](https://a.example/f%20%28g%29)\n[2] [Web page](#)",
            id="nothing-breaks-out-of-its-link",
        ),
    ],
)
def test_the_form(grounding: Grounding, language: str, expected: str) -> None:
    """F316-F323: queries, then sources, numbered from 1; nothing without either."""
    assert markdown(grounding, language) == expected


@given(st.lists(st.builds(SearchHit, st.text(), st.text() | st.text().map("https://".__add__)), min_size=1))
def test_every_source_is_one_line(hits: list[SearchHit]) -> None:
    """Titles and addresses are strangers' words: none ends its link, and the numbers stay right."""
    lines = markdown(Grounding(hits=tuple(hits)), "en").removeprefix("\n\n**Sources:**\n").split("\n")

    assert len(lines) == len(hits)
    for number, line in enumerate(lines, 1):
        assert re.fullmatch(rf"\[{number}\] \[(?:\\.|[^\\\[\]])+\]\([^\s()]+\)", line)


def test_it_comes_last_and_once() -> None:
    """F318: the last report counts, and is told when everything else has been."""
    items: list[Delta] = [Grounding(("early",)), A, READ, A]
    expected = [A, A, Appendix(markdown(READ, "en"))]

    assert run(Citations(Citing()), items) == run_apart(Citations(Citing()), items) == expected


def test_a_hosted_search() -> None:
    """A client that asked for a web search is told of a call and its result; what has no address is no page."""
    call = ServerCall("msg_1", "search", "web_search", {"query": "fjords, deep ice", "queries": ["fjords", "deep ice"]})
    read = Grounding(READ.queries, (*READ.hits, SearchHit("", "")))

    assert run(Citations(Citing("en", "search", "msg_1")), [read]) == [
        call,
        ServerResult(call, ToolOutput((FJORDS, BERGS))),
    ]


def test_a_hosted_search_that_names_no_page() -> None:
    """What was asked is told all the same."""
    call = ServerCall("msg_1", "search", "web_search", {"query": "fjords"})
    read = Grounding(("fjords",))

    assert run(Citations(Citing("zh", "search", "msg_1")), [read]) == [
        call,
        ServerResult(call, ToolOutput(text="\n\n---\n**🔍 已为您搜索:** fjords")),
    ]


def test_citations_without_a_search() -> None:
    """A search that nobody made is not told, whatever the client asked for."""
    read = Grounding(hits=READ.hits)

    assert run(Citations(Citing("en", "search", "msg_1")), [read]) == [Appendix(markdown(read, "en"))]


class Given:
    """Deltas in place of an upstream's decoder."""

    def __init__(self, *deltas: Delta) -> None:
        self.deltas = deltas

    def feed(self, items):
        for _ in items:
            yield from self.deltas

    def flush(self):
        yield from ()


def answered(answer: Answer) -> Message:
    events = [*answer.feed([b""]), *answer.flush()]
    check_events(events)
    return fold(events)


@pytest.mark.parametrize("emission", ["complete", "end", "incremental"])
def test_in_an_answer(emission: str) -> None:
    """F318: it is a text block of its own, behind every other block, whenever calls go out."""
    call = ToolCallFragment("c", "f", "{}", stop=True)
    given = Given(A, READ, SignatureDelta("gemini.call:s"), call, END)
    message = answered(build_pipeline([given], Plan(citing=Citing(), tool_emission=emission)))

    assert message.blocks == (
        TextBlock("a"),
        ThinkingBlock("", "gemini.call:s"),
        ToolCallBlock("c", "f", "{}"),
        TextBlock(markdown(READ, "en")),
    )
    assert message.stop_reason is StopReason.TOOL_CALL


def test_text_and_citations_are_two_blocks() -> None:
    """F318: the model's own text stays as it is."""
    message = answered(build_pipeline([Given(A, END, READ)], Plan(citing=Citing())))

    assert message.blocks == (TextBlock("a"), TextBlock(markdown(READ, "en")))


def test_in_an_answer_with_a_hosted_search() -> None:
    """The pages are told as those of a search that was run on the way."""
    message = answered(build_pipeline([Given(A, READ, END)], Plan(citing=Citing("en", "web_search", "m"))))
    call, result, text = message.blocks[1:]

    assert isinstance(result, ServerResult)
    assert result.call == call
    assert text == TextBlock("Fjords\nhttps://a.example/f\n\nBergs\nhttp://b.example/")


def test_nobody_asked() -> None:
    """Without a plan for it, what was read leaves no trace."""
    assert answered(build_pipeline([Given(A, READ, END)], Plan())).blocks == (TextBlock("a"),)


def test_searches_are_a_list_where_the_api_has_one() -> None:
    """Responses tells each query by itself; one query is a list, too."""
    several = ServerCall("c", "search", WEB_SEARCH, {"query": "a, b", "queries": ["a", "b"]})
    one = ServerCall("c", "search", WEB_SEARCH, {"query": "a"})

    assert [web_search_call(call)["action"]["queries"] for call in (several, one)] == [["a", "b"], ["a"]]


PAGE, FILE = Citation(4, 0, "Fjords", "https://example.org/"), Citation(4, 0, "notes")


def test_only_pages_are_left() -> None:
    """With the text around them, in their order."""
    said: list[Delta] = [TextDelta("deep"), FILE, PAGE, FILE, TextDelta(".")]

    assert run(CitedPages(), said) == [TextDelta("deep"), Notice(WITHOUT_ADDRESS), PAGE, TextDelta(".")]
