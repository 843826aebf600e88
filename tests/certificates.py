"""Certificates of authorities, read once for all transports: 35 ms for each of them, and the same each time."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

__all__ = ["read_once"]


def read_once(replace: Callable[[Any, str, Any], Any]) -> None:
    """Have HTTP libraries keep their context for TLS; *replace* sets an attribute, as ``setattr`` does."""
    for library in (importlib.import_module(name) for name in ("httpcore", "httpcore2") if find_spec(name)):
        replace(library, "default_ssl_context", functools.cache(library.default_ssl_context))
