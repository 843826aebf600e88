"""Calls of MCP tools written as XML: ``<mcp__server__tool>{"path": "a"}</mcp__server__tool>``."""

from __future__ import annotations

import re
from typing import Final

from kiro_asgi.stages.excerpt import Form, Word, WrittenCall, is_json
from kiro_asgi.stages.tool_spelling import MCP
from kiro_asgi.wire.json import dumps

__all__ = ["MCP_XML"]


def _closing(head: re.Match[str]) -> Word:
    return Word(f"</{head[1]}>")


def _calls(head: re.Match[str], excerpt: str) -> tuple[WrittenCall]:
    """One call; a body that is neither JSON nor empty is a text: the assembler makes it the member ``input``."""
    body = excerpt[head.end() : -len(head[0]) - 1]
    return (WrittenCall(head[1], body if is_json(body.strip() or "{}") else dumps(body).decode()),)


MCP_XML: Final = Form(
    lead=f"<{MCP}",
    stop=">",
    head=re.compile(rf"<({MCP}[A-Za-z0-9_.-]+)>"),
    closing=_closing,
    calls=_calls,
    suffix="xml",
)
"""The form that some clients' prompts ask for; any name that begins as those of MCP tools do is taken."""
