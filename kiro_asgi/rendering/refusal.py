"""Errors to raise where a service cannot be asked what the client asks."""

from __future__ import annotations

from kiro_asgi.errors import ContextTooLong, RequestError


def refusal(rule: str, what: str, place: str) -> RequestError:
    """Make the error to raise where *rule* finds something that the service cannot be asked."""
    place = place or "messages"
    return RequestError(f"{place}: not supported: {what} (rule {rule})", code="unsupported_value", param=place)


def too_long(rule: str, what: str, place: str) -> ContextTooLong:
    """Make the error to raise where *rule* finds more than the service reads; clients know the first four words."""
    place = place or "messages"
    return ContextTooLong(f"prompt is too long: {what} (rule {rule})", code="context_too_long", param=place)
