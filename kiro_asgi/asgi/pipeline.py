"""What the stages of a gateway answer are to do, from the request and the settings."""

from __future__ import annotations

from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.config import Settings
from kiro_asgi.model.prompt import ThinkingMode
from kiro_asgi.stages.answer import Plan
from kiro_asgi.stages.thinking import ThinkingSplitter

__all__ = ["plan_answer"]


def plan_answer(exchange: Exchange, settings: Settings) -> Plan:
    """A fresh plan; it holds stages, so it serves one try."""
    sampling = exchange.inquiry.prompt.sampling
    return Plan(
        thinking=_thinking(exchange, settings),
        stop=sampling.stop,
        max_tokens=sampling.max_tokens,
        tool_emission=settings.stream.tool_emission,
        drop_equal_tool_calls=settings.kiro.drop_equal_tool_calls,
        drop_repeated_text=settings.kiro.drop_repeated_content,
        tool_input_bytes=settings.limits.tool_input_bytes,
        tool_names=exchange.rendered.tool_names,
        parallel_tool_calls=exchange.inquiry.prompt.tool_choice.parallel,
        input_tokens=exchange.input_tokens,
        context_window=exchange.model.context_window,
    )


def _thinking(exchange: Exchange, settings: Settings) -> ThinkingSplitter | None:
    """Tags are searched for only where they were asked for; native thinking is dropped where it was declined."""
    kiro = settings.kiro
    if exchange.rendered.thinking_tags:
        return ThinkingSplitter(mode=kiro.fake_reasoning_handling, tags=kiro.thinking_tags, scan=kiro.thinking_scan)
    if exchange.inquiry.prompt.thinking.mode is ThinkingMode.DISABLED:
        return ThinkingSplitter(mode="remove", tags=())
    return None
