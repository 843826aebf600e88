"""Refusals of Bedrock: every exception has one meaning, as a status and in the middle of an answer."""

from __future__ import annotations

import json

import pytest

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    UnknownModel,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
)
from tests.upstreams.bedrock.frames import delta, exception, read
from tests.upstreams.faults import bedrock as fault

EXCEPTIONS = [
    (400, "ValidationException", UpstreamRejected),
    (400, "ServiceQuotaExceededException", UpstreamQuotaSpent),
    (403, "AccessDeniedException", UpstreamForbidden),
    (403, "UnrecognizedClientException", UpstreamTokenInvalid),
    (403, "InvalidSignatureException", UpstreamTokenInvalid),
    (403, "SignatureDoesNotMatch", UpstreamTokenInvalid),
    (403, "ExpiredTokenException", UpstreamTokenInvalid),
    (400, "IncompleteSignature", UpstreamTokenInvalid),
    (404, "ResourceNotFoundException", UnknownModel),
    (404, "UnknownOperationException", UpstreamRejected),
    (408, "ModelTimeoutException", UpstreamTimeout),
    (424, "ModelErrorException", UpstreamFault),
    (424, "ModelStreamErrorException", UpstreamFault),
    (429, "ThrottlingException", UpstreamThrottled),
    (429, "ModelNotReadyException", UpstreamOverloaded),
    (500, "InternalServerException", UpstreamFault),
    (503, "ServiceUnavailableException", UpstreamOverloaded),
]
"""Status, name and meaning of every exception that the service's own description has, and of those of its entrance."""

MESSAGES = [
    ("The provided model identifier is invalid.", UnknownModel, "model_not_found"),
    ("Invocation of model ID x with on-demand throughput isn’t supported.", UnknownModel, "inference_profile_required"),
    ("Input is too long for requested model.", ContextTooLong, "context_too_long"),
    ("This model doesn't support tool use in streaming mode.", UpstreamRejected, "tools_not_streamed"),
    ("This model doesn't support the video content block.", UpstreamRejected, "validation"),
    ("messages.1: Invalid `signature` in `thinking` block", UpstreamRejected, "thinking_signature_invalid"),
    ("Too many tokens, please wait before trying again.", UpstreamThrottled, "throttled"),
    ("Too many tokens per day, please wait before trying again.", UpstreamQuotaSpent, "quota_spent"),
]
"""What a validation says, and what is meant."""


def headed(name: str) -> list[tuple[bytes, bytes]]:
    return [(b"x-amzn-errortype", f"{name}:http://internal.amazon.com/coral/com.amazon.bedrock/".encode())]


@pytest.mark.parametrize(("status", "name", "kind"), EXCEPTIONS)
def test_an_exception_means_the_same_everywhere(status: int, name: str, kind: type[KiroAsgiError]) -> None:
    """Named in the header, in the body, or by a frame, behind a part of an answer or before all of it."""
    for headers, body in ((headed(name), {"Message": "x"}), ([], {"__type": f"com.amazon#{name}", "message": "x"})):
        found = fault(status, headers, json.dumps(body).encode())
        assert type(found) is kind and f"HTTP {status}" in str(found)
    for before in (b"", delta(0, text="a")):
        with pytest.raises(kind) as raised:
            read([before + exception(name[0].lower() + name[1:], message="x")])
        assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("original", "kind"), [(429, UpstreamThrottled), (503, UpstreamOverloaded), (500, UpstreamFault)]
)
def test_a_models_own_status_counts(original: int, kind: type[KiroAsgiError]) -> None:
    """424 says that there was one."""
    report = {"message": "x", "originalStatusCode": original, "resourceName": "m"}

    assert type(fault(424, headed("ModelErrorException"), json.dumps(report).encode())) is kind


@pytest.mark.parametrize(("said", "kind", "code"), MESSAGES)
def test_a_validation_is_told_by_its_words(said: str, kind: type[KiroAsgiError], code: str) -> None:
    """They say more than the exception's name."""
    found = fault(400, headed("ValidationException"), json.dumps({"message": said}).encode())

    assert (type(found), found.code) == (kind, code)


def test_an_expired_key_needs_no_name() -> None:
    """The entrance answers with a capital M and names no exception."""
    assert type(fault(403, [], b'{"Message":"Bearer Token has expired"}')) is UpstreamTokenInvalid
