"""What the stages of a gateway answer are to do, from the request and the settings."""

from __future__ import annotations

from typing import Final

from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.asgi.validation import complaint_for
from kiro_asgi.config import Settings
from kiro_asgi.model.prompt import ThinkingMode
from kiro_asgi.stages.answer import Plan

__all__ = ["early_commit", "first_event_timeout", "plan_answer"]

_GRACE: Final = 1.0
"""Seconds between a try's time-out and the commit that would hide it."""


def plan_answer(exchange: Exchange, settings: Settings) -> Plan:
    """The plan for every try at one exchange."""
    prompt, kiro = exchange.inquiry.prompt, settings.kiro
    tagged = exchange.rendered.thinking_tags
    return Plan(
        thinking=_thinking(exchange, settings),
        thinking_tags=kiro.thinking_tags if tagged else (),
        thinking_scan=kiro.thinking_scan,
        stop=prompt.sampling.stop,
        max_tokens=prompt.sampling.max_tokens,
        tool_emission=_tool_emission(exchange, settings),
        drop_equal_tool_calls=kiro.drop_equal_tool_calls,
        drop_repeated_text=kiro.drop_repeated_content,
        tool_input_bytes=settings.limits.tool_input_bytes,
        tool_names=exchange.rendered.tool_names,
        server_tools=exchange.toolbox.kinds(prompt),
        fingerprint=settings.recovery.enabled,
        lead_in=settings.stream.lead_in,
        parallel_tool_calls=prompt.tool_choice.parallel,
        input_tokens=exchange.input_tokens,
        context_window=exchange.model.context_window,
        estimator=exchange.estimator,
        output_factor=exchange.output_factor,
        complaint=None if prompt.schema is None else complaint_for(prompt.schema),
    )


def first_event_timeout(exchange: Exchange, settings: Settings) -> float:
    """Seconds from asking the upstream to its first event."""
    kiro, wanted = settings.kiro, exchange.inquiry.prompt.thinking.wanted
    return kiro.thinking_first_token_timeout if wanted else kiro.first_token_timeout


def early_commit(exchange: Exchange, settings: Settings) -> float:
    """Seconds after which the head goes out without an event; 0 for never.

    A first try that may not even take that long keeps its status: only what comes after it is committed early.
    """
    after, timeout = settings.stream.early_commit_after, first_event_timeout(exchange, settings)
    return after if not after or after < timeout else max(after, timeout + _GRACE)


def _tool_emission(exchange: Exchange, settings: Settings) -> str:
    """What goes out in one piece has no use for pieces of calls, and none for half a call."""
    emission, streamed = settings.stream.tool_emission, exchange.inquiry.stream and not settings.stream.synthetic
    return emission if streamed or emission != "incremental" else "complete"


def _thinking(exchange: Exchange, settings: Settings) -> str:
    """Tags are searched for only where they were asked for; native thinking is dropped where it was declined."""
    if exchange.rendered.thinking_tags:
        return settings.kiro.fake_reasoning_handling
    return "remove" if exchange.inquiry.prompt.thinking.mode is ThinkingMode.DISABLED else ""
