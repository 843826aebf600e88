"""What people read when an answer is broken off, in their language."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kiro_asgi import errors
from kiro_asgi.errors import KiroAsgiError

__all__ = ["translated"]

_SENTENCES: Final[Mapping[str, Mapping[type[KiroAsgiError], str]]] = MappingProxyType(
    {
        "en": MappingProxyType({}),
        "zh": MappingProxyType(
            {
                errors.UpstreamTimeout: "上游服务未能及时响应,请稍后重试。",
                errors.UpstreamUnreachable: "网络连接不稳定,请检查您的网络或代理设置。",
                errors.UpstreamOverloaded: "上游服务当前负载过高,请稍后重试。",
                errors.UpstreamThrottled: "请求过于频繁,请稍后重试。",
                errors.UpstreamQuotaSpent: "账户额度已用完:{}",
                errors.UpstreamSuspicious: "上游服务已限制该账户:{}",
                errors.UpstreamSuspended: "上游服务已限制该账户:{}",
                errors.UpstreamDenied: "上游服务拒绝了网关的凭据,请联系网关管理员。",
                errors.UpstreamProtocolError: "上游服务的回答已损坏,未能完整接收。",
                errors.AnswerTooLarge: "回答超出网关允许的大小。",
                errors.UpstreamError: "上游服务发生错误,请稍后重试。",
                errors.ContextTooLong: "对话内容过长,超出模型的上下文窗口。",
                errors.UnmetPromise: "模型的回答不符合所要求的格式,请重试。",
                errors.TooBusy: "网关正忙或正在停止,请稍后重试。",
                KiroAsgiError: "请求未能完成:{}",
            }
        ),
    }
)
"""Language to class of failure to sentence, of which the nearest class counts; ``{}`` stands for the failure's own
words, where they hold what no other sentence says.  In English all have their own."""


def translated(error: KiroAsgiError, language: str) -> KiroAsgiError:
    """*error* as the people who use the client are told of it: the same failure, in *language*."""
    sentences = _SENTENCES[language]
    sentence = next((sentences[kind] for kind in type(error).__mro__ if kind in sentences), None)
    if sentence is None:
        return error
    told = copy.copy(error)
    told.message = sentence.format(error.message)
    return told
