"""``reasoning_details``: gathered, carried as a signature, and handed back as they were."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import AnswerTooLarge, UpstreamRejected
from kiro_asgi.limits import ANSWER_BYTES
from kiro_asgi.model.events import BlockKind, BlockMembers, SignatureDelta, TextDelta, ThinkingDelta, ToolCallFragment
from kiro_asgi.model.prompt import Prompt, Role, Text, ThinkingPart, Turn
from kiro_asgi.model.signatures import DETAILS, marked
from kiro_asgi.model.unread import Unread
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered
from kiro_asgi.upstreams.openai.reasoning import ReasoningDetails, ThinkingSeal, read_details
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from tests.growth import assert_linear
from tests.helpers import run
from tests.upstreams.openai.chunks import DONE, calling, chunk, piece, sse

ROUTER = OpenAIUpstream(name="openrouter", endpoint="https://openrouter.ai/api/v1")
KEY = Credential(CredentialKind.API_KEY, "sk-secret")
CLAUDE = {"format": "anthropic-claude-v1", "index": 0}
GPT = {"format": "openai-responses-v1", "index": 0}
SEALED = {"type": "reasoning.encrypted", "data": "gAAAA==", "id": "rs_1", **GPT}

Details = list[dict[str, Any]]


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": words, **CLAUDE, **more}


def summary(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "reasoning.summary", "summary": words, **GPT, **more}


def gathered(*details: dict[str, Any]) -> Details:
    found = ReasoningDetails()
    for detail in details:
        found.take(detail)
    return found.joined()


STREAMS = [
    pytest.param(
        [text("Let"), text(" me see."), {"type": "reasoning.text", "signature": "EtcB", **CLAUDE}],
        [text("Let me see.", signature="EtcB")],
        id="text whose signature comes last",
    ),
    pytest.param(
        [
            text("one", signature=None),
            text("", signature="s1"),
            text("two", index=1),
            text("", signature="s2", index=1),
        ],
        [text("one", signature="s1"), text("two", signature="s2", index=1)],
        id="two thoughts",
    ),
    pytest.param(
        [text("one", signature="s1"), text("two", signature="s2")],
        [text("one", signature="s1"), text("two", signature="s2")],
        id="two thoughts of one index",
    ),
    pytest.param(
        [summary("**Add"), summary("ing**"), SEALED, summary("then")],
        [summary("**Adding**"), SEALED, summary("then")],
        id="a summary and what is sealed, all of index 0",
    ),
    pytest.param([SEALED, SEALED], [SEALED, SEALED], id="sealed twice"),
    pytest.param([{"type": "novel", "x": [1]}, {}], [{"type": "novel", "x": [1]}, {}], id="of an unknown type"),
]


@pytest.mark.parametrize(("details", "whole"), STREAMS)
def test_pieces_are_joined(details: Details, whole: Details) -> None:
    """By type and index, up to a signature; what is whole stays as it was."""
    assert gathered(*details) == whole
    assert gathered(*whole) == whole


def answer(*values: Any) -> list[Any]:
    found = run(_decoder(), [sse(*values) + DONE])
    return [each for each in found if isinstance(each, TextDelta | ThinkingDelta | SignatureDelta | ToolCallFragment)]


def _decoder() -> Any:
    (stage,) = ROUTER.decoder("text/event-stream")
    return stage


def said(*details: dict[str, Any]) -> Any:
    return chunk({"content": "", "reasoning": "x", "reasoning_details": [*details]})


@pytest.mark.parametrize(
    "after", [chunk({"content": "Hi"}), calling(piece(0, "c", "f", "{}")), chunk({"refusal": "No"})]
)
def test_the_signature_stands_before_what_comes_of_the_thinking(after: Any) -> None:
    """All entries so far are one; of those that come later there is another."""
    first, second = [text("one", signature="s1")], [text("two", index=1, signature="s2")]
    found = answer(said(*first), after, said(*second), chunk(finish="stop"))
    signatures = [each for each in found if isinstance(each, SignatureDelta)]

    assert found[:2] == [ThinkingDelta("x"), signatures[0]]
    assert [read_details(each.signature, "openrouter") for each in signatures] == [first, second]


def rendered(upstream: OpenAIUpstream, *parts: Any) -> Rendered:
    turns = (Turn(Role.USER, (Text("a"),)), Turn(Role.ASSISTANT, parts), Turn(Role.USER, (Text("b"),)))
    return upstream.render(Prompt("m", turns), ModelCard("m"), KEY)


@pytest.mark.parametrize(("details", "whole"), STREAMS)
@pytest.mark.parametrize("late", [False, True])
def test_they_go_back_as_they_were(details: Details, whole: Details, late: bool) -> None:
    """Also where the last piece came when the answer had begun."""
    begun = details[:-1] if late else details
    found = answer(*map(said, begun), chunk({"content": "Hi"}), *map(said, details[len(begun) :]), chunk(finish="stop"))
    thoughts = [ThinkingPart("x", each.signature) for each in found if isinstance(each, SignatureDelta)]

    message = rendered(ROUTER, *thoughts, Text("Hi")).document["messages"][1]
    assert message == {"role": "assistant", "content": "Hi", "reasoning_details": whole}


@pytest.mark.parametrize(
    ("upstream", "signature"),
    [
        pytest.param(OpenAIUpstream(name="other", endpoint="https://example.org/v1"), None, id="another service"),
        pytest.param(OpenAIUpstream(), None, id="openai"),
        pytest.param(evolve(ROUTER, replay_thinking=False), None, id="switched off"),
        pytest.param(ROUTER, marked("openrouter", DETAILS, "%%%"), id="no base64"),
        pytest.param(ROUTER, marked("openrouter", DETAILS, "WzFd"), id="no objects"),
        pytest.param(ROUTER, marked("openrouter", DETAILS, "eyJhIjox"), id="no json"),
        pytest.param(ROUTER, marked("openrouter", DETAILS, "é"), id="no ascii"),
    ],
)
def test_nobody_else_gets_them(upstream: OpenAIUpstream, signature: str | None) -> None:
    """That they were left out is noted."""
    found = answer(said(text("one")), chunk({"content": "Hi"}), chunk(finish="stop"))
    signature = signature or next(each.signature for each in found if isinstance(each, SignatureDelta))
    request = rendered(upstream, ThinkingPart("x", signature), Text("Hi"))

    assert request.document["messages"][1] == {"role": "assistant", "content": "Hi"}
    assert [note.rule for note in request.notes] == ["thinking.dropped"]


DETAIL = st.fixed_dictionaries(
    {"type": st.sampled_from(["reasoning.text", "reasoning.summary", "reasoning.encrypted", "novel", None, 1])},
    optional={
        "text": st.text(max_size=3) | st.none() | st.integers(),
        "summary": st.text(max_size=3),
        "data": st.text(max_size=3),
        "signature": st.none() | st.text(max_size=3),
        "index": st.integers(0, 2),
    },
)


@given(st.lists(DETAIL, max_size=8), st.integers(0, 8))
def test_whatever_comes_is_carried(details: Details, place: int) -> None:
    """However the list is cut by the beginning of the answer, it goes back as one that was not."""
    chunks = [*map(said, details[:place]), chunk({"content": "Hi"}), *map(said, details[place:])]
    found = answer(*chunks, chunk(finish="stop"))
    carried = [read_details(each.signature, "openrouter") for each in found if isinstance(each, SignatureDelta)]

    assert gathered(*(detail for each in carried for detail in each)) == gathered(*details)


def test_the_work_is_linear() -> None:
    """In the number of pieces."""
    assert_linear(lambda size: lambda: gathered(*[text("hm")] * size), 500)


def test_what_is_kept_is_bounded() -> None:
    """As of any answer."""
    found = ReasoningDetails()
    with pytest.raises(AnswerTooLarge):
        for _ in range(5):
            found.take(text("x" * (ANSWER_BYTES // 4)))


def test_a_service_that_refuses_them_is_asked_without() -> None:
    """Some send what they do not take; thinking that nobody has signed goes back all the same."""
    signature = marked("openrouter", DETAILS, "W3sidHlwZSI6Im5vdmVsIn1d")
    first = rendered(ROUTER, ThinkingPart("x", signature), ThinkingPart("y"), Text("Hi"))
    assert first.document["messages"][1]["reasoning_details"] == [{"type": "novel"}]
    error = UpstreamRejected("messages.1.reasoning_details: Extra inputs are not permitted")
    adapted = ROUTER.adapt_after_error(error, first)

    assert adapted is not None
    again = rendered(adapted, ThinkingPart("x", signature), ThinkingPart("y"), Text("Hi"))
    assert adapted.adapt_after_error(error, again) is None
    assert again.document["messages"][1] == {"role": "assistant", "content": "Hi", "reasoning_content": "y"}
    assert "adapted.reasoning" in [note.rule for note in again.notes]


# ``reasoning_opaque``.


@pytest.mark.parametrize("member", ["reasoning_text", "reasoning_content", "reasoning"])
@pytest.mark.parametrize("text", ["I think", ""])
@pytest.mark.parametrize("beside", [{"content": "Hi"}, {}])
def test_what_is_sealed_beside_thinking_goes_back_with_it(member: str, text: str, beside: dict[str, str]) -> None:
    """Under the names that the server has for both, from a client that knows a signature only."""
    found = answer(chunk({member: text}), chunk({**beside, "reasoning_opaque": "OPAQUE"}), chunk(finish="stop"))
    [signature] = [each.signature for each in found if isinstance(each, SignatureDelta)]
    message = rendered(ROUTER, ThinkingPart(text, signature), Text("Hi")).document["messages"][1]

    assert [type(each) for each in found][: len(text) and 2] == [ThinkingDelta, SignatureDelta][: len(text) and 2]
    thinking = {member: text} if text else {}
    assert message == {"role": "assistant", "content": "Hi", **thinking, "reasoning_opaque": "OPAQUE"}


def test_no_other_service_gets_what_is_sealed_beside_thinking() -> None:
    """Nor one that was changed."""
    signature = ThinkingSeal("OPAQUE", "reasoning_text").pack("another")
    for each in (signature, ThinkingSeal("OPAQUE").pack("openrouter")[:-3] + "x"):
        message = rendered(ROUTER, ThinkingPart("x", each), Text("Hi"))
        assert message.document["messages"][1] == {"role": "assistant", "content": "Hi"}
        assert "thinking.dropped" in [note.rule for note in message.notes]


def test_what_is_sealed_and_no_text_is_only_handed_on() -> None:
    """To clients of the API, who may know it."""
    (stage,) = ROUTER.decoder("text/event-stream")
    said = [sse(chunk({"reasoning_opaque": {"a": 1}}), chunk({"content": "Hi"}), chunk(finish="stop")), DONE]
    found = run(stage, said)

    assert not [each for each in found if isinstance(each, SignatureDelta)]
    assert BlockMembers(BlockKind.THINKING, Unread("openai_chat", {"reasoning_opaque": {"a": 1}})) in found
