"""From a prompt to a request as the contract has it.

The contract knows plain text only.  Earlier tool calls and results become lines of text, which stand in front of the
current text unless they are to be told in their own turns.  All texts are sanitised; the hash of a description is that
of the text as the client sent it, so where it holds control characters, what the manifest shows has another hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from attrs import evolve, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Part,
    Prompt,
    Role,
    Text,
    ToolCallPart,
    ToolResult,
    Turn,
)
from kiro_asgi.upstreams.kiro.contract.model import HistoryMessage, MessageContext, Request, UserInputMessage
from kiro_asgi.upstreams.kiro.contract.options import ContractOptions
from kiro_asgi.upstreams.kiro.contract.tools import context, directive, manifest
from kiro_asgi.upstreams.kiro.rules.names import tool_names
from kiro_asgi.upstreams.kiro.rules.texts import Texts
from kiro_asgi.upstreams.rendering import WireNames
from kiro_asgi.wire.json import dumps

__all__ = ["translate"]

RESULTS: Final = "Tool result context:"


@frozen
class _Said:
    """One turn."""

    role: Role
    text: str
    lines: tuple[str, ...] = ()
    """What is told of its tool calls and results."""

    parts: tuple[Part, ...] = ()
    place: str = ""


def translate(prompt: Prompt, model_id: str, options: ContractOptions, notes: Notes) -> Request:
    """The request for *prompt*; *model_id* is the service's name of the model, and *notes* take what is left out."""
    texts = Texts(notes, sanitize=True, reminders=options.strip_system_reminders)
    names = tool_names(Notes())
    for tool in prompt.tools:
        names.wire(tool.name)
    beside = context(prompt, options, notes)
    said = [_said(turn, names, texts, options) for turn in prompt.turns]
    if not said or said[-1].role is Role.ASSISTANT:
        said.append(_Said(Role.USER, options.continue_text if said else ""))
    *earlier, last = said
    told = last.lines if options.inline_tool_context else [line for it in said for line in it.lines]
    content = _paragraphs(
        texts.stripped(_system(prompt, beside, names, options), prompt.system_place),
        "\n".join((RESULTS, *told)) if told else "",
        last.text,
    )
    history = tuple(_history(earlier, inline=options.inline_tool_context))
    return Request(UserInputMessage(content, model_id, options.origin, last.parts), beside, history)


def _system(prompt: Prompt, beside: MessageContext, names: WireNames, options: ContractOptions) -> str:
    base = "\n\n".join(prompt.system)
    listed = manifest(beside.tool_context_manifest, options.description_limit, names)
    demand = directive(prompt.tool_choice, names)
    return _paragraphs(base, listed, demand).strip() if listed or demand else base


def _history(earlier: Iterable[_Said], *, inline: bool) -> Iterator[HistoryMessage]:
    """The turns that have something to say."""
    for said in earlier:
        text = _inline(said) if inline else said.text
        if text.strip() or said.parts:
            yield HistoryMessage(said.role, text, said.parts, said.place)


def _inline(said: _Said) -> str:
    """The lines where they belong: calls behind what the assistant says, results in front of what the user says."""
    told = "\n".join(said.lines)
    return _paragraphs(told, said.text) if said.role is Role.USER else _paragraphs(said.text, told)


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text.strip())


def _said(turn: Turn, names: WireNames, texts: Texts, options: ContractOptions) -> _Said:
    def clean(text: str) -> str:
        return texts.stripped(text, turn.place)

    text = clean("\n".join(part.text for part in turn.parts if isinstance(part, Text) and part.text))
    if not options.drop_tool_events:
        rest = tuple(_cleaned(part, clean) for part in turn.parts if not isinstance(part, Text))
        return _Said(turn.role, text, (), rest, turn.place)
    lines = tuple(clean(line) for line in _lines(turn.parts, names))
    return _Said(turn.role, text, lines, tuple(_attachments(turn.parts)), turn.place)


def _cleaned(part: Part, clean: Callable[[str], str]) -> Part:
    """A result with clean texts; anything else as it is."""
    if not isinstance(part, ToolResult):
        return part
    inner = (evolve(it, text=clean(it.text)) if isinstance(it, Text) else it for it in part.parts)
    return evolve(part, parts=tuple(inner))


def _attachments(parts: Iterable[Part]) -> Iterator[Image | Document]:
    """What text cannot hold, inside results too."""
    for part in parts:
        if isinstance(part, Image | Document):
            yield part
        elif isinstance(part, ToolResult):
            yield from _attachments(part.parts)


def _lines(parts: Iterable[Part], names: WireNames) -> Iterator[str]:
    for part in parts:
        if isinstance(part, ToolCallPart):
            yield f"Tool invoked ({part.call_id}): {names.wire(part.name)}"
        elif isinstance(part, ToolResult):
            yield f"Tool result ({part.call_id}): {_value(part)}"


def _value(result: ToolResult) -> str:
    """The text of a result; JSON of its parts, if it has several or other parts, which are sent beside the text."""
    match result.parts:
        case ():
            return ""
        case (Text(text),):
            return text
    return dumps([_block(part) for part in result.parts]).decode()


def _block(part: Text | Image | Document) -> dict[str, str]:
    return {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": type(part).__name__.lower()}
