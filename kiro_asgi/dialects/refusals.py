"""The ways in which a request is refused, as one-line constructors."""

from __future__ import annotations

from typing import Final

from kiro_asgi.errors import RequestError

__all__ = ["NO_MODEL", "invalid", "missing", "unsupported"]

NO_MODEL: Final = "is empty; name a model, GET /v1/models lists them"


def invalid(param: str, message: str) -> RequestError:
    """A value that makes no sense at *param*."""
    return RequestError(f"{param}: {message}", code="invalid_value", param=param)


def unsupported(param: str, message: str) -> RequestError:
    """A legal value that we cannot honour, where ignoring it would be a lie."""
    return RequestError(f"{param}: {message}", code="unsupported_value", param=param)


def missing(param: str, message: str) -> RequestError:
    """Something that must be there is not."""
    return RequestError(f"{param}: {message}", code="missing_required_parameter", param=param)
