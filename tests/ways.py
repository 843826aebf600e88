"""Why a request is translated for a service of its own API, without a server: as the gateway decides it."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from kiro_asgi.asgi.exchange.passthrough import Reason, Way, reason_to_translate
from kiro_asgi.asgi.kept.server_tools import Toolbox
from kiro_asgi.config import StreamSettings
from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.dialects.passthrough import TransparentDialect
from kiro_asgi.errors import RequestError
from kiro_asgi.model.understood import understood
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Upstream, remedies_of
from kiro_asgi.upstreams.settings import AnswerOptions

CONVERSATION = "00000000-0000-4000-8000-000000000000"
OPTIONS = AnswerOptions(first_event_timeout=1.0, thinking_first_event_timeout=1.0, thinking_tags=("think",))
KEY = Credential(CredentialKind.API_KEY, "k")


def why_translated(
    own: TransparentDialect, body: bytes, upstream: Upstream, credential: Credential = KEY, **facts: Any
) -> str:
    """The reason by its name; empty where the request goes on as it is.

    Raises:
        RequestError: It could go nowhere.
    """
    refusal: RequestError | None = None
    try:
        parsed = own.parse(body)
    except RequestError as error:
        refusal, parsed = error, own.head(body, error)
    standing: dict[str, Any] = {
        "toolbox": Toolbox(),
        "answer_options": OPTIONS,
        "stream": StreamSettings(),
        "dialect": own,
    }
    standing["remedies"] = remedies_of(upstream)
    passed = own.passed(body)
    looked = {"body": passed and passed.body, "misspelt": passed is not None and passed.misspelt}
    way = Way(**{**looked, "forwarding": upstream.forwarding, "parsed": parsed, **standing, **facts})
    reason = reason_to_translate(way)
    if reason is None and refusal is None:
        reason = _once_made(way, parsed, upstream, credential)
    return "" if reason is None else reason.name


def _once_made(way: Way, parsed: ParsedRequest, upstream: Upstream, credential: Credential) -> Reason | None:
    try:
        prompt, notes = understood(parsed.prompt, upstream.traits.api), ()
        if prompt.tools:
            prompt, notes = way.toolbox.offered(prompt)
        asked = upstream.render(prompt, ModelCard(prompt.model), credential, CONVERSATION)
    except RequestError:  # the service judges it
        return None
    return reason_to_translate(way.rendered(evolve(parsed, prompt=prompt), asked, notes, False))
