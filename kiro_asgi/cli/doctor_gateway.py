"""Ask a running gateway which of its credentials rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kiro_asgi.asgi.providers import new_transport
from kiro_asgi.cli.findings import Finding, Verdict, failed, span
from kiro_asgi.config import Settings
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.net.whole import fetch_whole
from kiro_asgi.upstreams.base import UpstreamRequest
from kiro_asgi.upstreams.errors import clean, report_of
from kiro_asgi.wire.members import objects_of, text_of

__all__ = ["resting"]

NAME: Final = "resting"
PATIENCE: Final = 5.0
"""Seconds for the question."""


async def resting(url: str, settings: Settings) -> Finding:
    """What rests at the gateway of the base *url*, which is asked with the first of its keys in *settings*."""
    keys = settings.client.api_keys[:1]
    headers = [(b"authorization", f"Bearer {key}".encode()) for key in keys]
    transport = new_transport(settings, proxy="")
    try:
        request = UpstreamRequest("GET", f"{url.rstrip('/')}/health", tuple(headers))
        answer = await fetch_whole(transport, request, patience=PATIENCE)
    except KiroAsgiError as error:
        found = failed(NAME, error)
        return Finding(NAME, Verdict.FAIL, found.detail, f"see that a gateway runs at {url}")
    finally:
        await transport.aclose()
    report = report_of(answer.body)
    if answer.status != 200 or "resting" not in report:
        return Finding(NAME, Verdict.WARN, "the gateway does not say", "see that client.api_keys are the gateway's own")
    rests = list(_told(objects_of(report["resting"])))
    if not rests:
        return Finding(NAME, Verdict.OK, "no credential rests")
    advice = "the service is not asked with them meanwhile; what it said is in the gateway's log"
    return Finding(NAME, Verdict.WARN, "; ".join(rests), advice)


def _told(rests: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for rest in rests:
        seconds = rest.get("seconds")
        left = span(seconds) if type(seconds) is int else "a while"
        yield f"{clean(text_of(rest, 'credential'))}: {clean(text_of(rest, 'reason'))}, next try in {left}"
