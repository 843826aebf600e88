"""A prompt in the service's words.

Source: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.gemini.contents import Contents, skip_missing_signatures
from kiro_asgi.upstreams.gemini.flatten import Copies
from kiro_asgi.upstreams.gemini.generation import generation_config
from kiro_asgi.upstreams.gemini.json_schema import json_schema
from kiro_asgi.upstreams.gemini.models import listed_family
from kiro_asgi.upstreams.gemini.schema import answer_schema
from kiro_asgi.upstreams.gemini.tools import tool_names, written_tools
from kiro_asgi.upstreams.rendering import WireNames, schema_instructions

__all__ = ["CATEGORIES", "Document", "document"]

CATEGORIES: Final = ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT")
"""Kinds of harm with a threshold, without ``HARM_CATEGORY_``."""


@frozen
class Document:
    """A request body, and what is to be known about it."""

    body: dict[str, Any]
    names: WireNames
    notes: Notes


def document(
    prompt: Prompt,
    model: ModelCard,
    *,
    replay_thinking: bool,
    healed: bool,
    threshold: str,
    json_schemas: bool = True,
) -> Document:
    """The request body for *prompt*.

    Args:
        prompt: What is asked.
        model: Of whom.
        replay_thinking: Hand signed thinking of earlier answers back.
        healed: Whether the service refused a signature, or the lack of one.
        threshold: From which probability of harm the service blocks; empty for its own.
        json_schemas: Whether the service takes JSON Schema for the answer, from a model that has it.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes, family = Notes(), listed_family(model)
    if healed:
        notes.applies("healed.signatures")
    if not json_schemas:
        notes.applies("healed.json_schema")
    names, copies = tool_names(notes), Copies()
    tools = written_tools(prompt, names, notes, copies)
    contents = Contents(notes, names, replay_thinking and not healed).write(prompt)
    if family.signs_calls or healed:
        skip_missing_signatures(contents, notes)
    told = prompt.schema is not None and bool(tools) and not family.schema_with_tools
    if told:
        notes.applies("output.schema_told")
    system = [*prompt.system, *(schema_instructions(prompt.schema) if told and prompt.schema is not None else ())]
    body = {
        "systemInstruction": {"parts": parts} if (parts := [{"text": text} for text in system if text]) else {},
        "contents": contents,
        **tools,
        "generationConfig": {
            **generation_config(prompt, model, family, notes),
            **({} if told else _form(prompt, notes, copies, json_schemas=json_schemas and family.json_schema)),
        },
        "safetySettings": [
            {"category": f"HARM_CATEGORY_{category}", "threshold": threshold} for category in CATEGORIES if threshold
        ],
    }
    return Document({key: value for key, value in body.items() if value}, names, notes)


def _form(prompt: Prompt, notes: Notes, copies: Copies, *, json_schemas: bool) -> Mapping[str, Any]:
    """The fields that say which form the answer has, if the client says so."""
    if prompt.schema is None:
        return {}
    if json_schemas:
        name, schema = "responseJsonSchema", json_schema(prompt.schema, notes)
    else:
        name, schema = "responseSchema", answer_schema(prompt.schema, notes, copies)
    return {"responseMimeType": "application/json", **({name: schema} if schema else {})}
