"""Endpoints of the SDKs: each is served, or the table of what is not served has its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import anthropic
import openai
from google.genai import batches, caches, files, live, models, operations, tokens, tunings

from kiro_asgi.asgi.routing import Routes
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.unserved import why_no_path, why_no_word

__all__ = ["unexplained"]

_PATH: Final = re.compile(r"""["'](/[a-z_]+[a-z_/{}.-]*)["'?]""")
"""A path in the source of OpenAI's or Anthropic's SDK."""

_GOOGLE: Final = re.compile(r"""path = '(?:upload/\{{1,2}api_version\}{1,2}/)?([A-Za-z_]*)[^':]*(?::([A-Za-z]+))?""")
"""A path in the source of Google's: a first segment that is no placeholder, and a verb."""

_SERVED: Final = frozenset({"generateContent", "streamGenerateContent", "countTokens", "models", "cancel"})
"""Verbs and resources of Google's that are served, and ``cancel``, of what stands before it."""

_ANOTHER: Final = frozenset({"test", "batchPredictionJobs", "upload", "validateReinforcementTuningReward"})
"""Words in the source of Google's SDK that are of another platform, or of its own tests."""


def unexplained() -> Iterator[str]:
    """Endpoints that are neither served nor named with a reason."""
    routes = Routes(BUILTIN)
    for path in sorted({*_paths(openai), *_paths(anthropic)}):
        whole = path if path.startswith("/v1/") else f"/v1{path}"
        scope = {"type": "http", "path": re.sub(r"\{[^}]*\}", "x", _with_marks(whole)), "method": "GET"}
        if not routes.contains(scope) and not why_no_path(whole):
            yield whole
    for module in (batches, caches, files, live, models, operations, tokens, tunings):
        for resource, verb in _GOOGLE.findall(Path(str(module.__file__)).read_text("utf-8")):
            word = resource or verb
            if word and word not in _SERVED | _ANOTHER and not why_no_word(word):
                yield f"Gemini: {word}"


def _paths(sdk: ModuleType) -> Iterator[str]:
    """Paths of an SDK's resources."""
    for file in sorted((Path(str(sdk.__file__)).parent / "resources").rglob("*.py")):
        yield from _PATH.findall(file.read_text("utf-8"))


def _with_marks(path: str) -> str:
    """*path* with ids as the gateway makes them."""
    return path.replace("/responses/{", "/responses/resp_{").replace("/conversations/{", "/conversations/conv_{")
