"""A request as it arrived, the course of its answer, and its authorization.

AWS Signature Version 4 is checked from what arrived: raw path, query, signed headers and body.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from attrs import define, field

SECRET_ACCESS_KEY: Final = "simulated"
"""Of every access key."""

ALGORITHM: Final = "AWS4-HMAC-SHA256"
AUTHORIZATION: Final = re.compile(
    ALGORITHM + r" Credential=([^/,]+)/(\d{8})/([^/,]+)/([^/,]+)/aws4_request, *"
    r"SignedHeaders=([^,]+), *Signature=([0-9a-f]{64})"
)
STAMP: Final = "%Y%m%dT%H%M%SZ"
TOLERANCE: Final = timedelta(minutes=5)


@define(eq=False)
class RecordedRequest:
    """One request and the course of its answer.  Times are those of `time.monotonic`."""

    method: str
    path: str
    """Without the query."""

    query: str
    headers: dict[str, str] = field(repr=False)
    """Names in lower case; of a repeated header, the last."""

    body: bytes = field(default=b"", repr=False)
    connection: int = 0
    """Number of the connection it came on, from 1."""

    received_at: float = field(factory=time.monotonic)
    operation: str = ""
    """Operation, e.g. ``GenerateAssistantResponse``; empty for an unknown path."""

    status: int = 0
    """Of the answer; 0 while no head was sent."""

    bytes_accepted: int = 0
    """Bytes of the answer, HTTP framing included, that the operating system took: what the peer has read, plus what
    socket buffers hold."""

    complete: bool = False
    """Whether the whole script was played and its end sent."""

    finished_at: float | None = None
    """When playing ended, either way."""

    peer_closed_at: float | None = None
    """When the peer was seen to have closed, if that was before the answer was complete."""

    def json(self) -> Any:
        """The body, parsed.

        Raises:
            ValueError: It is not JSON.
        """
        return json.loads(self.body)


def bearer(request: RecordedRequest, *schemes: str) -> str:
    """The token of the ``authorization`` header, of one of *schemes* (in lower case); empty if there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() in (schemes or ("bearer",)) else ""


def access_key_of(request: RecordedRequest) -> str:
    """Id of the access key that *request* is signed with; empty if it is not signed."""
    found = AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    return found[1] if found else ""


def signature_fault(request: RecordedRequest, service: str, now: datetime | None = None) -> str:
    """The fault of the signature of *request* to *service*, in AWS's words; empty if there is none.

    Args:
        request: A signed request.
        service: Name that AWS signs for, e.g. ``bedrock``.
        now: The service's time; ``None``: this machine's.
    """
    found = AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    if found is None:
        return "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature' parameters."
    _, day, region, signed_for, names, signature = found.groups()
    stamp = request.headers.get("x-amz-date", "")
    if signed_for != service:
        return f"Credential should be scoped to correct service: '{service}'."
    if not stamp.startswith(day) or abs((now or datetime.now(UTC)) - _time(stamp)) > TOLERANCE:
        return f"Signature expired: {stamp} is too far from the time of the service"
    signed = names.split(";")
    if "host" not in signed or ("x-amz-security-token" in request.headers) != ("x-amz-security-token" in signed):
        return "'Host' and 'X-Amz-Security-Token' must be in SignedHeaders."
    scope = "/".join((day, region, service, "aws4_request"))
    digest = hashlib.sha256(_canonical(request, signed).encode()).hexdigest()
    key = f"AWS4{SECRET_ACCESS_KEY}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    expected = hmac.digest(key, "\n".join((ALGORITHM, stamp, scope, digest)).encode(), "sha256").hex()
    if hmac.compare_digest(expected, signature):
        return ""
    return (
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "
        "Key and signing method."
    )


def _time(stamp: str) -> datetime:
    try:
        return datetime.strptime(stamp, STAMP).replace(tzinfo=UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def _canonical(request: RecordedRequest, signed: list[str]) -> str:
    """The canonical request; its path is the one on the wire, encoded once more, as all services but S3 have it."""
    query = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(request.query, keep_blank_values=True)
    )
    return "\n".join(
        (
            request.method,
            quote(request.path, safe="/-_.~"),
            "&".join(f"{name}={value}" for name, value in query),
            *(f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in signed),
            "",
            ";".join(signed),
            hashlib.sha256(request.body).hexdigest(),
        )
    )
