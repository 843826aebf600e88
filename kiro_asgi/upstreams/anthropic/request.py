"""From a prompt to the body of ``POST /v1/messages``.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Part, Prompt, Role, Text, ThinkingPart, ToolResult
from kiro_asgi.upstreams.anthropic.content import Blocks, sayable
from kiro_asgi.upstreams.anthropic.families import Family, listed_family
from kiro_asgi.upstreams.anthropic.form import Form, compiled
from kiro_asgi.upstreams.anthropic.marks import bounded, marked
from kiro_asgi.upstreams.anthropic.reasons import FORM, FORM_UNKNOWN
from kiro_asgi.upstreams.anthropic.sampling import sampling_fields
from kiro_asgi.upstreams.anthropic.searches import told_again
from kiro_asgi.upstreams.anthropic.thinking import length_and_thinking, thinks
from kiro_asgi.upstreams.anthropic.tools import TOOL_NAME, choice, offered, specification
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.exchanges import Draft, exchanges, merged
from kiro_asgi.upstreams.rendering import WireNames, schema_instructions

__all__ = ["FORM_RULES", "Body", "Wording", "document"]

CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")

FORM_RULES: Final[Mapping[str, str]] = MappingProxyType(
    {"healed.output_format": FORM_UNKNOWN, "healed.output_schema": FORM}
)
"""Rule by which a schema is told in words, to the code of the refusal that puts it in force."""

GO_ON: Final = "Continue."
"""What a user says who says nothing."""


@frozen(kw_only=True)
class Wording:
    """What the operator says about requests."""

    version: str
    replay_thinking: bool
    healings: tuple[str, ...] = ()
    """Rules that earlier refusals put in force."""

    custom: bool = False
    """Whether another server than Anthropic's answers: it may not know all of the API, and ignore what it does not."""


@frozen
class Body:
    """A request body, and what is to be known about it."""

    document: dict[str, Any]
    names: WireNames
    """Of tools."""

    notes: Notes
    formed: bool = False
    """Whether the service holds the answer to the client's schema."""


def document(prompt: Prompt, model: ModelCard, wording: Wording, user_id: str = "") -> Body:
    """The request body for *prompt*.

    Args:
        prompt: What is asked.
        model: Of whom.
        wording: What the operator says.
        user_id: Opaque, the same for all requests of a conversation; empty for none.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes, peculiar = Notes(), listed_family(model)
    for rule in wording.healings:
        notes.applies(rule)
    prompt = evolve(prompt, turns=tuple(map(told_again, prompt.turns)))
    names = WireNames(TOOL_NAME, 128, "tools.renamed", notes)
    tools = [specification(tool, names, notes) for tool in offered(prompt, notes)]
    drafts = _conversation(prompt, wording, notes)
    thinking = thinks(prompt, peculiar, _is_resumed(drafts), notes)
    form = _form(prompt, peculiar, wording, notes)
    drafts = _ended(drafts, peculiar.prefilled and not thinking and form is None, notes)
    blocks = Blocks(notes, names, model)
    fields: dict[str, Any] = {"model": model.id, "stream": True}
    fields |= length_and_thinking(prompt, model, peculiar, notes, thinking=thinking)
    fields |= sampling_fields(prompt.sampling, peculiar, wording.version, notes, thinking=thinking)
    optional = {
        "system": _system(prompt, notes, told=form is None or wording.custom),
        "tools": tools,
        "tool_choice": choice(prompt, names) if tools else {},
        "metadata": {"user_id": user_id} if user_id else {},
    }
    if form is not None:
        asked = {"format": {"type": "json_schema", "schema": form.schema}}
        fields["output_config"] = {**fields.get("output_config", {}), **asked}
    fields |= {name: value for name, value in optional.items() if value}
    fields["messages"] = [_message(draft, blocks, notes) for draft in drafts]
    fields = marked(fields, prompt.cache)
    bounded(fields, blocks.marked, notes)
    return Body(fields, names, notes, form is not None and form.exact and not wording.custom)


def _form(prompt: Prompt, peculiar: Family, wording: Wording, notes: Notes) -> Form | None:
    """The schema as the service is asked to obey it; ``None`` where there is none, or it is told in words."""
    if not prompt.schema or not peculiar.formed or FORM_RULES.keys() & set(wording.healings):
        return None
    return compiled(prompt.schema, notes)


def _conversation(prompt: Prompt, wording: Wording, notes: Notes) -> list[Draft]:
    """The turns in strict order, the user's first."""
    ids = WireNames(CALL_ID, 128, "calls.id_changed", notes)
    turns = [*sayable(prompt, notes, replay_thinking=wording.replay_thinking)]
    drafts = merged((draft for draft in exchanges(turns, ids, notes) if _lead_with_thinking(draft, notes)), notes)
    if not drafts:
        notes.applies("turns.empty")
    elif drafts[0].role is Role.ASSISTANT:
        notes.applies("turns.user_first", drafts[0].place)
    else:
        return drafts
    return [Draft(Role.USER, [Text(GO_ON)]), *drafts]


def _lead_with_thinking(draft: Draft, notes: Notes) -> bool:
    """Whether anything is left of *draft* once its thinking stands before what came of it."""
    thinking = [part for part in draft.parts if type(part) is ThinkingPart]
    if not thinking:
        return True
    others = [part for part in draft.parts if type(part) is not ThinkingPart]
    if not others:
        notes.applies("thinking.alone_dropped", draft.place)
    elif type(draft.parts[0]) is not ThinkingPart or type(draft.parts[-1]) is ThinkingPart:
        notes.applies("thinking.first", draft.place)
        draft.parts = [*thinking, *others]
    return bool(others)


def _is_resumed(drafts: list[Draft]) -> bool:
    """Whether the model is in the middle of a turn that does not begin with thinking: it cannot begin to think now."""
    *before, last = drafts
    resumed = bool(before) and last.role is Role.USER and type(last.parts[0]) is ToolResult
    return resumed and type(before[-1].parts[0]) is not ThinkingPart


def _ended(drafts: list[Draft], prefilled: bool, notes: Notes) -> list[Draft]:
    """The last word is the user's, or an assistant's that the model goes on from."""
    last = drafts[-1]
    if last.role is Role.USER:
        return drafts
    said = last.parts[-1]
    if not prefilled or type(said) is not Text:
        notes.applies("turns.prefill", last.place)
        return [*drafts, Draft(Role.USER, [Text(GO_ON)], last.place)]
    if said.text != said.text.rstrip():
        notes.applies("turns.trimmed", last.place)
        last.parts[-1] = Text(said.text.rstrip(), said.cache)
    return drafts


def _message(draft: Draft, blocks: Blocks, notes: Notes) -> dict[str, Any]:
    parts = draft.parts if draft.role is Role.ASSISTANT else [*_plain_errors(draft, notes)]
    return {"role": draft.role.value, "content": [blocks.write(part, draft.place) for part in parts]}


def _plain_errors(draft: Draft, notes: Notes) -> Iterator[Part]:
    """The parts of a user's turn: an error holds nothing but text, and the rest of it stands behind all results."""
    lifted: list[Part] = []
    others: list[Part] = []
    for part in draft.parts:
        if type(part) is not ToolResult:
            others.append(part)
            continue
        texts = tuple(each for each in part.parts if type(each) is Text)
        if part.is_error and texts != part.parts:
            notes.applies("results.attachment_lifted", draft.place)
            lifted += [each for each in part.parts if type(each) is not Text]
            part = evolve(part, parts=texts)
        yield part
    yield from lifted
    yield from others


def _system(prompt: Prompt, notes: Notes, *, told: bool) -> list[dict[str, Any]]:
    texts = [
        marked({"type": "text", "text": text}, prompt.system_marks.get(index, ""))
        for index, text in enumerate(prompt.system)
        if text and not text.isspace()
    ]
    if prompt.schema is not None and told:
        notes.applies("output.schema_told")
        texts.append({"type": "text", "text": "\n\n".join(schema_instructions(prompt.schema))})
    return texts
