"""F039: the tables of the documentation say what the code does."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from openai.types.responses.tool_param import ToolParam

from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.dialects.openai_responses.fields import FIELDS, ITEM_KINDS, TOOL_KINDS, Fate
from kiro_asgi.dialects.openai_responses.items import SUMMARISED
from kiro_asgi.dialects.openai_responses.parsing import parse_value
from kiro_asgi.dialects.openai_responses.shapes import ITEMS, TOOLS, ResponsesBody
from kiro_asgi.dialects.structure import members_of
from kiro_asgi.errors import RequestError
from kiro_asgi.model.understood import understood

TOOL = {"type": "function", "name": "f"}

VALUES: dict[str, Any] = {
    "context_management": [{"type": "compaction", "compact_threshold": 1000}],
    "model": "other",
    "input": "bye",
    "instructions": "be",
    "stream": True,
    "max_output_tokens": 5,
    "max_tool_calls": 5,
    "temperature": 0.5,
    "top_p": 0.5,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "top_logprobs": 5,
    "tools": [{"type": "function", "name": "g"}],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "text": {"format": {"type": "json_object"}},
    "reasoning": {"effort": "high"},
    "include": ["reasoning.encrypted_content"],
    "store": False,
    "previous_response_id": "resp_1",
    "background": True,
    "conversation": "conv_1",
    "prompt": {"id": "pmpt_1"},
    "truncation": "auto",
    "metadata": {"k": "v"},
    "user": "u",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
}
"""For every field that is looked at, a value that is not its default."""


def parse(**more: Any) -> ParsedRequest:
    return parse_value({"model": "m", "input": "hi", "tools": [TOOL], **more})


def words(union: Any) -> set[str]:
    """The ``type`` words of a union of the SDK's parameter types."""
    hints = (get_type_hints(member, include_extras=True).get("type") for member in get_args(union))
    found: list[Any] = [hint for hint in hints if hint is not None]
    while any(get_args(each) for each in found):
        found = [inner for each in found for inner in (get_args(each) or (each,))]
    return {each for each in found if isinstance(each, str)}


def test_every_field_of_the_sdk_is_in_the_table() -> None:
    """A field that the API gains shows up here."""
    assert {*get_type_hints(ResponseCreateParamsBase), "stream"} <= FIELDS.keys()


def test_every_kind_of_the_sdk_is_in_the_tables() -> None:
    """A kind of item or of tool that the API gains shows up here."""
    assert words(ResponseInputItemParam) - ITEM_KINDS.keys() == set()
    assert words(ToolParam) - TOOL_KINDS.keys() == set()


def test_what_is_ignored_is_not_read() -> None:
    """Of the fields, the code knows those that the table does not call ignored, and one of the other API."""
    read = {name for name, handling in FIELDS.items() if handling.fate is not Fate.IGNORED}
    assert {*members_of(ResponsesBody)} == {*read, "messages"}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_has_its_fate(name: str) -> None:
    """What the table says is what a request with the field shows, compared to one without it."""
    fate = FIELDS[name].fate
    if fate is Fate.REFUSED:
        with pytest.raises(RequestError) as caught:
            understood(parse(**{name: VALUES[name]}).prompt, "")
        assert (caught.value.param, caught.value.code) == (name, "unsupported_value")
        return
    plain, other = parse(), parse(**{name: VALUES.get(name, {"any": ["thing"]})})
    asked = (plain.prompt, plain.stream) != (other.prompt, other.stream)
    if fate in (Fate.HONOURED, Fate.MAPPED):
        assert asked or other.options != plain.options
    else:
        assert not asked
        assert (plain.options != other.options) is (fate is Fate.ECHOED)


def test_kinds_of_items() -> None:
    """The code knows the kinds that the table does not call ignored."""
    read = {kind for kind, handling in ITEM_KINDS.items() if handling.fate is not Fate.IGNORED}
    assert read == {*ITEMS.classes, *SUMMARISED}


def test_kinds_of_tools() -> None:
    """The code knows the kinds that the table does not call ignored."""
    read = {kind for kind, handling in TOOL_KINDS.items() if handling.fate is not Fate.IGNORED}
    assert read == set(TOOLS.classes)
