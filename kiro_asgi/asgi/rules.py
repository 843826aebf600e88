"""Adaptations that the gateway makes for every service; the rules of each service are its upstream's."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.notes import Loss, Rule

HOSTED_DROPPED: Final = "tools.hosted_dropped"
CUT_ANSWER: Final = "recovery.cut_answer"
UNCITED: Final = "citations.unavailable"
OLDEST_DROPPED: Final = "turns.oldest_dropped"
PHASE: Final = "phase.unavailable"
VERBOSITY: Final = "verbosity.unavailable"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        HOSTED_DROPPED,
        "A hosted tool that neither the service nor the gateway has is left out; a demand for a call of it is refused.",
        Loss.CONTENT,
        "kiro_asgi.asgi.server_tools",
    ),
    Rule(
        UNCITED,
        "That the answer shall cite documents or search results is left out where the service cites none.",
        Loss.CONTENT,
        "kiro_asgi.asgi.models",
    ),
    Rule(
        PHASE,
        "That an earlier text was commentary, or the final answer, is left out where the service cannot be told.",
        Loss.FORM,
        "kiro_asgi.asgi.models",
    ),
    Rule(
        VERBOSITY,
        "How long the answer shall be is left out where the service cannot be told.",
        Loss.CONTENT,
        "kiro_asgi.asgi.models",
    ),
    Rule(
        OLDEST_DROPPED,
        "The oldest turns are left out where the client allows that and the conversation does not fit the model.",
        Loss.CONTENT,
        "kiro_asgi.asgi.translated",
    ),
    Rule(
        CUT_ANSWER,
        "The model is told that an earlier answer of its own was cut.",
        Loss.NONE,
        "kiro_asgi.asgi.memory",
    ),
)
