"""Items of tools that we do not run, where an earlier answer of another server holds them.

A call and what it gave are told as a call and its result, so that the model knows what was done.  An item of another
shape is told as far as it makes sense, and one of a kind that is not known is passed over.

Source: https://platform.openai.com/docs/api-reference/responses/object
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.arguments import read_arguments
from kiro_asgi.dialects.hosted import SEARCH_TOOL
from kiro_asgi.dialects.media import read_image
from kiro_asgi.model.prompt import Part, Text, ToolCallPart, ToolResult
from kiro_asgi.wire.members import object_of, objects_of, text_of

__all__ = ["TOLD", "tell"]

Object = Mapping[str, Any]


def tell(item: Object, place: str) -> tuple[Part, ...]:
    """The parts that say what *item* says; none for a kind that is not in `TOLD`.

    Raises:
        RequestError: A screenshot that is no image.
    """
    kind = item.get("type")
    told = TOLD.get(kind) if isinstance(kind, str) else None
    return () if told is None else tuple(told(item, place))


def _done(item: Object, place: str, name: str, arguments: Object, given: Iterable[str]) -> tuple[Part, ...]:
    """A call and its result."""
    call_id = text_of(item, "id") or place
    status = text_of(item, "status")
    text = "\n\n".join(filter(None, given)) or status or "completed"
    return ToolCallPart(call_id, name, arguments), ToolResult(call_id, (Text(text),), status == "failed")


def _web_search(item: Object, place: str) -> Iterable[Part]:
    action = object_of(item.get("action"))
    asked = {name: action[name] for name in ("query", "url", "pattern") if isinstance(action.get(name), str)}
    sources = (text_of(source, "url") for source in objects_of(action.get("sources")))
    return _done(item, place, SEARCH_TOOL.name, asked, ["\n".join(filter(None, sources))])


def _file_search(item: Object, place: str) -> Iterable[Part]:
    found = (f"{text_of(hit, 'filename')}\n{text_of(hit, 'text')}" for hit in objects_of(item.get("results")))
    return _done(item, place, "file_search", {"queries": item.get("queries")}, found)


def _code(item: Object, place: str) -> Iterable[Part]:
    logs = (text_of(output, "logs") for output in objects_of(item.get("outputs")))
    return _done(item, place, "code_interpreter", {"code": item.get("code")}, logs)


def _drawing(item: Object, place: str) -> Iterable[Part]:
    return _done(item, place, "image_generation", {"prompt": item.get("revised_prompt")}, ())


def _mcp(item: Object, place: str) -> Iterable[Part]:
    arguments = read_arguments(text_of(item, "arguments"), f"{place}.arguments")
    return _done(item, place, text_of(item, "name") or "mcp", arguments, [text_of(item, "output")])


def _computer(item: Object, place: str) -> Iterable[Part]:
    actions = item.get("actions") or [item.get("action")]
    return (ToolCallPart(text_of(item, "call_id") or place, "computer", {"actions": actions}),)


def _screenshot(item: Object, place: str) -> Iterable[Part]:
    url = text_of(object_of(item.get("output")), "image_url")
    seen = read_image(url, f"{place}.output.image_url") if url else Text("(a screenshot)")
    return (ToolResult(text_of(item, "call_id"), (seen,)),)


def _program(item: Object, place: str) -> Iterable[Part]:
    return (ToolCallPart(text_of(item, "call_id") or place, "program", {"code": item.get("code")}),)


def _program_output(item: Object, _: str) -> Iterable[Part]:
    return (ToolResult(text_of(item, "call_id"), (Text(text_of(item, "result")),)),)


TOLD: Final = MappingProxyType[str, Callable[[Object, str], Iterable[Part]]](
    {
        "web_search_call": _web_search,
        "file_search_call": _file_search,
        "code_interpreter_call": _code,
        "image_generation_call": _drawing,
        "mcp_call": _mcp,
        "computer_call": _computer,
        "computer_call_output": _screenshot,
        "program": _program,
        "program_output": _program_output,
    }
)
"""Kind of item to its reader."""
