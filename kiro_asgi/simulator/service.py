"""Decides which script answers a request; knows nothing of sockets."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.accounts import Accounts
from kiro_asgi.simulator.auxiliary import PROFILES, USAGE, mcp
from kiro_asgi.simulator.builders import json_answer, refusal
from kiro_asgi.simulator.catalogue import MODELS, Model, listing
from kiro_asgi.simulator.conversation import Conversation, as_map
from kiro_asgi.simulator.faults import BAD_TOKEN
from kiro_asgi.simulator.layouts import paced
from kiro_asgi.simulator.record import RecordedRequest
from kiro_asgi.simulator.rules import GENERAL, Asked, Refusal, bearer_present, check, token_type_fits
from kiro_asgi.simulator.scenarios import play
from kiro_asgi.simulator.scripts import Script
from kiro_asgi.simulator.tool_rules import TOOLS

__all__ = ["CHAT", "Answerer", "Service"]

CHAT: Final = "GenerateAssistantResponse"
Answerer = Callable[[RecordedRequest], Script | None]

PATHS: Final[Mapping[str, tuple[str, str]]] = {
    "/generateAssistantResponse": ("POST", CHAT),
    "/SendMessageStreaming": ("POST", CHAT),
    "/ListAvailableModels": ("GET", "ListAvailableModels"),
    "/List-Available-Models": ("POST", "ListAvailableModels"),
    "/ListAvailableProfiles": ("POST", "ListAvailableProfiles"),
    "/List-Available-Profiles": ("POST", "ListAvailableProfiles"),
    "/getUsageLimits": ("GET", "GetUsageLimits"),
    "/mcp": ("POST", "InvokeMCP"),
    "/refreshToken": ("POST", "RefreshToken"),
    "/token": ("POST", "CreateToken"),
    "/client/register": ("POST", "RegisterClient"),
    "/device_authorization": ("POST", "StartDeviceAuthorization"),
}
"""Path to its method and operation."""

TARGETS: Final[Mapping[str, str]] = {
    CHAT: CHAT,
    "SendMessage": CHAT,
    "ListAvailableModels": "ListAvailableModels",
    "ListAvailableProfiles": "ListAvailableProfiles",
    "GetUsageLimits": "GetUsageLimits",
}
"""Last part of ``X-Amz-Target`` to operation, for ``POST /``."""

MAX_FAILED_ONCE: Final = 10_000


@define
class Service:
    """The simulated service's mind."""

    pace: float = 0.0
    """Seconds of pause after every event."""

    models: tuple[Model, ...] | None = MODELS
    """What is on offer; ``None``: the model list is 404 and any name is taken."""

    strict: bool = True
    """Whether requests are checked as the service checks them."""

    accounts: Accounts = field(factory=Accounts)
    _queued: dict[str, deque[Script]] = field(init=False, factory=dict)
    _answerer: Answerer | None = field(init=False, default=None)
    _failed_once: dict[bytes, None] = field(init=False, factory=dict)

    def enqueue(self, *scripts: Script, operation: str = CHAT) -> None:
        """Answer the next requests for *operation* with *scripts*, one each, whatever they ask."""
        self._queued.setdefault(operation, deque()).extend(scripts)

    def answer_with(self, answerer: Answerer | None) -> None:
        """Ask *answerer* first about every request; where it returns ``None``, go on as usual."""
        self._answerer = answerer

    def script_for(self, request: RecordedRequest) -> Script:
        """The answer to *request*, whose ``operation`` is filled in."""
        method, request.operation = _operation(request)
        script = self._answerer(request) if self._answerer else None
        if script is not None:
            return script
        queued = self._queued.get(request.operation)
        if queued:
            return queued.popleft()
        if not request.operation:
            return refusal(404, "Not found.", error_type="UnknownOperationException")
        if request.method != method:
            document = {"message": "Method not allowed.", "reason": None}
            return json_answer(405, document, (("allow", method), ("x-amzn-errortype", "ValidationException")))
        return OPERATIONS[request.operation](self, request, _document(request))

    def _refused(self, asked: Asked) -> Refusal | None:
        if asked.token in self.accounts.revoked:
            return Refusal(403, BAD_TOKEN)
        if not self.strict:
            return None
        return check(asked, GENERAL + TOOLS)

    def chat(self, request: RecordedRequest, document: Mapping[str, Any] | None) -> Script:
        """``GenerateAssistantResponse``."""
        if document is None:
            return refusal(400, "Improperly formed request.", "REQUEST_BODY_INVALID_JSON")
        conversation = Conversation(document, rpc=request.path == "/")
        refused = self._refused(Asked(request.headers, conversation, self.models))
        if refused is not None:
            return refusal(refused.status, refused.message, refused.reason)
        script = play(conversation, lambda marker: self._first_time(marker, conversation))
        return paced(script, self.pace) if self.pace else script

    def _first_time(self, marker: str, conversation: Conversation) -> bool:
        told = [marker, conversation.content, *(str(message.get("content")) for _, message in conversation.history)]
        key = hashlib.sha256("\0".join(told).encode(errors="surrogatepass")).digest()
        if key in self._failed_once:
            return False
        self._failed_once[key] = None
        if len(self._failed_once) > MAX_FAILED_ONCE:
            del self._failed_once[next(iter(self._failed_once))]
        return True

    def _guarded(self, request: RecordedRequest, document: Any) -> Script:
        """Answer with *document* if there is a good bearer token."""
        asked = Asked(request.headers, Conversation({}), None)
        refused = check(asked, (bearer_present, token_type_fits))
        if refused is None and asked.token in self.accounts.revoked:
            refused = Refusal(403, BAD_TOKEN)
        return (
            json_answer(200, document) if refused is None else refusal(refused.status, refused.message, refused.reason)
        )

    def list_models(self, request: RecordedRequest, document: Mapping[str, Any] | None) -> Script:
        """``ListAvailableModels``."""
        if self.models is None:
            return refusal(404, "Not found.", error_type="UnknownOperationException")
        return self._guarded(request, listing(self.models))

    def list_profiles(self, request: RecordedRequest, document: Mapping[str, Any] | None) -> Script:
        """``ListAvailableProfiles``."""
        return self._guarded(request, PROFILES)

    def usage(self, request: RecordedRequest, document: Mapping[str, Any] | None) -> Script:
        """``GetUsageLimits``."""
        return self._guarded(request, USAGE)

    def call_mcp(self, request: RecordedRequest, document: Mapping[str, Any] | None) -> Script:
        """``/mcp``."""
        return self._guarded(request, mcp(as_map(document)))


def _operation(request: RecordedRequest) -> tuple[str, str]:
    if request.path == "/":
        return "POST", TARGETS.get(request.headers.get("x-amz-target", "").rpartition(".")[2], "")
    return PATHS.get(request.path, ("", ""))


def _document(request: RecordedRequest) -> Mapping[str, Any] | None:
    try:
        document = json.loads(request.body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


OPERATIONS: Final[Mapping[str, Callable[[Service, RecordedRequest, Mapping[str, Any] | None], Script]]] = {
    CHAT: Service.chat,
    "ListAvailableModels": Service.list_models,
    "ListAvailableProfiles": Service.list_profiles,
    "GetUsageLimits": Service.usage,
    "InvokeMCP": Service.call_mcp,
    "RefreshToken": lambda service, _, document: service.accounts.refresh_social(document or {}),
    "CreateToken": lambda service, _, document: service.accounts.create_token(document or {}),
    "RegisterClient": lambda service, _, document: service.accounts.register_client(document or {}),
    "StartDeviceAuthorization": lambda service, _, document: service.accounts.authorize_device(document or {}),
}
