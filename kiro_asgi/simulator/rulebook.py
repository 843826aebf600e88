"""All rules of the simulated service in the order in which they are tried; the first that is broken is the answer."""

from __future__ import annotations

from typing import Final

from kiro_asgi.simulator.attachment_rules import ATTACHMENTS
from kiro_asgi.simulator.body_rules import BODY, LENGTHS
from kiro_asgi.simulator.history_rules import HISTORY, THINKING
from kiro_asgi.simulator.model_rules import MODEL
from kiro_asgi.simulator.rules import ACCESS, Rule
from kiro_asgi.simulator.schema_rules import SCHEMAS
from kiro_asgi.simulator.tool_rules import CALLS, TOOLS

__all__ = ["RULES"]

RULES: Final[tuple[Rule, ...]] = (
    *ACCESS,
    *BODY,
    *HISTORY,
    *MODEL,
    *LENGTHS,
    *TOOLS,
    *SCHEMAS,
    *CALLS,
    *ATTACHMENTS,
    *THINKING,
)
