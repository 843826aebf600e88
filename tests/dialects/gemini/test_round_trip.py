"""What the Gemini upstream writes, this dialect reads as it was meant: two that know the same facts, each by itself."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.gemini.dialect import GeminiApi
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Part,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolChoiceMode,
    ToolResult,
    Turn,
)
from kiro_asgi.model.signatures import CALL, GEMINI, TEXT, marked
from kiro_asgi.upstreams.base import Credential, CredentialKind
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream

UPSTREAM: Final = GeminiUpstream()
MODEL: Final = next(card for card in UPSTREAM.builtin if card.id == "gemini-2.5-pro")
KEY: Final = Credential(CredentialKind.API_KEY, "k")
SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Final = (Tool("f", "Do f.", SCHEMA), Tool("g", "Do g.", {"type": "object", "properties": {}}))

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)
numbers = st.none() | st.floats(0, 1)
arguments = st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts | st.lists(texts), max_size=3)
files = st.sampled_from([Image("image/png", "aGk="), Document("application/pdf", "aGk=")])


def signed(part: str) -> st.SearchStrategy[list[ThinkingPart]]:
    """Google's signature of a *part*, or none."""
    one = st.binary(min_size=1, max_size=9).map(lambda data: marked(GEMINI, part, b64encode(data).decode()))
    return st.lists(one.map(lambda signature: ThinkingPart(signature=signature)), max_size=1)


@st.composite
def turns(draw: st.DrawFn) -> tuple[Turn, ...]:
    """A conversation, the client's last; calls have the ids that the reader gives to those without."""
    found: list[Turn] = []
    results: list[ToolResult] = []
    count = 0
    for _ in range(draw(st.integers(0, 3))):
        found.append(Turn(Role.USER, (*results, *map(Text, draw(st.lists(texts, min_size=1, max_size=2))))))
        said: list[Part] = [Text(draw(texts)), *draw(signed(TEXT))]
        results = []
        for name in draw(st.lists(st.sampled_from(["f", "g"]), max_size=3)):
            count += 1
            said += draw(signed(CALL))
            said.append(ToolCallPart(f"call_{count}", name, draw(arguments)))
            results.append(ToolResult(f"call_{count}", (Text(draw(texts)),), draw(st.booleans())))
        found.append(Turn(Role.ASSISTANT, tuple(said)))
    last = (*results, *map(Text, draw(st.lists(texts, min_size=1, max_size=2))), *draw(st.lists(files, max_size=2)))
    return (*found, Turn(Role.USER, last))


prompts = st.builds(
    Prompt,
    model=st.just(MODEL.id),
    turns=turns(),
    system=st.lists(texts, max_size=1).map(tuple),
    tools=st.just(TOOLS),
    tool_choice=st.sampled_from(
        [
            ToolChoice(),
            ToolChoice(ToolChoiceMode.NONE),
            ToolChoice(ToolChoiceMode.REQUIRED),
            ToolChoice(ToolChoiceMode.NAMED, "g"),
        ]
    ),
    thinking=st.just(Thinking(ThinkingMode.ENABLED, 2048)),
    sampling=st.builds(
        Sampling,
        max_tokens=st.none() | st.integers(4096, 60_000),
        temperature=numbers,
        top_p=numbers,
        top_k=st.none() | st.integers(1, 64),
        stop=st.lists(texts, max_size=3, unique=True).map(tuple),
        seed=st.none() | st.integers(0, 2**31 - 1),
    ),
)


@given(prompts)
def test_a_prompt_comes_back(prompt: Prompt) -> None:
    """Turns, calls with their results, signatures, tools, choice, thinking and sampling."""
    body = UPSTREAM.render(prompt, MODEL, KEY).request.body

    read = GeminiApi(MODEL.id).parse(body).prompt
    assert evolve(read, tool_choice=evolve(read.tool_choice, raw=None)) == prompt
