"""Answers and prompts with one of everything, which parts are tried on."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.events import SearchHit, ServerCall, ServerResult, StopReason, ToolOutput, Usage
from kiro_asgi.model.message import (
    Message,
    RedactedThinkingBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from kiro_asgi.model.prompt import (
    Document,
    Image,
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

WORD: Final = "kumquat"
"""A word in the text of each answer and each prompt that has one."""

_SEARCH: Final = ServerCall("search_1", "web_search", "web_search", {"query": WORD})
_FOUND: Final = ToolOutput((SearchHit("Kumquats", "https://example.org/"),))
_USAGE: Final = Usage(input_tokens=11, output_tokens=7)

ANSWERS: Final[tuple[Message, ...]] = (
    Message((TextBlock(f"A {WORD}."),), usage=_USAGE),
    Message((TextBlock(f'“{WORD}” \n\r\u2028\x00\t\\"</script> 🍊'),), StopReason.LENGTH, usage=_USAGE),
    Message((TextBlock(f"{WORD} " * 10_000),), usage=_USAGE),
    Message((ThinkingBlock("Hm.", "c2ln"), RedactedThinkingBlock("c2VhbGVk"), TextBlock(f"A {WORD}.")), usage=_USAGE),
    Message((RefusalBlock(f"No {WORD}."),), StopReason.REFUSAL, usage=_USAGE),
    Message((ToolCallBlock("call_1", "peel", f'{{"what":"{WORD}"}}'),), StopReason.TOOL_CALL, usage=_USAGE),
    Message(
        (TextBlock(f"A {WORD}."), ToolCallBlock("call_1", "peel", "{}"), ToolCallBlock("call_2", "eat", "{}")),
        StopReason.TOOL_CALL,
        usage=_USAGE,
    ),
    Message((_SEARCH, ServerResult(_SEARCH, _FOUND), TextBlock(_FOUND.told), TextBlock(f"A {WORD}.")), usage=_USAGE),
    Message((TextBlock(f"A {WORD}"),), StopReason.STOP_SEQUENCE, ".", usage=_USAGE),
    *(Message((TextBlock(f"A {WORD}."),), reason, usage=_USAGE) for reason in StopReason),
)

_ASKED: Final = Turn(Role.USER, (Text(f"What is a {WORD}?"),), "messages[0]")
_PEEL: Final = Tool("peel", "Peels.", {"type": "object", "properties": {"what": {"type": "string"}}}, place="tools[0]")
_PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

_CALLED: Final = (
    _ASKED,
    Turn(Role.ASSISTANT, (Text("Let me see."), ToolCallPart("call_1", "peel", {"what": WORD})), "messages[1]"),
    Turn(Role.USER, (ToolResult("call_1", (Text("It is peeled."),)),), "messages[2]"),
)

_THOUGHT: Final = (
    _ASKED,
    Turn(Role.ASSISTANT, (ThinkingPart("Hm.", "c2ln"), Text("A fruit.")), "messages[1]"),
    Turn(Role.USER, (Text("And?"),), "messages[2]"),
)


def prompts(model: str) -> tuple[Prompt, ...]:
    """Prompts with one of everything, for *model*."""
    image, link = (
        Image("image/png", _PNG, place="messages[0].content[1]"),
        Image(url="https://example.org/a.png", place="messages[0].content[1]"),
    )
    paper = Document("text/plain", text=f"About the {WORD}.", title="paper.txt", place="messages[0].content[1]")
    return (
        Prompt(model, (_ASKED,)),
        Prompt(model, (_ASKED, Turn(Role.ASSISTANT, (Text("A fruit."),)), _ASKED), ("Be brief.", "Be kind.")),
        Prompt(model, _CALLED, tools=(_PEEL,)),
        Prompt(model, _CALLED),
        *(Prompt(model, (_ASKED,), tools=(_PEEL,), tool_choice=ToolChoice(mode, "peel")) for mode in ToolChoiceMode),
        Prompt(model, _THOUGHT, thinking=Thinking(ThinkingMode.ENABLED, 2048)),
        *(Prompt(model, (Turn(Role.USER, (Text("See."), it), "messages[0]"),)) for it in (image, link, paper)),
        Prompt(model, (_ASKED,), sampling=Sampling(100, 0.5, 0.9, 40, (".",), 1, 0.1, 0.1)),
        Prompt(model, (_ASKED,), schema={"type": "object", "properties": {"what": {"type": "string"}}}),
        Prompt(model, (Turn(Role.USER, (Text(f"“{WORD}” \x00 🍊"),), "messages[0]"),)),
    )
