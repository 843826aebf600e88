"""Support of every field of a request, of every kind of input item and of every kind of tool.

The documentation's tables are these.  Fields that are refused are refused because of what stands here.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from attrs import frozen


class Fate(Enum):
    """The effect of something that the client sends."""

    HONOURED = "honoured"
    """It has the effect that the API gives it, but for the note."""

    MAPPED = "mapped"
    """It has that effect as far as the service behind can be made to have it."""

    ECHOED = "echoed"
    """The answer repeats it; it has no effect."""

    IGNORED = "ignored"
    """It has no effect, and is not looked at."""

    REFUSED = "refused"
    """The request is an error but at services of the API, which are sent it: leaving it out would give another answer
    than the one asked for."""


@frozen
class Support:
    """The effect of one field or kind, and a note on it."""

    fate: Fate
    note: str = ""


Table = Mapping[str, Support]

_HONOURED: Final = Support(Fate.HONOURED)
_ECHOED: Final = Support(Fate.ECHOED)
_IGNORED: Final = Support(Fate.IGNORED)


def _mapped(note: str) -> Support:
    return Support(Fate.MAPPED, note)


def _honoured(note: str) -> Support:
    return Support(Fate.HONOURED, note)


def _echoed(note: str) -> Support:
    return Support(Fate.ECHOED, note)


def _ignored(note: str) -> Support:
    return Support(Fate.IGNORED, note)


def _refused(note: str) -> Support:
    return Support(Fate.REFUSED, note)


FIELDS: Final[Table] = MappingProxyType(
    {
        "model": _HONOURED,
        "input": _honoured("a text is one message of the user's"),
        "instructions": _honoured("the first system text; not carried over from the previous response"),
        "stream": _HONOURED,
        "stream_options": _ignored("events are never obfuscated"),
        "max_output_tokens": _HONOURED,
        "max_tool_calls": _honoured("of calls that the client does not run; those over it are not run"),
        "temperature": _HONOURED,
        "top_p": _HONOURED,
        "presence_penalty": _mapped("by services that have one"),
        "frequency_penalty": _mapped("by services that have one"),
        "top_logprobs": _echoed("there are no log probabilities"),
        "tools": _mapped("see the kinds of tools"),
        "tool_choice": _mapped("a tool that the vendor's servers would run cannot be demanded"),
        "parallel_tool_calls": _mapped("false is passed to the model"),
        "text": _mapped("the schema is passed to the model; a mismatch is logged; verbosity, to services that know it"),
        "reasoning": _mapped("effort as thinking; a summary that is asked for is the thinking itself"),
        "include": _honoured("reasoning.encrypted_content; the others are ignored"),
        "store": _HONOURED,
        "previous_response_id": _HONOURED,
        "background": _honoured("needs store; over WebSocket it is refused"),
        "conversation": _honoured("made by POST /v1/conversations; not together with previous_response_id"),
        "prompt": _refused("there are no prompt templates here; send instructions and input"),
        "truncation": _honoured(
            "auto: the oldest turns are left out where the input does not fit; else that is an error"
        ),
        "metadata": _honoured("at most 16 entries, keys of 64 and values of 512 characters"),
        "service_tier": _ignored(
            "here; services that have a word for it get it, and the answer has what they say, or default"
        ),
        "user": _mapped("as safety_identifier, where that is not sent"),
        "safety_identifier": _mapped("who the end user is, for upstreams that ask; Kiro does not"),
        "prompt_cache_key": _mapped("names the conversation that the request belongs to"),
        "prompt_cache_retention": _IGNORED,
        "prompt_cache_options": _IGNORED,
        "background_options": _IGNORED,
        "context_management": _honoured("compact_threshold: a longer input is compacted first"),
        "moderation": _IGNORED,
        "access_programs": _IGNORED,
        "image": _IGNORED,
        "client_metadata": _ignored("Codex sends it"),
    }
)
"""Name to support; every other field is ignored."""

ITEM_KINDS: Final[Table] = MappingProxyType(
    {
        "message": _honoured("images and files by value or by address, not by the id of an upload; no audio"),
        "function_call": _honoured("the name of its namespace is put before that of the function"),
        "function_call_output": _HONOURED,
        "custom_tool_call": _mapped("a call with one string"),
        "custom_tool_call_output": _HONOURED,
        "reasoning": _honoured("sealed by others, it becomes its content or summary, if it has one"),
        "item_reference": _honoured("where the item is stored; else it is refused"),
        "local_shell_call": _mapped("a call of a function"),
        "local_shell_call_output": _HONOURED,
        "shell_call": _mapped("a call of a function"),
        "shell_call_output": _mapped("output and exit code in words"),
        "apply_patch_call": _mapped("a call of a function"),
        "apply_patch_call_output": _HONOURED,
        "tool_search_call": _mapped("a call of a function"),
        "tool_search_output": _mapped("the tools are added to those of the request"),
        "additional_tools": _mapped("the tools are added to those of the request"),
        "web_search_call": _mapped("a call with the addresses that were found"),
        "file_search_call": _mapped("a call with the texts that were found"),
        "code_interpreter_call": _mapped("a call with its logs"),
        "image_generation_call": _mapped("a call without the image"),
        "mcp_call": _mapped("a call with its output"),
        "computer_call": _mapped("a call of a function"),
        "computer_call_output": _mapped("the screenshot, by value or by address"),
        "program": _mapped("a call of a function"),
        "program_output": _HONOURED,
        "agent_message": _mapped("its readable parts are the user's; what is sealed is named by a note"),
        "multi_agent_call": _mapped("a call of a function"),
        "multi_agent_call_output": _HONOURED,
        "mcp_list_tools": _IGNORED,
        "mcp_approval_request": _IGNORED,
        "mcp_approval_response": _IGNORED,
        "configuration_update": _IGNORED,
        "compaction": _honoured(
            "of this gateway's own; it stands for all items before it but the user's last messages"
        ),
        "compaction_summary": _honoured("as compaction"),
        "context_compaction": _honoured("as compaction"),
        "compaction_trigger": _honoured("at the end: the answer is a compaction"),
    }
)
"""Kind of input item to support; items of every other kind are ignored."""

_LEFT_OUT: Final = _ignored("run by the vendor's servers: left out, and refused where tool_choice demands it")

TOOL_KINDS: Final[Table] = MappingProxyType(
    {
        "function": _honoured("strict, by services that can be told, for schemas that they can enforce"),
        "custom": _mapped("a function with one string; a grammar is described, not enforced"),
        "namespace": _mapped("a function for each member, with both names"),
        "web_search": _mapped("where the gateway runs searches; only filters.allowed_domains is honoured"),
        "web_search_2025_08_26": _mapped("as web_search"),
        "web_search_preview": _mapped("as web_search"),
        "web_search_preview_2025_03_11": _mapped("as web_search"),
        "local_shell": _mapped("a function; its calls are items of their own kind"),
        "shell": _mapped("as local_shell, where the client runs it; a container of the vendor's is left out"),
        "apply_patch": _mapped("as local_shell"),
        "tool_search": _mapped("as local_shell, where the client runs it; else every tool is shown at once"),
        "file_search": _LEFT_OUT,
        "code_interpreter": _LEFT_OUT,
        "image_generation": _LEFT_OUT,
        "mcp": _LEFT_OUT,
        "computer": _LEFT_OUT,
        "computer_use_preview": _LEFT_OUT,
        "programmatic_tool_calling": _LEFT_OUT,
    }
)
"""Kind of tool to support; tools of every other kind are left out as well."""
