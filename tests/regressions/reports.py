"""What services say of the tokens of an answer, as they were seen to say it, with numbers of our own."""

from __future__ import annotations

from typing import Any

from attrs import frozen


@frozen
class Counted:
    """What a report says: the prompt with what is cached of it, and the answer with its thinking."""

    prompt: int
    read: int = 0
    written: int = 0
    answer: int = 0
    thinking: int = 0


@frozen
class Report:
    """One report."""

    by: str
    service: str
    """A name of `tests.regressions.crossing.SERVICES`."""

    usage: dict[str, Any]
    counted: Counted


def _chat(by: str, prompt: int, answer: int, total: int, counted: Counted, **more: Any) -> Report:
    usage = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": total, **more}
    return Report(by, "openai", usage, counted)


_AUDIO = {"audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}

REPORTS = (
    _chat(
        "OpenAI", 2006, 300, 2306, Counted(2006, 1920, answer=300, thinking=128),
        prompt_tokens_details={"cached_tokens": 1920, "audio_tokens": 0},
        completion_tokens_details={"reasoning_tokens": 128, **_AUDIO},
    ),
    _chat("an old server", 9, 12, 21, Counted(9, answer=12)),
    _chat("vLLM", 40, 7, 47, Counted(40, answer=7), prompt_tokens_details=None),
    _chat(
        "SGLang", 40, 9, 49, Counted(40, 32, answer=9, thinking=5),
        reasoning_tokens=5, prompt_tokens_details={"cached_tokens": 32},
    ),
    _chat("llama.cpp", 21, 8, 29, Counted(21, answer=8), prompt_tokens_details={"cached_tokens": 0}),
    _chat("LM Studio", 24, 415, 439, Counted(24, answer=415)),
    _chat(
        "DeepSeek", 1036, 60, 1096, Counted(1036, 1024, answer=60, thinking=41),
        prompt_tokens_details={"cached_tokens": 1024}, completion_tokens_details={"reasoning_tokens": 41},
        prompt_cache_hit_tokens=1024, prompt_cache_miss_tokens=12,
    ),
    _chat(
        "DeepSeek, before", 1036, 60, 1096, Counted(1036, 1024, answer=60),
        prompt_cache_hit_tokens=1024, prompt_cache_miss_tokens=12,
    ),
    _chat("Moonshot", 8, 292, 300, Counted(8, 8, answer=292), cached_tokens=8),
    _chat("Together", 330, 20, 350, Counted(330, 256, answer=20), cached_tokens=256),
    _chat(
        "xAI", 10120, 88, 14428, Counted(10120, 9000, answer=4308, thinking=4220),
        prompt_tokens_details={"text_tokens": 10120, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 9000},
        completion_tokens_details={"reasoning_tokens": 4220, **_AUDIO}, num_sources_used=0,
    ),
    _chat("Google's endpoint", 52, 17, 469, Counted(52, answer=417, thinking=400)),
    _chat(
        "a server that counts its cache beside the prompt", 50, 5, 1055, Counted(1050, 1000, answer=5),
        prompt_tokens_details={"cached_tokens": 1000},
    ),
    _chat(
        "LiteLLM", 10032, 5, 10037, Counted(10032, 0, 10017, 5),
        prompt_tokens_details={"cached_tokens": 0, "cache_creation_tokens": 10017, "text_tokens": None},
        cache_creation_input_tokens=10017, cache_read_input_tokens=0,
    ),
    _chat(
        "LiteLLM, of a cache", 10032, 5, 10037, Counted(10032, 10017, 0, 5),
        prompt_tokens_details=None, cache_creation_input_tokens=0, cache_read_input_tokens=10017,
    ),
    _chat(
        "OpenRouter", 4100, 20, 4120, Counted(4100, 1000, 3000, 20, 8),
        prompt_tokens_details={"cached_tokens": 1000, "cache_write_tokens": 3000, "audio_tokens": 0},
        completion_tokens_details={"reasoning_tokens": 8, "image_tokens": 0},
        cost=0.0123, is_byok=False, cost_details={"upstream_inference_cost": None},
    ),
    _chat(
        "DashScope", 3019, 104, 3123, Counted(3019, 0, 2048, 104),
        prompt_tokens_details={
            "cached_tokens": 0, "cache_creation_input_tokens": 2048, "cache_type": "ephemeral",
            "cache_creation": {"ephemeral_5m_input_tokens": 2048},
        },
    ),
    _chat(
        "Groq", 60, 10, 70, Counted(60, answer=10),
        queue_time=0.04, prompt_time=0.002, completion_time=0.03, total_time=0.032,
    ),
    _chat(
        "Mistral", 15, 25, 40, Counted(15, answer=25),
        prompt_audio_seconds={}, num_cached_tokens=None, prompt_tokens_details=None,
    ),
    _chat("MiniMax", 70, 30, 100, Counted(70, answer=30, thinking=12), total_characters=0,
          completion_tokens_details={"reasoning_tokens": 12}),
    _chat("Perplexity", 20, 12, 32, Counted(20, answer=12), search_context_size="low", citation_tokens=0),
    _chat("a server that writes floats", 12.0, 3.0, 15.0, Counted(12, answer=3)),  # type: ignore[arg-type]
    Report(
        "OpenAI's Responses", "responses",
        {
            "input_tokens": 400, "input_tokens_details": {"cached_tokens": 256}, "output_tokens": 90,
            "output_tokens_details": {"reasoning_tokens": 64}, "total_tokens": 490,
        },
        Counted(400, 256, answer=90, thinking=64),
    ),
    Report(
        "xAI's Responses", "responses",
        {
            "input_tokens": 400, "input_tokens_details": {"cached_tokens": 256}, "output_tokens": 26,
            "output_tokens_details": {"reasoning_tokens": 64}, "total_tokens": 490, "num_sources_used": 0,
        },
        Counted(400, 256, answer=90, thinking=64),
    ),
    Report(
        "LiteLLM's Responses", "responses",
        {
            "input_tokens": 10032, "output_tokens": 5, "total_tokens": 10037, "output_tokens_details": None,
            "input_tokens_details": {"cached_tokens": 0, "cache_creation_tokens": 10017},
        },
        Counted(10032, 0, 10017, 5),
    ),
    Report(
        "Anthropic", "anthropic",
        {
            "input_tokens": 3, "cache_creation_input_tokens": 248, "cache_read_input_tokens": 12000,
            "cache_creation": {"ephemeral_5m_input_tokens": 248, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 503, "service_tier": "standard", "inference_geo": "global",
        },
        Counted(12251, 12000, 248, 503),
    ),
    Report(
        "Anthropic, with thinking", "anthropic",
        {"input_tokens": 30, "output_tokens": 503, "output_tokens_details": {"thinking_tokens": 400}},
        Counted(30, answer=503, thinking=400),
    ),
    Report("a copy of the Messages API", "anthropic", {"input_tokens": 15, "output_tokens": 5}, Counted(15, answer=5)),
    Report(
        "Gemini", "gemini",
        {
            "promptTokenCount": 52, "candidatesTokenCount": 17, "thoughtsTokenCount": 400, "totalTokenCount": 469,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 52}],
        },
        Counted(52, answer=417, thinking=400),
    ),
    Report(
        "Gemini, of a cache, with a tool", "gemini",
        {
            "promptTokenCount": 5000, "cachedContentTokenCount": 4096, "candidatesTokenCount": 9,
            "toolUsePromptTokenCount": 100, "totalTokenCount": 5109,
        },
        Counted(5100, 4096, answer=9),
    ),
    Report(
        "Gemini, whose sum shows the thoughts", "gemini",
        {"promptTokenCount": 52, "candidatesTokenCount": 17, "totalTokenCount": 469},
        Counted(52, answer=417, thinking=400),
    ),
    Report(
        "Bedrock", "bedrock",
        {
            "inputTokens": 12, "outputTokens": 30, "totalTokens": 1066, "cacheReadInputTokens": 1000,
            "cacheWriteInputTokens": 24,
        },
        Counted(1036, 1000, 24, 30),
    ),
    Report("Nova", "bedrock", {"inputTokens": 12, "outputTokens": 30, "totalTokens": 42}, Counted(12, answer=30)),
    Report(
        "Kiro", "kiro",
        {
            "uncachedInputTokens": 12, "outputTokens": 30, "totalTokens": 1066, "cacheReadInputTokens": 1000,
            "cacheWriteInputTokens": 24,
        },
        Counted(1036, 1000, 24, 30),
    ),
)  # fmt: skip
