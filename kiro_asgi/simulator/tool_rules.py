"""What the service refuses about tools, their uses and their results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map, results_of, uses_of
from kiro_asgi.simulator.rules import IMPROPER, Asked, Refusal, Rule

__all__ = ["CALLS", "TOOLS"]

NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
IDENTITY: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

MAX_DESCRIPTION: Final = 10_000
"""Characters."""

MAX_DESCRIPTION_BYTES: Final = 10_240


def only_specifications(asked: Asked) -> bool:
    """Every entry of ``tools`` is a ``toolSpecification``; a ``cachePoint`` among them is refused."""
    return all("toolSpecification" in as_map(item) for item in as_list(asked.conversation.context.get("tools")))


def tool_names_valid(asked: Asked) -> bool:
    """A tool's name starts with a letter and goes on with letters, digits, ``_`` and ``-``, 64 characters at most.

    The older client knows no ``-``; the newer one and the live service do.
    """
    return all(NAME.fullmatch(tool.name) for tool in asked.conversation.tools)


def tool_names_differ(asked: Asked) -> bool:
    """No two tools have the same name, upper and lower case being the same."""
    names = [tool.name.lower() for tool in asked.conversation.tools]
    return len(set(names)) == len(names)


def tool_descriptions_present(asked: Asked) -> bool:
    """A tool has a description that is not blank."""
    return all(tool.description.strip() for tool in asked.conversation.tools)


def tool_descriptions_short(asked: Asked) -> bool:
    """A tool's description has at most 10,000 characters and 10,240 bytes.

    Reports name 9,216 to 10,240 of either; these two are what most gateways live with.
    """
    return all(
        len(tool.description) <= MAX_DESCRIPTION and len(tool.description.encode()) <= MAX_DESCRIPTION_BYTES
        for tool in asked.conversation.tools
    )


def ids_valid(asked: Asked) -> bool:
    """Ids of uses and of results are 1 to 64 letters, digits, ``_`` and ``-``."""
    return all(_fits(IDENTITY, part.get("toolUseId")) for part in (*_uses(asked), *_results(asked)))


def uses_valid(asked: Asked) -> bool:
    """A use has a valid tool name, and an object as its input."""
    return all(_fits(NAME, use.get("name")) and isinstance(use.get("input"), Mapping) for use in _uses(asked))


def keys_named(asked: Asked) -> bool:
    """No key of an input is the empty string, at any depth."""
    return not any("" in part for use in _uses(asked) for part in _objects(use.get("input")))


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, Mapping):
            yield part
            rest += part.values()
        elif isinstance(part, list):
            rest += part


def results_valid(asked: Asked) -> bool:
    """A result has parts, each either text or JSON, and a status of ``success`` or ``error``, if any."""
    return all(
        result.get("status", "success") in ("success", "error")
        and bool(result.get("content"))
        and all(_is_part(as_map(part)) for part in as_list(result.get("content")))
        for result in _results(asked)
    )


def _is_part(part: Mapping[str, Any]) -> bool:
    return len(part) == 1 and ("json" in part or isinstance(part.get("text"), str))


def ids_differ(asked: Asked) -> bool:
    """An id names one use, and is answered by one result, in the whole request.

    That a result may not come twice is well attested.  That a use may not is the rule of Anthropic's own API; whether
    it is the service's, nobody has tried.
    """
    return all(
        len({part["toolUseId"] for part in parts}) == len(parts) for parts in (_uses(asked), _results(asked))
    )  # fmt: skip


def tools_defined(asked: Asked) -> bool:
    """Every tool that was used is on offer, under exactly this name, and some tool is where there are results."""
    offered = {tool.name for tool in asked.conversation.tools}
    return {use["name"] for use in _uses(asked)} <= offered and (bool(offered) or not _results(asked))


def results_match_uses(asked: Asked) -> bool:
    """Every use is answered in the next message, and every result answers a use of the message before."""
    uses: set[str] = set()
    for side, message in asked.conversation.messages:
        if side == "user" and {result["toolUseId"] for result in results_of(message)} != uses:
            return False
        uses = {use["toolUseId"] for use in uses_of(message)}
    return True


def _fits(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _uses(asked: Asked) -> list[Mapping[str, Any]]:
    return [use for message in asked.conversation.assistants for use in uses_of(message)]


def _results(asked: Asked) -> list[Mapping[str, Any]]:
    return [result for message in asked.conversation.users for result in results_of(message)]


BAD_FORMAT: Final = Refusal(400, "Invalid tool use format.", "REQUEST_BODY_INVALID")

TOOLS: Final = (
    Rule(only_specifications, IMPROPER),
    Rule(tool_names_valid, BAD_FORMAT),
    Rule(tool_names_differ, Refusal(400, "Duplicate tool name.", "TOOL_DUPLICATE")),
    Rule(tool_descriptions_present, BAD_FORMAT),
    Rule(tool_descriptions_short, BAD_FORMAT),
)

CALLS: Final = (
    Rule(ids_valid, BAD_FORMAT),
    Rule(uses_valid, BAD_FORMAT),
    Rule(keys_named, BAD_FORMAT),
    Rule(results_valid, BAD_FORMAT),
    Rule(ids_differ, BAD_FORMAT),
    Rule(tools_defined, Refusal(400, "Tools must be defined when the conversation uses them.", "TOOL_CONFIG_MISSING")),
    Rule(
        results_match_uses,
        Refusal(400, "The tool results do not match the tool uses of the previous turn.", "TOOL_USE_RESULT_MISMATCH"),
    ),
)
