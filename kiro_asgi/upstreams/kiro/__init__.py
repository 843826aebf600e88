"""The Kiro service (formerly Amazon Q Developer, CodeWhisperer): a streaming API of its own behind AWS-style doors.

Source: https://github.com/aws/amazon-q-developer-cli (the open-source client)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from attrs import Attribute, define, field, setters, validators

from kiro_asgi.errors import ConfigError, KiroAsgiError
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered, UpstreamRequest
from kiro_asgi.upstreams.kiro import models
from kiro_asgi.upstreams.kiro.answer import stages
from kiro_asgi.upstreams.kiro.auth import REGION, authorization, credential, region_of
from kiro_asgi.upstreams.kiro.faults import fault
from kiro_asgi.upstreams.kiro.request import DESCRIPTION_LIMIT, Wording, document
from kiro_asgi.wire.json import dumps

__all__ = ["KiroUpstream", "credential"]

TARGET: Final = b"AmazonCodeWhispererStreamingService.GenerateAssistantResponse"

DOORS: Final = MappingProxyType(
    {
        "rest": ("/generateAssistantResponse", ((b"content-type", b"application/json"),)),
        "rpc": ("/", ((b"content-type", b"application/x-amz-json-1.0"), (b"x-amz-target", TARGET))),
    }
)
"""Wire style to the path of the one operation, and the headers that name it.  Same body, same answer."""


def _check_region(_: Any, __: Attribute[str], value: str) -> None:
    if not REGION.fullmatch(value):
        raise ConfigError(f"{value!r} is not the name of a region", code="kiro.region")


def _check_header(_: Any, attribute: Attribute[str], value: str) -> None:
    if not re.fullmatch(r"[!-~](?:[ -~]*[!-~])?", value):
        raise ConfigError(f"kiro.{attribute.name} cannot stand in a header", code="kiro.header")


def _check_style(_: Any, __: Attribute[str], value: str) -> None:
    if value not in DOORS:
        raise ConfigError(f"kiro.wire_style is one of {', '.join(DOORS)}, not {value!r}", code="kiro.wire_style")


def _new_id() -> str:
    return str(uuid4())


@define(kw_only=True, on_setattr=setters.frozen)
class KiroUpstream:
    """How one Kiro service is talked to; holds no state and no secret.

    Raises:
        ConfigError: A setting that cannot work.
    """

    name: str = "kiro"
    endpoint: str = ""
    """Base URL.  Empty: the public host of the profile's region, else of *region*."""

    region: str = field(default="us-east-1", validator=_check_region)
    wire_style: str = field(default="rest", validator=_check_style)
    """``rest`` (POST /generateAssistantResponse) or ``rpc`` (POST / with X-Amz-Target)."""

    user_agent: str = field(default="kiro-asgi", validator=_check_header)
    """What we call ourselves."""

    origin: str = field(default="AI_EDITOR", validator=_check_header)
    agent_mode: str = field(default="vibe", validator=_check_header)
    checksums: str = field(default="strict", validator=validators.in_(("strict", "warn", "off")))
    """What a wrong frame checksum means, see `kiro_asgi.wire.eventstream.FrameDecoder`."""

    fake_reasoning: bool = True
    """Ask for thinking in tags where a model has no native thinking."""

    replay_thinking: bool = True
    """Hand signed thinking of earlier answers back."""

    description_limit: int = DESCRIPTION_LIMIT
    """Characters of a tool description; what is beyond moves to the system text."""

    new_id: Callable[[], str] = _new_id
    """Makes the UUID of a conversation, and that of a call."""

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential) -> Rendered:
        """Put *prompt* into the service's words.

        Raises:
            RequestError: Code ``unsupported_value``: an image or document by address, or in a format that the service
                does not know.
        """
        wording = Wording(
            origin=self.origin,
            agent_mode=self.agent_mode,
            fake_reasoning=self.fake_reasoning,
            replay_thinking=self.replay_thinking,
            description_limit=self.description_limit,
        )
        written = document(prompt, model, wording, conversation_id=self.new_id(), profile_arn=_profile(credential))
        path, door = DOORS[self.wire_style]
        headers = (*door, *self._chat_headers(), *self._headers(credential))
        request = UpstreamRequest("POST", self.base_url(credential) + path, headers, dumps(written.body))
        return Rendered(request, written.names.changed(), written.thinking_tags, written.notes)

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Fresh stages, bytes to `Delta`, for an answer of this media type.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        return stages(content_type, self.checksums)

    def fault(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
        """The error that an answer with a *status* other than 200 means; see `kiro_asgi.upstreams.kiro.faults`."""
        return fault(status, headers, body)

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        """Ask for the list of models; `kiro_asgi.upstreams.kiro.models.parse_models` reads the answer."""
        headers = ((b"accept", b"application/json"), *self._headers(credential))
        return models.models_request(
            self.base_url(credential), _profile(credential), headers, origin=self.origin, page=page
        )

    def base_url(self, credential: Credential) -> str:
        """Where calls with *credential* go, without a slash at the end."""
        region = region_of(_profile(credential)) or self.region
        return self.endpoint.rstrip("/") or f"https://q.{region}.amazonaws.com"

    def _chat_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        return (
            (b"accept", b"application/vnd.amazon.eventstream"),
            (b"x-amzn-codewhisperer-optout", b"true"),
            (b"x-amzn-kiro-agent-mode", self.agent_mode.encode()),
            (b"amz-sdk-invocation-id", self.new_id().encode()),
        )

    def _headers(self, credential: Credential) -> tuple[tuple[bytes, bytes], ...]:
        return (
            *authorization(credential),
            (b"accept-encoding", b"identity"),
            (b"user-agent", self.user_agent.encode()),
        )


def _profile(credential: Credential) -> str:
    """The profile to name: never with an API key, which has none."""
    return "" if credential.kind is CredentialKind.API_KEY else credential.profile_arn
