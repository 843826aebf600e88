"""What the service refuses about thought signatures.

Source: https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_map
from kiro_asgi.simulator.format import FormatRule, Json
from kiro_asgi.simulator.gemini.reader import contents_of, either, parts_of
from kiro_asgi.simulator.gemini.signatures import SENTINELS, belongs_to_call, is_ours
from kiro_asgi.simulator.question import Question

__all__ = ["SIGNATURES"]


def signatures_unchanged(document: Json, _: Question) -> str:
    """A signature is one that was given, unchanged; that of a call is with that very call, and that of a text is not
    with a call."""
    for part in (part for content in contents_of(document) for part in parts_of(content)):
        signature = either(part, "thoughtSignature")
        if signature is not None and not _fits(signature, as_map(either(part, "functionCall"))):
            return "Corrupted thought signature."
    return ""


def _fits(signature: object, call: Mapping[str, Any]) -> bool:
    if call:
        return signature in SENTINELS or belongs_to_call(signature, call)
    return signature in SENTINELS or is_ours(signature)


def steps_signed(document: Json, question: Question) -> str:
    """With Gemini 3, the first call of every step of the current turn has its signature."""
    if not question.model.startswith("gemini-3"):
        return ""
    contents = contents_of(document)
    began = max((at for at, content in enumerate(contents) if _is_asked(content)), default=-1)
    for at, content in enumerate(contents[began + 1 :], began + 1):
        parts = parts_of(content)
        places = [place for place, part in enumerate(parts) if either(part, "functionCall")]
        if places and not either(parts[places[0]], "thoughtSignature"):
            name = as_map(either(parts[places[0]], "functionCall")).get("name")
            return (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{name}` , position {at + 1}. Please refer to "
                "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
            )
    return ""


def _is_asked(content: Mapping[str, Any]) -> bool:
    """Whether *content* is the user's own, and not only answers to calls."""
    return content.get("role") == "user" and any(not either(part, "functionResponse") for part in parts_of(content))


SIGNATURES: Final[tuple[FormatRule, ...]] = (signatures_unchanged, steps_signed)
