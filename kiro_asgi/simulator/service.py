"""Chooses the script that answers a request, without any socket."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import partial
from time import time
from typing import Any, Final
from urllib.parse import parse_qsl
from uuid import uuid4

from attrs import define, field

from kiro_asgi.simulator.conversation import Conversation, as_map
from kiro_asgi.simulator.format import FormatEndpoint, Holder, Refused, SimulatedFormat
from kiro_asgi.simulator.formats import find_endpoint
from kiro_asgi.simulator.kiro.accounts import Accounts, mcp, profiles
from kiro_asgi.simulator.kiro.checks import RULES
from kiro_asgi.simulator.kiro.document import KiroDocument
from kiro_asgi.simulator.kiro.encoder import encode_script
from kiro_asgi.simulator.kiro.faults import BAD_TOKEN
from kiro_asgi.simulator.kiro.hosts import CHAT, KIRO, host_of, profile_in, serves
from kiro_asgi.simulator.kiro.message_checks import ACCESS, KiroRequest, Refusal, check
from kiro_asgi.simulator.kiro.models import MODELS, listing
from kiro_asgi.simulator.markers import play
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.request import RecordedRequest, bearer
from kiro_asgi.simulator.scripts import Script, json_answer, paced, refusal

SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""Beginning of the escape of a half of a surrogate pair."""


def document_of(request: RecordedRequest) -> Mapping[str, Any] | None:
    """The body; ``None`` unless it is an object in UTF-8, without ``NaN`` and without halves of surrogate pairs."""
    try:
        document = json.loads(request.body.decode(), parse_constant=_refuse_constant)
        if SURROGATE.search(request.body):
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def form_of(request: RecordedRequest) -> dict[str, str]:
    """The fields of a form; empty unless the body is announced as one."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return {}
    return dict(parse_qsl(request.body.decode("latin-1")))


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
    "/oauth/device/authorization": ("POST", "StartSocialAuthorization"),
    "/oauth/device/poll": ("POST", "PollSocialAuthorization"),
    "/oauth2/v2.0/token": ("POST", "CreateExternalToken"),
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

REGION: Final = re.compile(r"/([a-z]{2}(?:-[a-z]+)+-[0-9])(/.*)")

MAX_FAILED_ONCE: Final = 10_000


@define
class SimulatedService:
    """The simulated services: scripts of a test, else answers by rules and markers."""

    pace: float = 0.0
    """Seconds of pause after every event."""

    models: tuple[Model, ...] | None = MODELS
    """The models that are offered; ``None``: the model list is 404 and any name is taken."""

    strict: bool = True
    """Whether requests are checked as the service checks them."""

    accounts: Accounts = field(factory=Accounts)
    clock_ahead: float = 0.0
    """Seconds that the service's clock is ahead of this machine's, in the ``date`` of answers other than the chat's."""

    calls: Counter[str] = field(init=False, factory=Counter)
    """Operation to the number of its requests."""

    _queued: dict[str, deque[Script]] = field(init=False, factory=dict)
    _answerer: Answerer | None = field(init=False, default=None)
    _failed_once: dict[bytes, None] = field(init=False, factory=dict)
    _holders: dict[str, Holder] = field(init=False, factory=dict)
    """Name of a format to what is held in it."""

    def enqueue(self, *scripts: Script, operation: str = CHAT) -> None:
        """Answer the next requests for *operation* with *scripts*, one each, whatever they ask."""
        self._queued.setdefault(operation, deque()).extend(scripts)

    def reset(self) -> None:
        """Drop the scripts that no request has come for, and the answerer."""
        self._queued.clear()
        self._answerer = None

    def answer_with(self, answerer: Answerer | None) -> None:
        """Ask *answerer* first about every request; where it returns ``None``, go on as usual."""
        self._answerer = answerer

    def script_for(self, request: RecordedRequest) -> Script:
        """Return the answer to *request*, and fill in its ``operation``."""
        found = find_endpoint(request)
        if found is not None:
            return self._in_format(*found, request)
        return encode_script(self._by_kiro(request))

    def _by_kiro(self, request: RecordedRequest) -> Script:
        method, request.operation = _operation(request)
        script = self._scripted(request)
        if script is not None:
            return script
        if not request.operation:
            return refusal(404, "Not found.", error_type="UnknownOperationException")
        misplaced = self._misplaced(request)
        if misplaced is not None:
            return misplaced
        if request.method != method:
            document = {"message": "Method not allowed.", "reason": None}
            return json_answer(405, document, (("allow", method), ("x-amzn-errortype", "ValidationException")))
        return OPERATIONS[request.operation](self, request, document_of(request))

    def _misplaced(self, request: RecordedRequest) -> Script | None:
        """The refusal of a request for another host; ``None`` where it is for this one."""
        host = host_of(request)
        if host.family and not serves(host, request.operation, request):
            return refusal(404, "Not found.", error_type="UnknownOperationException")
        takers = self.accounts.hosts.get(bearer(request), self.accounts.hosts[""])
        if host.family and host.family not in takers:
            return refusal(403, BAD_TOKEN)
        announced = request.headers.get("tokentype", "").upper() == "API_KEY"
        if announced or profile_in(request, document_of(request)):
            return None
        if host.family == KIRO and request.operation in (CHAT, "InvokeMCP"):
            return refusal(400, "profileArn is required for this request.")
        if self.accounts.profile_required and request.operation in ("ListAvailableModels", "GetUsageLimits"):
            return refusal(403, "User is not authorized to make this call.")
        return None

    def _scripted(self, request: RecordedRequest) -> Script | None:
        """Return the script that a test has set for *request*, if any."""
        self.calls[request.operation] += 1
        script = self._answerer(request) if self._answerer else None
        queued = self._queued.get(request.operation)
        return queued.popleft() if script is None and queued else script

    def _in_format(self, form: SimulatedFormat, endpoint: FormatEndpoint, request: RecordedRequest) -> Script:
        """The answer to *request* in another format than Kiro's."""
        request.operation = f"{form.name}.{endpoint.does}"
        document = document_of(request)
        holder = self._holders.setdefault(form.name, form.holder())
        try:
            document = None if document is None else holder.whole(document)
        except Refused as refused:
            return refused.script
        script = self._scripted(request)
        if script is None:
            script = self._answer_in(form, endpoint, request, document)
            script = paced(script, self.pace) if self.pace else script
        if endpoint.does != "chat":
            return script
        if document is not None:
            holder.hold(document, partial(form.collected, request, document, script))
        return form.encode(request, document, script)

    def _answer_in(
        self,
        form: SimulatedFormat,
        endpoint: FormatEndpoint,
        request: RecordedRequest,
        document: Mapping[str, Any] | None,
    ) -> Script:
        if request.method != endpoint.method:
            return form.refusal("404")
        key = form.read_key(request)
        if key in self.accounts.revoked:
            return form.refusal("token-invalid")
        if not key and form.no_key is not None:
            return form.no_key
        if (refused := form.check_signature(request)) is not None:
            return refused
        match endpoint.does:
            case "chat":
                return form.chat(request, document, strict=self.strict, first_time=self._first_time)
            case "embed":
                return form.embed(request, document)
            case "models":
                return form.list_models(request)
            case "count":
                return form.count(request, document)
            case _:
                return _short_lived_token(request, key, self.accounts.expires_in)

    def _refused(self, kiro_request: KiroRequest) -> Refusal | None:
        if kiro_request.token in self.accounts.revoked:
            return Refusal(403, BAD_TOKEN)
        if not self.strict:
            return None
        return check(kiro_request, RULES)

    def chat(self, request: RecordedRequest, document: Mapping[str, Any] | None) -> Script:
        """``GenerateAssistantResponse``."""
        if document is None:
            return refusal(400, "Improperly formed request.", "REQUEST_BODY_INVALID_JSON")
        asked = KiroDocument(document, rpc=_place(request.path)[1] == "/")
        refused = self._refused(KiroRequest(request.headers, asked, self.models, len(request.body)))
        if refused is not None:
            return refusal(refused.status, refused.message, refused.reason)
        conversation = asked.conversation
        script = play(conversation, lambda marker: self._first_time(marker, conversation))
        return paced(script, self.pace) if self.pace else script

    def _first_time(self, marker: str, conversation: Conversation) -> bool:
        texts = [marker, conversation.content, *conversation.earlier]
        key = hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).digest()
        if key in self._failed_once:
            return False
        self._failed_once[key] = None
        if len(self._failed_once) > MAX_FAILED_ONCE:
            del self._failed_once[next(iter(self._failed_once))]
        return True

    def _guarded(self, request: RecordedRequest, document: Any) -> Script:
        """Answer with *document* if there is a good bearer token."""
        kiro_request = KiroRequest(request.headers, KiroDocument({}), None)
        refused = check(kiro_request, ACCESS)
        if refused is None and kiro_request.token in self.accounts.revoked:
            refused = Refusal(403, BAD_TOKEN)
        if refused is not None:
            return refusal(refused.status, refused.message, refused.reason)
        return json_answer(200, document, (("date", formatdate(time() + self.clock_ahead, usegmt=True)),))

    def list_models(self, request: RecordedRequest, document: Mapping[str, Any] | None) -> Script:
        """``ListAvailableModels``."""
        if self.models is None:
            return refusal(404, "Not found.", error_type="UnknownOperationException")
        return self._guarded(request, listing(self.models))

    def list_profiles(self, request: RecordedRequest, document: Mapping[str, Any] | None) -> Script:
        """``ListAvailableProfiles``."""
        region = host_of(request).region or _place(request.path)[0]
        if region in self.accounts.profiles_denied:
            return refusal(403, "User is not authorized to make this call.")
        known = self.accounts.profiles
        return self._guarded(request, profiles(known.get(region, known.get("", ()))))

    def usage(self, request: RecordedRequest, document: Mapping[str, Any] | None) -> Script:
        """``GetUsageLimits``."""
        return self._guarded(request, self.accounts.usage)

    def call_mcp(self, request: RecordedRequest, document: Mapping[str, Any] | None) -> Script:
        """``/mcp``."""
        return self._guarded(request, mcp(as_map(document)))


def _short_lived_token(request: RecordedRequest, key: str, expires_in: int) -> Script:
    """A token for *key*, another one each time, and the address at which it is good."""
    if not key:
        return json_answer(401, {"message": "Bad credentials", "status": "401"})
    expires_at = int(time()) + expires_in
    token = f"tid={uuid4().hex};exp={expires_at};sku=simulated"
    endpoints = {"api": f"http://{request.headers.get('host', 'localhost')}"}
    return json_answer(
        200, {"token": token, "expires_at": expires_at, "refresh_in": expires_in // 2, "endpoints": endpoints}
    )


def _operation(request: RecordedRequest) -> tuple[str, str]:
    _, path = _place(request.path)
    if path == "/":
        return "POST", TARGETS.get(request.headers.get("x-amz-target", "").rpartition(".")[2], "")
    return PATHS.get(path, ("", ""))


def _place(path: str) -> tuple[str, str]:
    """The region that a path begins with, if any, and the rest: one simulator stands for the hosts of all regions."""
    match = REGION.match(path)
    return (match[1], match[2]) if match else ("", path)


OPERATIONS: Final[Mapping[str, Callable[[SimulatedService, RecordedRequest, Mapping[str, Any] | None], Script]]] = {
    CHAT: SimulatedService.chat,
    "ListAvailableModels": SimulatedService.list_models,
    "ListAvailableProfiles": SimulatedService.list_profiles,
    "GetUsageLimits": SimulatedService.usage,
    "InvokeMCP": SimulatedService.call_mcp,
    "RefreshToken": lambda service, _, document: service.accounts.refresh_social(document or {}),
    "CreateToken": lambda service, _, document: service.accounts.create_token(document or {}),
    "RegisterClient": lambda service, _, document: service.accounts.register_client(document or {}),
    "StartDeviceAuthorization": lambda service, _, document: service.accounts.devices.authorize(document or {}),
    "StartSocialAuthorization": lambda service, _, document: service.accounts.devices.authorize_social(document or {}),
    "PollSocialAuthorization": lambda service, _, document: service.accounts.poll_social(document or {}),
    "CreateExternalToken": lambda service, request, _: service.accounts.refresh_external(form_of(request)),
}
