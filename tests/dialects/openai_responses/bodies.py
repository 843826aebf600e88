"""Request bodies as the official SDK's types allow them, and one as Codex sends it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from openai._types import SequenceNotStr
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from openai.types.responses.tool_param import ToolParam
from typing_extensions import is_typeddict

__all__ = ["CODEX", "any_body", "any_item"]

_TEXTS = st.sampled_from(["c1", "c2", "x", "", "f", "{}", '{"a": 1}', "data:image/png;base64,iVA=", "https://h/i.png"])
_OBJECTS = st.dictionaries(st.sampled_from(["a", "type"]), st.sampled_from([1, "x", None]), max_size=2)
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXTS,
    int: st.integers(-1, 9),
    float: st.floats(-1, 3),
    bool: st.booleans(),
    object: _OBJECTS,
    Any: _OBJECTS,
    NoneType: st.none(),
}


@cache
def of(hint: Any) -> st.SearchStrategy[Any]:
    """JSON values of a type as the SDK's parameters are annotated."""
    origin, args = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        return st.deferred(lambda: _object(hint))
    if origin in (Required, NotRequired):
        return of(args[0])
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, UnionType):
        return st.one_of(*map(of, args))
    if origin is dict:
        return st.dictionaries(st.sampled_from(["a", "b"]), of(args[1]), max_size=2)
    if origin in (list, SequenceNotStr) or (isinstance(origin, type) and issubclass(origin, Iterable)):
        return st.lists(of(args[0]), max_size=3)
    return _SCALARS[hint]


def _object(hint: Any) -> st.SearchStrategy[Any]:
    fields = get_type_hints(hint, include_extras=True)
    required = {name: of(kind) for name, kind in fields.items() if get_origin(kind) is Required}
    optional = {name: of(kind) for name, kind in fields.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional)


any_item = of(ResponseInputItemParam)

_FIELDS = get_type_hints(ResponseCreateParamsBase, include_extras=True)

_LEFT_OUT = ("model", "input", "tools", "background", "conversation", "prompt")
"""Given below, or refused wherever they say something."""

any_body = st.fixed_dictionaries(
    {"model": st.just("m"), "input": st.one_of(st.lists(any_item, max_size=5), _TEXTS)},
    optional={
        "tools": st.lists(of(ToolParam), max_size=4),
        **{name: of(kind) for name, kind in _FIELDS.items() if name not in _LEFT_OUT},
    },
)


CODEX: dict[str, Any] = {
    "model": "claude-sonnet-4-5-20250929",
    "instructions": "You are Codex, a coding agent.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "<permissions>read-only</permissions>"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context/>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Add a file."}]},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Look first."}],
            "encrypted_content": "ours",
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look around."}],
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "name": "exec_command",
            "arguments": '{"cmd":"ls"}',
            "call_id": "call_1",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "README.md"},
        {
            "type": "function_call",
            "name": "view_image",
            "arguments": '{"path":"a.png"}',
            "call_id": "call_2",
        },
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": [{"type": "input_image", "image_url": "data:image/png;base64,iVA="}],
        },
        {
            "type": "custom_tool_call",
            "status": "completed",
            "call_id": "call_3",
            "name": "apply_patch",
            "input": "*** Begin Patch\n*** End Patch\n",
        },
        {"type": "custom_tool_call_output", "call_id": "call_3", "output": "Success."},
        {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "fjords"}},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Thanks."}]},
    ],
    "tools": [
        {
            "type": "function",
            "name": "exec_command",
            "description": "Runs a command.",
            "strict": False,
            "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}},
        },
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edits files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch"'},
        },
        {"type": "web_search", "external_web_access": False},
        {"type": "local_shell"},
        {"type": "image_generation", "output_format": "png"},
        {
            "type": "namespace",
            "name": "mcp__docs",
            "description": "Documentation.",
            "tools": [{"type": "function", "name": "find", "strict": False, "parameters": {"type": "object"}}],
        },
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "stream_options": {"reasoning_summary_delivery": "sequential_cutoff"},
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199f2d2-thread",
    "text": {"verbosity": "low"},
    "client_metadata": {"x-codex-installation-id": "i"},
}
"""A later turn of Codex 0.169, with one of everything that it keeps in its history."""
