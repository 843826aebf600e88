"""From settings, and AWS's own variables, to everything that it takes to ask Bedrock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from attrs import evolve

from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.access import Keys
from kiro_asgi.upstreams.bedrock.models import set_cards
from kiro_asgi.upstreams.bedrock.rules import RULES
from kiro_asgi.upstreams.bedrock.settings import BedrockSettings
from kiro_asgi.upstreams.bedrock.upstream import BedrockUpstream, host
from kiro_asgi.upstreams.direct import common, direct_setup
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.net.aws import REGIONS, Signer, environment, key_life, region_in
from kiro_asgi.upstreams.setup import Setup

__all__ = ["set_up"]

NOWHERE: Final = "us-east-1"
"""Region of who is not set up."""

SERVICE: Final = "bedrock"
"""What signatures call the service, its lists of models as well."""

KEY: Final = "AWS_BEARER_TOKEN_BEDROCK"
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL")
CONTROL_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_BEDROCK", "AWS_ENDPOINT_URL")


def set_up(configured: Configured[BedrockSettings]) -> Setup:
    """Everything that it takes to ask the service that is configured; what is set counts more than AWS's variables.

    Raises:
        ConfigError: A setting that cannot work: no region, or no botocore where there is no key.
    """
    settings, path, environ = configured.settings, configured.path, environment()
    named = settings.keys(path)
    if not named[0][1]:
        key = "" if settings.profile else environ.get(KEY, "")
        named = ((KEY, key),) if key else ((f"{path}.profile", ""),)
    region = settings.region or region_in(environ)
    if not settings.configured:  # only asked what it is, not to ask anybody
        region = region or NOWHERE
    signer = _signer(settings, path, named[0][1], region)
    region = region if signer is None else signer.region
    if not region and (signer is not None or not settings.endpoint):
        raise ConfigError(f"{path}.region: must be set where {' and '.join(REGIONS)} are not", code="bedrock.region")
    endpoint = settings.endpoint or _first(environ, ENDPOINTS) or host("bedrock-runtime", region)
    control = settings.control_endpoint or settings.endpoint or _first(environ, CONTROL_ENDPOINTS)
    shared = common(configured)
    upstream = BedrockUpstream(
        name=shared["name"],
        user_agent=shared["user_agent"],
        headers=shared["headers"],
        replay_thinking=shared["replay_thinking"],
        endpoint=endpoint,
        control=control or host("bedrock", region),
        geography=settings.geography,
        invokes=settings.claude_api == "invoke",
        betas=settings.betas,
        extra=dict(_members(settings)),
        invoke_headers=tuple(_headers(settings)),
        sign=None if signer is None else signer.sign,
        builtin=set_cards(settings.models),
    )
    setup = direct_setup(configured, upstream, RULES, endpoint, sign=upstream.sign)
    assert isinstance(setup.access, Keys)
    examine = partial(key_life, named[0][1]) if signer is None else signer.chosen
    return evolve(setup, access=evolve(setup.access, named=named, examine=examine))


def _signer(settings: BedrockSettings, path: str, key: str, region: str) -> Signer | None:
    """What signs where there is no key; nothing for a server of somebody's own, of which no more is said."""
    unsaid = not settings.region and not settings.profile
    if key or (unsaid and (settings.endpoint or not settings.configured)):
        return None
    return Signer(settings.profile, region, SERVICE, path)


def _first(environ: Mapping[str, str], names: Iterable[str]) -> str:
    """The first of the variables that is set."""
    return next(filter(None, (environ.get(name, "") for name in names)), "")


def _members(settings: BedrockSettings) -> Iterator[tuple[str, Any]]:
    """Members of every body of Converse."""
    if settings.guardrail:
        guardrail = {"guardrailIdentifier": settings.guardrail, "guardrailVersion": settings.guardrail_version}
        yield "guardrailConfig", guardrail
    if settings.latency:
        yield "performanceConfig", {"latency": settings.latency}
    if settings.service_tier:
        yield "serviceTier", {"type": settings.service_tier}


def _headers(settings: BedrockSettings) -> Iterator[tuple[bytes, bytes]]:
    """The same as headers of InvokeModel."""
    if settings.guardrail:
        yield b"x-amzn-bedrock-guardrailidentifier", settings.guardrail.encode()
        yield b"x-amzn-bedrock-guardrailversion", settings.guardrail_version.encode()
    if settings.latency:
        yield b"x-amzn-bedrock-performanceconfig-latency", settings.latency.encode()
    if settings.service_tier:
        yield b"x-amzn-bedrock-service-tier", settings.service_tier.encode()
