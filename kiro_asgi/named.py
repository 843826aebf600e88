"""Objects that manifests name as text, ``module:name``, since they stand above them, or cost an import."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from kiro_asgi.errors import ConfigError


def imported(name: str, place: str, *, code: str) -> Any:
    """Import what is called *name*.

    Args:
        name: ``module``, or ``module:name``.
        place: Where it is named so, for the message.
        code: Of the error.

    Raises:
        ConfigError: It cannot be imported.
    """
    try:
        return resolve_name(name)
    except Exception as error:  # an extension's module may raise anything
        message = f"{place} = {name!r}, which cannot be imported: {type(error).__name__}: {error}"
        raise ConfigError(message, code=code) from error
