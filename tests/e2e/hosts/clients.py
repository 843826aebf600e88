"""What the official libraries make of the gateway."""

from __future__ import annotations

from typing import Any

import anthropic
import openai

MODEL = "claude-sonnet-4.5"


def ask_openai(url: str, prompt: str, *, stream: bool, **options: Any) -> tuple[str, str]:
    """Text and finish reason."""
    with openai.OpenAI(base_url=f"{url}/v1", **{"api_key": "k", "max_retries": 0, "timeout": 20, **options}) as client:
        messages: Any = [{"role": "user", "content": prompt}]
        if not stream:
            (choice,) = client.chat.completions.create(model=MODEL, messages=messages).choices
            return choice.message.content or "", choice.finish_reason
        chunks = [*client.chat.completions.create(model=MODEL, messages=messages, stream=True)]
    choices = [choice for chunk in chunks for choice in chunk.choices]
    return "".join(choice.delta.content or "" for choice in choices), choices[-1].finish_reason or ""


def ask_anthropic(url: str, prompt: str, *, stream: bool, **options: Any) -> tuple[str, str]:
    """Text and stop reason, in the words of the other API."""
    words = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
    with anthropic.Anthropic(base_url=url, **{"api_key": "k", "max_retries": 0, "timeout": 20, **options}) as client:
        request: Any = {"model": MODEL, "max_tokens": 1000, "messages": [{"role": "user", "content": prompt}]}
        if stream:
            with client.messages.stream(**request) as answer:
                text, message = "".join(answer.text_stream), answer.get_final_message()
            assert text == "".join(block.text for block in message.content if block.type == "text")
        else:
            message = client.messages.create(**request)
    text = "".join(block.text for block in message.content if block.type == "text")
    return text, words[str(message.stop_reason)]


ASK = {"openai": ask_openai, "anthropic": ask_anthropic}
"""Library to a way to ask it."""
