"""Neutral values take what is meant, and refuse what cannot be: nothing of ours depends on who made them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi import Settings
from kiro_asgi.model.events import Stop, StopReason
from kiro_asgi.model.prompt import (
    Image,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolChoiceMode,
    ToolResult,
    Turn,
)
from kiro_asgi.stages.cut_answers import candidates
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.manifest import all_of


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (Turn("user", "hi"), Turn(Role.USER, (Text("hi"),))),
        (Turn("assistant", [Text("a"), Text("b")]), Turn(Role.ASSISTANT, (Text("a"), Text("b")))),
        (Turn(Role.USER, (part for part in [Text("a")])), Turn(Role.USER, (Text("a"),))),
        (ToolResult("c", "so"), ToolResult("c", (Text("so"),))),
        (
            Prompt("m", [Turn("user", "hi")], "Be brief."),
            Prompt("m", (Turn(Role.USER, (Text("hi"),)),), ("Be brief.",)),
        ),
        (Prompt("m", tools=[Tool("f")]), Prompt("m", tools=(Tool("f"),))),
        (Sampling(stop="END"), Sampling(stop=("END",))),
        (Sampling(stop=["a", "b"]), Sampling(stop=("a", "b"))),
        (ToolChoice("required"), ToolChoice(ToolChoiceMode.REQUIRED)),
        (Thinking("adaptive"), Thinking(ThinkingMode.ADAPTIVE)),
        (Stop("length"), Stop(StopReason.LENGTH)),
    ],
)
def test_what_is_meant_is_taken(given: object, meant: object) -> None:
    """Equal, and of the same types, so that it is found where those are asked for."""
    assert given == meant
    assert repr(given) == repr(meant)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Turn("system", ()), ValueError, "'system' is no Role; there are 'user', 'assistant'"),
        (lambda: Turn(None, ()), ValueError, "None is no Role"),
        (lambda: Turn([], ()), ValueError, "[] is no Role"),
        (lambda: Turn("user", ["hi"]), TypeError, "Turn.parts[0] must be one of Document, Image, Opaque, "),
        (lambda: Turn("user", [Text("a"), None]), TypeError, "Turn.parts[1] must be one of"),
        (lambda: Turn("user", Text("a")), TypeError, "Turn.parts must be several, such as a list, not Text("),
        (lambda: Turn("user", [type("Mine", (Text,), {})("a")]), TypeError, "Turn.parts[0] must be one of"),
        (
            lambda: ToolResult("c", [ToolResult("d")]),
            TypeError,
            "ToolResult.parts[0] must be one of Document, Image, Op",
        ),
        (lambda: Text(None), TypeError, "Text.text must be text, not None"),
        (lambda: Text(b"bytes"), TypeError, "Text.text must be text, not b'bytes'"),
        (lambda: ToolCallPart(5, "f", {}), TypeError, "ToolCallPart.call_id must be text, not 5"),
        (lambda: ToolCallPart("c", None, {}), TypeError, "ToolCallPart.name must be text, not None"),
        (lambda: ToolResult(None), TypeError, "ToolResult.call_id must be text, not None"),
        (lambda: Tool(5), TypeError, "Tool.name must be text, not 5"),
        (lambda: Prompt(None), TypeError, "Prompt.model must be text, not None"),
        (lambda: Prompt("m", ["hi"]), TypeError, "Prompt.turns[0] must be one of Turn, not 'hi'"),
        (lambda: Prompt("m", system=[5]), TypeError, "Prompt.system[0] must be text, not 5"),
        (lambda: Prompt("m", tools=[{}]), TypeError, "Prompt.tools[0] must be one of Tool, not {}"),
        (lambda: Sampling(stop=[5]), TypeError, "Sampling.stop[0] must be text, not 5"),
        (lambda: ToolChoice("maybe"), ValueError, "'maybe' is no ToolChoiceMode; there are 'auto', 'required',"),
        (lambda: Thinking("yes"), ValueError, "'yes' is no ThinkingMode"),
        (lambda: Stop("why"), ValueError, "'why' is no StopReason"),
        (lambda: evolve(Turn("user", "hi"), role="tool"), ValueError, "'tool' is no Role"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    """Where it is made, and not where it is passed over in silence, or looped over for ever."""
    with pytest.raises(error) as caught:
        make()

    assert words in str(caught.value)


class Foreign:
    """A turn of neither side, as nothing of ours makes one."""

    role = "user"
    parts = (Text("hi"),)
    place = ""

    def content(self) -> tuple[Text, ...]:
        return self.parts


@pytest.mark.parametrize(
    "turns", [[Foreign()], [Foreign(), Turn("user", "a"), Foreign()], [Turn("user", "a"), Foreign()]]
)
def test_no_loop_ends_only_because_a_role_is_one_of_ours(turns: list[Any]) -> None:
    """It was looped over for ever, on the event loop."""
    assert len(candidates(turns)) < 10


CONVERSATION = [
    Turn("user", [Text("look"), Image("image/png", "iVBORw0KGgo=")]),
    Turn("assistant", [Text("so"), ToolCallPart("c", "f", {})]),
    Turn("user", [ToolResult("c", "done")]),
]


@pytest.mark.parametrize("each", list(all_of(Settings())), ids=lambda each: each.name)
def test_every_service_is_asked_alike_whoever_made_the_prompt(each: Any) -> None:
    """With the words for the roles and lists, the same bytes as with ours."""
    strict = tuple(Turn(Role(turn.role.value), tuple(turn.parts)) for turn in CONVERSATION)
    upstream, card = each.make().upstream, ModelCard("claude-sonnet-4-5")
    credential = Credential(CredentialKind.API_KEY, "k", region="us-east-1")
    bodies = {
        upstream.render(Prompt("m", turns, system, (Tool("f"),)), card, credential, "1" * 36).request.body
        for turns, system in ((CONVERSATION, "Be brief."), (strict, ("Be brief.",)))
    }

    assert len(bodies) == 1
