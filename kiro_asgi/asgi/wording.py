"""What people read when the network fails in the middle of an answer, in their language."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kiro_asgi.errors import KiroAsgiError, UpstreamTimeout, UpstreamUnreachable

__all__ = ["translated"]

_SENTENCES: Final[Mapping[str, Mapping[type[KiroAsgiError], str]]] = MappingProxyType(
    {
        "en": MappingProxyType({}),
        "zh": MappingProxyType(
            {
                UpstreamTimeout: "上游服务未能及时响应,请稍后重试。",
                UpstreamUnreachable: "网络连接不稳定,请检查您的网络或代理设置。",
            }
        ),
    }
)
"""Language to class of failure to sentence; what has none is told in its own words, which are English."""


def translated(error: KiroAsgiError, language: str) -> KiroAsgiError:
    """*error* as the people who use the client are told of it: the same failure, in *language*."""
    sentences = _SENTENCES[language]
    sentence = next((sentences[kind] for kind in type(error).__mro__ if kind in sentences), None)
    if sentence is None:
        return error
    told = copy.copy(error)
    told.message = sentence
    return told
