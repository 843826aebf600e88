"""What has to be in the archives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["EXTRAS", "METADATA", "SDIST_HAS"]

EXTRAS: Final = frozenset(
    {"standalone", "trio", "httpcore2", "valkey", "packed", "bedrock", "metrics", "otel", "test", "docs", "dev"}
)

METADATA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Name": "kiro-asgi",
        "License-Expression": "MIT",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
        "Author": "The kiro_asgi maintainers",
        "Classifier": "Typing :: Typed",
    }
)

SDIST_HAS: Final = frozenset(
    {
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "README.md",
        "docs/conf.py",
        "docs/examples/request.json",
        "pyproject.toml",
        "setup.cfg",
        "tests/conftest.py",
        "tests/fuzz/corpus",
        "tox.ini",
    }
)
