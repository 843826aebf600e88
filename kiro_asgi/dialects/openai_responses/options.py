"""Options of a Responses request that decide the form of its answer, and fields that the answer repeats.

Source: https://platform.openai.com/docs/api-reference/responses/object
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.dialects.base import ResponseMeta

SEALED: Final = "reasoning.encrypted_content"
"""The one entry of ``include`` that has an effect."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@frozen
class ResponsesOptions:
    """The part of a request that only this dialect understands.

    Fields that carry the name of a field of the request hold it as the client sent it, or as the API fills it in.
    """

    instructions: Any = None
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] = "auto"
    parallel_tool_calls: bool = True
    text: Mapping[str, Any] = field(default=MappingProxyType({"format": MappingProxyType({"type": "text"})}))
    """``format``, always, and ``verbosity`` where it was sent."""

    reasoning: Mapping[str, Any] = _NOTHING
    """``effort`` and ``summary``, where they were sent."""

    include: tuple[str, ...] = ()
    truncation: str = "disabled"
    metadata: Mapping[str, Any] = _NOTHING
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_logprobs: int = 0
    store: bool = True
    background: bool = False
    previous_response_id: str | None = None
    conversation: str | None = None
    """Id of the conversation that the answer becomes part of."""

    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    custom_tools: frozenset[str] = frozenset()
    """Names of tools, as the model calls them, whose calls come back as ``custom_tool_call``: the input is the one
    string of the arguments, under `kiro_asgi.model.prompt.TEXT_INPUT`."""

    client_tools: Mapping[str, str] = _NOTHING
    """Names of tools, as the model calls them, whose calls come back as items of a kind of their own, to that kind:
    ``local_shell_call``, ``shell_call``, ``apply_patch_call`` or ``tool_search_call``; see
    `kiro_asgi.dialects.openai_responses.calls.item_fields`."""

    namespaces: Mapping[str, tuple[str, str]] = _NOTHING
    """Names of tools, as the model calls them, that are in a namespace, to that namespace and their name in it."""

    input_items: tuple[Mapping[str, Any], ...] = ()
    """The input as a list of items: a text has become one message of the user's.  Items that were sent without an id
    have none; `kiro_asgi.dialects.openai_responses.kept.identified` gives them one."""

    compaction: Mapping[str, Any] = _NOTHING
    """``encrypted_content`` and ``usage`` of a compaction that was made before the answer; empty where none was."""

    compact_threshold: int | None = None
    """Tokens of input from which on a compaction is wanted before the answer."""

    compacts: bool = False
    """Whether the answer is a compaction of the input."""

    @property
    def seals_reasoning(self) -> bool:
        """Whether reasoning items carry what proves them, ``encrypted_content``."""
        return SEALED in self.include

    @property
    def summarises_reasoning(self) -> bool:
        """Whether thinking is shown as a summary, because the client asked for one."""
        return isinstance(self.reasoning.get("summary"), str)


def options_of(meta: ResponseMeta) -> ResponsesOptions:
    """The options that travel with *meta*, or the defaults where nobody set any."""
    return meta.options if isinstance(meta.options, ResponsesOptions) else ResponsesOptions()
