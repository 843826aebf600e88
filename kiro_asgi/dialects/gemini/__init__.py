"""The Gemini API of Google.

The model and what is to be done with it stand in the path, behind each other: ``/v1beta/models/MODEL:generateContent``.

Source: https://ai.google.dev/api
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.manifest import REFUSE, DialectManifest, DialectOptions, Endpoint

VERBS: Final = ("generateContent", "streamGenerateContent", "countTokens")
"""What can be done with a model."""


def _make(options: DialectOptions) -> Dialect:
    from kiro_asgi.dialects.gemini.dialect import GeminiApi

    return GeminiApi()


def _endpoints() -> Iterator[Endpoint]:
    """Each version is the same API; ``/v1/models`` is other APIs' as well, and every file of theirs below ``/v1``."""
    versions = ("v1beta", "v1", "v1alpha")
    for version in versions:
        yield Endpoint("POST", f"/{version}/models/{{model:path}}", "call", verbs=VERBS)
    for version in ("v1beta", "v1alpha"):
        yield Endpoint("GET", f"/{version}/models", "models")
        yield Endpoint("GET", f"/{version}/models/{{model:path}}", "model")
        for method in ("GET", "POST", "DELETE"):
            yield Endpoint(method, f"/{version}/{{resource:path}}", REFUSE)
    for version in versions:
        yield Endpoint("POST", f"/upload/{version}/{{resource:path}}", REFUSE)


GEMINI: Final = DialectManifest(
    name="gemini",
    title="Gemini",
    endpoints=tuple(_endpoints()),
    make=_make,
    key_headers=(b"x-goog-api-key", b"authorization"),
    key_parameters=("key",),
    marks=(b"x-goog-api-key", b"x-goog-api-client"),
    likeness=lambda request: 2 if "contents" in request else -1,
    operations="kiro_asgi.apis.gemini:GeminiOperations",
)
