"""Which paths belong to which format other than Kiro's, and what is done there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time
from types import MappingProxyType
from typing import Final
from uuid import uuid4

from attrs import frozen

from kiro_asgi.simulator.accounts import Accounts
from kiro_asgi.simulator.anthropic import ANTHROPIC
from kiro_asgi.simulator.builders import json_answer
from kiro_asgi.simulator.conversation import Conversation
from kiro_asgi.simulator.format import Endpoint, Format, Json
from kiro_asgi.simulator.gemini import GEMINI
from kiro_asgi.simulator.openai import OPENAI
from kiro_asgi.simulator.record import RecordedRequest
from kiro_asgi.simulator.scenarios import REPERTOIRE, MarkerEntry
from kiro_asgi.simulator.scripts import Script

__all__ = ["DOORS", "FORMATS", "FORMAT_MARKERS", "Door", "door_of"]

FORMATS: Final = (GEMINI, ANTHROPIC, OPENAI)
"""The formats that there are beside Kiro's.  No other module outside their folders names one."""

FORMAT_MARKERS: Final[Mapping[str, Mapping[str, MarkerEntry]]] = MappingProxyType(
    {form.name: form.repertoire.entries_beside(REPERTOIRE) for form in FORMATS}
)
"""Format to the markers that it knows and Kiro does not."""


@frozen
class Door:
    """One endpoint of one format."""

    endpoint: Endpoint
    format: Format

    @property
    def operation(self) -> str:
        """What it is called in ``RecordedRequest.operation``, e.g. ``gemini.chat``."""
        return f"{self.format.name}.{self.endpoint.does}"

    def answer(
        self,
        request: RecordedRequest,
        document: Json | None,
        accounts: Accounts,
        *,
        strict: bool,
        first_time: Callable[[str, Conversation], bool],
    ) -> Script:
        """The script for *request*, still to be spoken.

        Args:
            request: The request.
            document: Its body; ``None``: no JSON object.
            accounts: Whose keys are good.
            strict: Whether the request is checked.
            first_time: Whether a once-only marker strikes for a conversation.
        """
        form = self.format
        if request.method != self.endpoint.method:
            return form.refusal("404")
        key = form.key(request)
        if key in accounts.revoked:
            return form.refusal("token-invalid")
        if not key and form.keyless is not None:
            return form.keyless
        match self.endpoint.does:
            case "chat":
                return form.answer(request, document, strict=strict, first_time=first_time)
            case "models":
                return form.list_models(request)
            case "count":
                return form.count(request, document)
            case _:
                return _token(request, key, accounts.expires_in)

    def spoken(self, request: RecordedRequest, document: Json | None, script: Script) -> Script:
        """*script* in this door's format, if it is a chat's."""
        return self.format.speak(request, document, script) if self.endpoint.does == "chat" else script


def _token(request: RecordedRequest, key: str, expires_in: int) -> Script:
    """A short-lived token for *key*, another one each time, and where it is good for."""
    if not key:
        return json_answer(401, {"message": "Bad credentials", "status": "401"})
    expires_at = int(time()) + expires_in
    token = f"tid={uuid4().hex};exp={expires_at};sku=simulated"
    endpoints = {"api": f"http://{request.headers.get('host', 'localhost')}"}
    return json_answer(
        200, {"token": token, "expires_at": expires_at, "refresh_in": expires_in // 2, "endpoints": endpoints}
    )


DOORS: Final = tuple(Door(endpoint, form) for form in FORMATS for endpoint in form.endpoints)
"""Tried in order."""


def door_of(request: RecordedRequest) -> Door | None:
    """The door that *request* knocks at; ``None``: one of Kiro's, or none at all."""
    known = (door for door in DOORS if door.endpoint.path.fullmatch(request.path))
    return next((door for door in known if not door.endpoint.header or door.endpoint.header in request.headers), None)
