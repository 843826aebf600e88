"""What the stages of a gateway answer are to do, from the request and the settings."""

from __future__ import annotations

from functools import partial
from typing import Final

from attrs import evolve

from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.config import Settings, ToolSettings
from kiro_asgi.model.prompt import ThinkingMode, ToolCallPart, ToolChoice, ToolChoiceMode
from kiro_asgi.model.server_tools import WEB_SEARCH
from kiro_asgi.stages.answer import Plan
from kiro_asgi.stages.arguments import USUAL, parse_names
from kiro_asgi.stages.citations import Citing
from kiro_asgi.stages.parts.argument_text import MENDINGS
from kiro_asgi.stages.repairs import Repairs
from kiro_asgi.stages.thinking import KEPT

__all__ = ["early_commit", "first_event_timeout", "plan_answer"]

_TOKENS_A_SECOND: Final = 4000
"""Of a prompt that a model reads, at least."""

_BYTES_A_TOKEN: Final = 4

_GRACE: Final = 1.0
"""Seconds between a try's time-out and the commit that would hide it."""


_TOKEN: Final = 24
"""Random characters at the end of an answer's id."""


def plan_answer(exchange: Exchange, settings: Settings) -> Plan:
    """The plan for every try at one exchange."""
    prompt, manner = exchange.inquiry.prompt, exchange.manner
    thinking, tags = _thinking(exchange)
    return Plan(
        thinking=thinking,
        thinking_tags=tags,
        thinking_omitted=prompt.thinking.omitted,
        thinking_scan=manner.thinking_scan,
        stop=exchange.rendered.stop,
        max_tokens=exchange.rendered.max_tokens,
        tool_emission=_tool_emission(exchange, settings),
        drop_equal_tool_calls=manner.drop_equal_tool_calls,
        call_id_stem=f"call_{exchange.asked.heading.id[-_TOKEN:]}",
        drop_repeated_text=manner.drop_repeated_text,
        mendings=tuple(name for name in MENDINGS if name not in settings.tools.repairs_off),
        tool_input_bytes=settings.limits.tool_input_bytes,
        answer_bytes=settings.limits.answer_bytes,
        kept_whole=_kept_whole(exchange, settings),
        tool_names=exchange.rendered.tool_names,
        repairs=_repairs(exchange, settings.tools),
        server_tools=exchange.toolbox.kinds(prompt),
        citing=_citing(exchange, settings),
        cites_pages_only=exchange.upstream.traits.cites and exchange.asked.dialect.traits.cites_pages_only,
        fingerprint=settings.recovery.enabled,
        keep_call_signatures=exchange.upstream.traits.signs_calls,
        other_signatures=prompt.thinking.wanted,
        lead_in=settings.stream.lead_in,
        tool_choice=_tool_choice(exchange),
        input_tokens=exchange.input_tokens,
        context_window=exchange.model.context_window,
        estimator=exchange.estimator,
        output_factor=exchange.output_factor,
        language=settings.stream.language if prompt.schema is None else "",
        schema=prompt.schema,
        stages=tuple(partial(make, prompt) for make in exchange.asked.stages) if exchange.asked.stages else (),
        schema_enforced=not _streams_unchecked(exchange, settings),
    )


def first_event_timeout(exchange: Exchange) -> float:
    """Seconds from asking the upstream to its first event: longer prompts take longer to read, thinking to begin."""
    manner, wanted = exchange.manner, exchange.inquiry.prompt.thinking.wanted
    seconds = manner.first_event_timeout + _tokens(exchange) // _TOKENS_A_SECOND
    return max(seconds, manner.thinking_first_event_timeout) if wanted else seconds


def _tokens(exchange: Exchange) -> int:
    """Estimated size of the prompt; of one that was not read, by its bytes, and no more than the model could read."""
    if exchange.passed is None:
        return exchange.input_tokens
    return min(len(exchange.passed.glance.body) // _BYTES_A_TOKEN, exchange.model.context_window)


def early_commit(exchange: Exchange, settings: Settings) -> float:
    """Seconds after which the head goes out without an event; 0 for never.

    A first try that may not even take that long keeps its status: only what comes after it is committed early.
    """
    after, timeout = settings.stream.early_commit_after, first_event_timeout(exchange)
    return after if not after or after < timeout else max(after, timeout + _GRACE)


def _repairs(exchange: Exchange, tools: ToolSettings) -> Repairs:
    """For the client's own tools: the arguments of hosted ones are not its business."""
    prompt = exchange.inquiry.prompt
    schemas = {tool.name: tool.schema for tool in prompt.tools if not tool.hosted}
    if not schemas:
        return Repairs()
    return Repairs(
        schemas=schemas,
        aliases=exchange.rendered.tool_names,
        renames=(*parse_names(tools.parameter_names), *(USUAL if tools.remap_arguments else ())),
        twins=tools.remap_arguments,
        decode=tools.repair_encoding,
        drop_unknown=tools.filter_unknown,
        mcp_bridge=tools.mcp_bridge,
        spelling=tools.fuzzy_names,
        leaked_calls=tools.leaked_calls,
        call_ids=frozenset(
            part.call_id for turn in prompt.turns for part in turn.parts if isinstance(part, ToolCallPart)
        ),
    )


def _tool_emission(exchange: Exchange, settings: Settings) -> str:
    """What goes out in one piece has no use for pieces of calls, and none for half a call."""
    emission, streamed = settings.stream.tool_emission, exchange.inquiry.stream and not settings.stream.synthetic
    return emission if streamed or emission != "incremental" else "complete"


def _kept_whole(exchange: Exchange, settings: Settings) -> bool:
    """Whether nothing goes out before the end, or the API repeats everything there."""
    return not exchange.inquiry.stream or settings.stream.synthetic or exchange.asked.dialect.traits.repeats_answers


def _streams_unchecked(exchange: Exchange, settings: Settings) -> bool:
    """Whether text that is to be JSON goes out before it is known to be."""
    streams = exchange.inquiry.stream and not settings.stream.synthetic
    return streams and (exchange.rendered.formed or settings.structured.streaming == "unchecked")


def _citing(exchange: Exchange, settings: Settings) -> Citing | None:
    """Behind an answer that is to be a JSON object nothing may stand."""
    prompt = exchange.inquiry.prompt
    if not exchange.upstream.traits.grounds or prompt.schema is not None:
        return None
    search = next((tool.name for tool in prompt.tools if tool.hosted == WEB_SEARCH), "")
    return Citing(settings.stream.language, search, exchange.asked.heading.id, _is_search_demanded(exchange))


def _is_search_demanded(exchange: Exchange) -> bool:
    """Whether the service tells of its searches behind an answer, and the answer has to rest on one."""
    prompt = exchange.inquiry.prompt
    if not (exchange.upstream.traits.grounds and prompt.tool_choice.demanded):
        return False
    return all(tool.hosted == WEB_SEARCH for tool in prompt.tools if prompt.tool_choice.permits(tool.name))


def _tool_choice(exchange: Exchange) -> ToolChoice:
    """What the answer is held to; of a search behind JSON nothing can be told, so that none is demanded."""
    prompt = exchange.inquiry.prompt
    choice = prompt.tool_choice
    if prompt.schema is None or not _is_search_demanded(exchange):
        return choice
    return evolve(choice, mode=ToolChoiceMode.AUTO, allowed=choice.permitted)


def _thinking(exchange: Exchange) -> tuple[str, tuple[str, ...]]:
    """What becomes of thinking, and the names of the tags that hold some.

    Tags count where thinking was asked for, or where the operator says that models of this service write them; which
    models have thinking of their own is only what a table knows.  Thinking that was declined is dropped.
    """
    wanted, manner = exchange.inquiry.prompt.thinking, exchange.manner
    tags = manner.thinking_tags if wanted.wanted or exchange.rendered.thinking_tags else ()
    if wanted.mode is ThinkingMode.DISABLED:
        return "remove", tags
    return (manner.thinking_handling, tags) if tags or manner.thinking_handling != KEPT else ("", ())
