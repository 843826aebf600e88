"""Services that speak Chat Completions, and what differs there from OpenAI's own.

Names under which answers have thinking, cached tokens, images or citations, and words for their ends, are in no row:
all of them are read at each service.  What a service refuses in spite of its row is left out of requests, see
`kiro_asgi.upstreams.openai.adapting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.upstreams.services import KnownService

_DATED: Final = "2026-11-26"

_OLDER: Final = {"max_tokens_field": "max_tokens"}
"""Knows the older name of that field alone, or first."""


def _row(name: str, title: str, source: str, **settings: Any) -> KnownService:
    return KnownService(name=name, title=title, settings=MappingProxyType(settings), source=source, dated=_DATED)


SERVICES: Final[Mapping[str, KnownService]] = MappingProxyType(
    {
        row.name: row
        for row in (
            _row(
                "deepseek",
                "DeepSeek",
                "https://api-docs.deepseek.com/guides/thinking_mode",
                endpoint="https://api.deepseek.com",
                thinking_control="thinking",
                efforts=("low", "high", "max"),
                demands_thinking=True,
                **_OLDER,
            ),
            _row(
                "moonshot",
                "Moonshot AI (Kimi)",
                "https://platform.kimi.ai/docs/guide/use-kimi-k2-thinking-model",
                endpoint="https://api.moonshot.ai/v1",
                thinking_control="thinking",
                demands_thinking=True,
                **_OLDER,
            ),
            _row(
                "zai",
                "Z.ai (GLM)",
                "https://docs.z.ai/guides/capabilities/thinking-mode",
                endpoint="https://api.z.ai/api/paas/v4",
                thinking_control="thinking",
                **_OLDER,
            ),
            _row(
                "qwen",
                "Alibaba Cloud Model Studio (Qwen)",
                "https://www.alibabacloud.com/help/en/model-studio/deep-thinking",
                endpoint="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
                thinking_control="enable_thinking",
                **_OLDER,
            ),
            _row(
                "siliconflow",
                "SiliconFlow",
                "https://docs.siliconflow.com/en/api-reference/chat-completions/chat-completions",
                endpoint="https://api.siliconflow.com/v1",
                thinking_control="enable_thinking",
                **_OLDER,
            ),
            _row(
                "minimax",
                "MiniMax",
                "https://platform.minimax.io/docs/api-reference/text-openai-api",
                endpoint="https://api.minimax.io/v1",
                thinking_control="none",
                thinking_tags=("think",),
                **_OLDER,
            ),
            _row(
                "openrouter",
                "OpenRouter",
                "https://openrouter.ai/docs/use-cases/reasoning-tokens",
                endpoint="https://openrouter.ai/api/v1",
                thinking_control="reasoning",
                efforts=("minimal", "low", "medium", "high", "xhigh"),
                thinking_field="reasoning",
                **_OLDER,
            ),
            _row(
                "mistral",
                "Mistral AI",
                "https://docs.mistral.ai/capabilities/reasoning/",
                endpoint="https://api.mistral.ai/v1",
                efforts=("none", "high"),
                call_ids="nine",
                replay_thinking=False,
                include_usage=False,
                **_OLDER,
            ),
            _row(
                "groq",
                "Groq",
                "https://console.groq.com/docs/reasoning",
                endpoint="https://api.groq.com/openai/v1",
                thinking_field="reasoning",
                thinking_tags=("think",),
                max_tools=128,
            ),
            _row(
                "cerebras",
                "Cerebras",
                "https://inference-docs.cerebras.ai/capabilities/reasoning",
                endpoint="https://api.cerebras.ai/v1",
                efforts=("low", "medium", "high"),
                thinking_field="reasoning",
            ),
            _row(
                "xai",
                "xAI (Grok)",
                "https://docs.x.ai/docs/guides/reasoning",
                endpoint="https://api.x.ai/v1",
                efforts=("low", "high"),
                max_tools=128,
            ),
            _row(
                "together",
                "Together AI",
                "https://docs.together.ai/docs/reasoning-overview",
                endpoint="https://api.together.xyz/v1",
                thinking_control="reasoning",
                efforts=("low", "medium", "high"),
                thinking_field="reasoning",
                **_OLDER,
            ),
            _row(
                "fireworks",
                "Fireworks AI",
                "https://docs.fireworks.ai/guides/reasoning",
                endpoint="https://api.fireworks.ai/inference/v1",
                efforts=("none", "low", "medium", "high"),
                **_OLDER,
            ),
            _row(
                "perplexity",
                "Perplexity",
                "https://docs.perplexity.ai/api-reference/chat-completions-post",
                endpoint="https://api.perplexity.ai",
                efforts=("minimal", "low", "medium", "high"),
                thinking_tags=("think",),
                replay_thinking=False,
                include_usage=False,
                **_OLDER,
            ),
            _row(
                "nvidia",
                "NVIDIA NIM",
                "https://docs.nvidia.com/nim/large-language-models/latest/thinking-budget-control.html",
                endpoint="https://integrate.api.nvidia.com/v1",
                thinking_control="chat_template_kwargs",
                **_OLDER,
            ),
            _row(
                "huggingface",
                "Hugging Face Inference Providers",
                "https://huggingface.co/docs/inference-providers/tasks/chat-completion",
                endpoint="https://router.huggingface.co/v1",
                **_OLDER,
            ),
            _row(
                "github-models",
                "GitHub Models",
                "https://docs.github.com/en/rest/models/inference",
                endpoint="https://models.github.ai/inference",
                models_endpoint="https://models.github.ai/catalog/models",
                **_OLDER,
            ),
            _row(
                "azure",
                "Azure OpenAI, by its v1 API",
                "https://learn.microsoft.com/en-us/azure/foundry/openai/api-version-lifecycle",
                key_header="api-key",
                max_tools=128,
            ),
            _row(
                "ollama",
                "Ollama",
                "https://docs.ollama.com/api/openai-compatibility",
                endpoint="http://localhost:11434/v1",
                efforts=("none", "low", "medium", "high"),
                thinking_field="reasoning",
                **_OLDER,
            ),
            _row(
                "vllm",
                "vLLM",
                "https://docs.vllm.ai/en/stable/features/reasoning_outputs/",
                endpoint="http://localhost:8000/v1",
                thinking_control="chat_template_kwargs",
                thinking_field="reasoning",
            ),
            _row(
                "sglang",
                "SGLang",
                "https://docs.sglang.ai/advanced_features/separate_reasoning.html",
                endpoint="http://localhost:30000/v1",
                thinking_control="chat_template_kwargs",
                **_OLDER,
            ),
            _row(
                "lm-studio",
                "LM Studio",
                "https://lmstudio.ai/docs/developer/openai-compat/chat-completions",
                endpoint="http://localhost:1234/v1",
                efforts=("low", "medium", "high"),
                **_OLDER,
            ),
            _row(
                "llama-cpp",
                "llama.cpp's server",
                "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
                endpoint="http://localhost:8080/v1",
                thinking_control="chat_template_kwargs",
                **_OLDER,
            ),
            _row(
                "litellm",
                "LiteLLM's proxy",
                "https://docs.litellm.ai/docs/reasoning_content",
                endpoint="http://localhost:4000/v1",
            ),
        )
    }
)
"""By name."""
