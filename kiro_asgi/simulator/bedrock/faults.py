"""What Amazon Bedrock says when it refuses or fails.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.simulator.builders import json_answer
from kiro_asgi.simulator.scripts import Script

__all__ = ["FAILURES", "REFUSALS", "BedrockFailure", "envelope", "refusal"]

VALIDATION: Final = "ValidationException"
THROTTLING: Final = "ThrottlingException"
UNAVAILABLE: Final = "ServiceUnavailableException"

REFUSALS: Final[Mapping[str, tuple[int, str, str]]] = {
    "429": (429, THROTTLING, "Too many requests, please wait before trying again."),
    "suspicious": (429, THROTTLING, "Too many tokens, please wait before trying again."),
    "daily": (429, THROTTLING, "Too many tokens per day, please wait before trying again."),
    "quota": (400, "ServiceQuotaExceededException", "Your request exceeds the service quota for your account."),
    "overage": (400, "ServiceQuotaExceededException", "Your account has reached its spend limit."),
    "overloaded": (503, UNAVAILABLE, "Bedrock is unable to process your request."),
    "403": (403, "AccessDeniedException", "You don't have access to the model with the specified model ID."),
    "token-invalid": (403, "UnrecognizedClientException", "The security token included in the request is invalid."),
    "suspended": (403, "AccessDeniedException", "Operation not allowed"),
    "404": (404, "ResourceNotFoundException", "This model version has reached the end of its life."),
    "500": (500, "InternalServerException", "The system encountered an unexpected error during processing."),
    "503": (503, UNAVAILABLE, "Too many connections, please wait before trying again."),
    "too-long": (400, VALIDATION, "Input is too long for requested model."),
    "bad-request": (400, VALIDATION, "Malformed input request, please reformat your input and try again."),
    "bad-model": (400, VALIDATION, "The provided model identifier is invalid."),
    "bad-signature": (
        400,
        VALIDATION,
        "The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "not-ready": (429, "ModelNotReadyException", "The model is not ready for inference. Try again later."),
    "model-timeout": (408, "ModelTimeoutException", "The model took too long to answer."),
    "model-error": (424, "ModelErrorException", "The model could not process the request."),
}
"""Refusals before the stream: status, exception, message."""

MORE: Final[Mapping[str, Mapping[str, Any]]] = {
    "ModelErrorException": {"originalStatusCode": 500, "resourceName": "simulated"},
    "ModelStreamErrorException": {"originalStatusCode": 500, "originalMessage": "Internal server error"},
}
"""Exception to its members beside the message."""


@frozen
class BedrockFailure:
    """An exception within a stream."""

    status: int
    """Of the response where the answer is collected."""

    name: str
    """As the member of the stream's union is spelt."""

    message: str

    @property
    def kind(self) -> str:
        """Name of the exception as a response has it."""
        return self.name[0].upper() + self.name[1:]

    @property
    def members(self) -> dict[str, Any]:
        """Payload of the frame."""
        return envelope(self.kind, self.message)


FAILURES: Final[Mapping[str, BedrockFailure]] = {
    "InternalServerException": BedrockFailure(500, "internalServerException", REFUSALS["500"][2]),
    "ThrottlingException": BedrockFailure(429, "throttlingException", REFUSALS["429"][2]),
    "ValidationException": BedrockFailure(400, "validationException", REFUSALS["bad-request"][2]),
    "ServiceUnavailableException": BedrockFailure(503, "serviceUnavailableException", REFUSALS["overloaded"][2]),
    "ModelStreamErrorException": BedrockFailure(424, "modelStreamErrorException", REFUSALS["model-error"][2]),
    "ContentLengthExceededException": BedrockFailure(
        424, "modelStreamErrorException", "The answer is longer than the model can write."
    ),
}
"""Exceptions of a script to those of a stream."""


def envelope(kind: str, message: str) -> dict[str, Any]:
    """The body of an error, or the payload of an exception's frame."""
    return {"message": message, **MORE.get(kind, {})}


def refusal(status: int, kind: str, message: str, retry_after: str = "") -> Script:
    """A refusal before the stream."""
    headers: tuple[tuple[str, str], ...] = (
        ("x-amzn-errortype", f"{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/"),
    )
    if retry_after:
        headers += (("retry-after", retry_after),)
    return json_answer(status, envelope(kind, message), headers)
