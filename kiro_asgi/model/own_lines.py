"""Lines that clients put before their system text for the service of their own vendor, which takes them out.

They mean nothing to a model, differ from request to request, so that no cache of a prompt holds, and other services
refuse them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

BEGINNINGS: Final = MappingProxyType({"x-anthropic-billing-header:": "anthropic"})
"""How a line begins, and the API whose vendor's own service takes it out.

Claude Code writes this one.  Codex, gemini-cli, opencode and pi write what they have for their vendor into headers and
members of the body.

Source: https://code.claude.com/docs/en/llm-gateway-protocol
"""

RULE: Final = "system.attribution"


def own_line(text: str) -> str:
    """The line at the beginning of *text* that is for the client's vendor, without its end; empty for none."""
    begins = text.lstrip()[:_LONGEST].lower()
    if not begins.startswith(tuple(BEGINNINGS)):
        return ""
    return text[: len(text) - len(text.lstrip())] + text.lstrip().partition("\n")[0]


def without_own_line(text: str) -> str:
    """*text* without that line."""
    line = own_line(text)
    return text[len(line) :].removeprefix("\n") if line else text


_LONGEST: Final = max(map(len, BEGINNINGS))
