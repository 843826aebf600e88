"""Settings of Amazon Bedrock."""

from __future__ import annotations

import re
from typing import Final, Self

from attrs import evolve, frozen

from kiro_asgi.setting import LINE, PART, REGION, URL, Choices, Shape, setting
from kiro_asgi.upstreams.settings import DirectSettings

GEOGRAPHIES: Final = ("us", "eu", "apac", "jp", "au", "ca", "in", "us-gov", "global")
"""Prefixes of the inference profiles that AWS defines."""

NOWHERE: Final = "us-east-1"
"""Region where there is no account: for a simulator, and for a payload that is only shown."""

MODEL: Final = Shape(re.compile(r"[^=\s]{1,2048}(=[^=\s]{1,2048})?").fullmatch, "written as id or id=model behind it")


@frozen(kw_only=True)
class BedrockSettings(DirectSettings):
    """Models of an AWS account.  A Bedrock API key, or AWS credentials, which need the extra ``bedrock``.

    Without ``api_key`` the variable ``AWS_BEARER_TOKEN_BEDROCK`` counts, and without that the credentials that AWS's
    own tools find: variables, profiles, single sign-on, the container's, the instance's.
    """

    region: str = setting("", REGION)
    """Where models are asked.  Empty: ``AWS_REGION``, ``AWS_DEFAULT_REGION``, or the region of the profile."""

    profile: str = setting("", LINE)
    """Profile of AWS's configuration files whose credentials are used.  Empty: ``AWS_PROFILE``, or the default one."""

    control_endpoint: str = setting("", URL)
    """Base URL for lists of models.  Empty: ``endpoint``, or where that is empty, too, the region's."""

    geography: str = setting("", Choices(("", *GEOGRAPHIES)))
    """Inference profile for ids of models without one, e.g. ``eu`` for profiles that stay in Europe.  Empty: an id is
    sent as it is; many models can be asked by a profile only."""

    models: tuple[str, ...] = setting((), MODEL)
    """Ids and ARNs that no list of the account has: provisioned, imported and custom models, routers, profiles.  Each
    as ``id``, or as ``id=model`` where the id does not show which model is behind it."""

    claude_api: str = setting("invoke", Choices(("invoke", "converse")))
    """How Claude is asked: ``invoke`` is the whole Messages API; ``converse`` is for accounts that are allowed
    nothing else."""

    betas: tuple[str, ...] = setting((), PART)
    """Names of betas that every request to Claude asks for, as well as the client's."""

    guardrail: str = setting("", LINE)
    """Id or ARN of a guardrail for every request but those for embeddings.  Empty: none."""

    guardrail_version: str = setting("DRAFT", PART)
    """Version of the guardrail."""

    service_tier: str = setting("", Choices(("", "default", "flex", "priority", "reserved")))
    """Tier that requests are served in.  Empty: the account's."""

    latency: str = setting("", Choices(("", "standard", "optimized")))
    """Latency that is asked for.  Empty: the service's own choice."""

    @property
    def configured(self) -> bool:
        """Whether the service is to be asked at all: something of its own is set.  AWS's variables do not count."""
        return any((self.api_key, self.fallback_api_keys, self.endpoint, self.region, self.profile))

    def keyed(self, key: str) -> Self:
        """The same with *key* as the only one, in a region."""
        return evolve(self, api_key=key, fallback_api_keys=(), profile="", region=self.region or NOWHERE)

    def simulated(self, url: str) -> Self:
        """The same with a simulator at *url* as the service."""
        made = evolve(self, endpoint=url, control_endpoint="", headers=(), proxy="", profile="")
        return evolve(made, region=self.region or NOWHERE)
