"""The addresses of the service, and which of them a credential is sent to.

The service has two addresses, one for answers and web searches, one for lists: models, profiles, usage.  And it has two
families of hosts, an old one, where both are the same host, and a new one.  Which of them takes a credential is nowhere
written down: the old hosts have been announced to end, and go on answering; the new ones demand a profile, which some
accounts have not.  So where a host says that a credential does not belong there, the other family is asked.

=============  =============================  ================================  =================================
family         answers                        lists                             form
=============  =============================  ================================  =================================
``kiro.dev``   ``runtime.<region>.kiro.dev``  ``management.<region>.kiro.dev``  ``POST /`` with ``X-Amz-Target``
``amazonaws``  ``q.<region>.amazonaws.com``   the same                          a path, or the same with targets
=============  =============================  ================================  =================================

No other module of this upstream names a host.

Sources: https://github.com/aws/amazon-q-developer-cli (endpoints, targets), https://kiro.dev/docs (hosts of the editor)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from attrs import evolve, field, frozen

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.upstreams.base import Credential, CredentialKind, UpstreamRequest
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.wire.json import dumps

REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-[0-9]")
"""The format of a region, which becomes part of a host name."""

REGIONS: Final[tuple[str, ...]] = ("us-east-1", "eu-central-1")
"""Regions of the service.

Source: https://github.com/aws/amazon-q-developer-cli (its constants)
"""

Headers = tuple[tuple[bytes, bytes], ...]


@frozen
class Family:
    """Hosts that belong together."""

    name: str
    """As in ``kiro.hosts``."""

    generation: str
    """Base URL for answers, by region."""

    management: str
    """Base URL for lists, by region."""

    style: str = ""
    """The form of requests to its hosts, as ``kiro.wire_style``; empty where they know both."""


KIRO: Final = Family("kiro.dev", "https://runtime.{}.kiro.dev", "https://management.{}.kiro.dev", "rpc")
AMAZON: Final = Family("amazonaws", "https://q.{}.amazonaws.com", "https://q.{}.amazonaws.com")

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType({family.name: family for family in (KIRO, AMAZON)})

AUTO: Final = "auto"

GENERATION: Final = "generation"
MANAGEMENT: Final = "management"
"""What an address is for: answers and searches, or lists."""

_LISTS: Final = "rest"
"""The form in which lists are asked for where a host knows both."""

_RUNTIME: Final = re.compile(r"(https://)runtime(\.[^/:]+\.kiro\.dev)")


@frozen
class Operation:
    """One operation, in both forms."""

    name: str
    method: str
    path: str
    targets: Mapping[str, str]
    """Family to the name of the API in ``X-Amz-Target``."""


def _operation(name: str, method: str, path: str, kiro: str, amazon: str) -> Operation:
    return Operation(name, method, path, MappingProxyType({KIRO.name: kiro, AMAZON.name: amazon}))


GENERATE: Final = _operation(
    "GenerateAssistantResponse",
    "POST",
    "/generateAssistantResponse",
    "KiroRuntimeService",
    "AmazonCodeWhispererStreamingService",
)
MODELS: Final = _operation(
    "ListAvailableModels",
    "GET",
    "/ListAvailableModels",
    "KiroControlPlaneBearerService",
    "AmazonCodeWhispererService",
)
USAGE: Final = _operation(
    "GetUsageLimits", "GET", "/getUsageLimits", "KiroControlPlaneBearerService", "AmazonCodeWhispererService"
)
PROFILES: Final = _operation(
    "ListAvailableProfiles",
    "POST",
    "/ListAvailableProfiles",
    "AmazonCodeWhispererService",
    "AmazonCodeWhispererService",
)

MCP: Final = "/mcp"
"""Path of the service's own tools, in both forms."""


@frozen
class Address:
    """Where a request goes."""

    base: str
    """URL without a slash at the end."""

    family: Family
    """The hosts that it belongs to, or whose form it has."""

    style: str
    """``rest`` or ``rpc``."""

    def request(
        self, operation: Operation, fields: Mapping[str, Any], headers: Headers, body: bytes | None = None
    ) -> UpstreamRequest:
        """Ask for *operation*.

        Args:
            operation: What to ask for.
            fields: Its parameters: a body, or in the form of paths the query of a ``GET``.
            headers: Further headers.
            body: The body, where it was written before; ``None`` for *fields*.
        """
        data = dumps(dict(fields)) if body is None else body
        if self.style == "rpc":
            target = f"{operation.targets[self.family.name]}.{operation.name}".encode()
            naming = ((b"content-type", b"application/x-amz-json-1.0"), (b"x-amz-target", target), *headers)
            return UpstreamRequest("POST", f"{self.base}/", naming, data)
        if operation.method == "GET":
            return UpstreamRequest("GET", f"{self.base}{operation.path}?{urlencode(fields)}", headers)
        typed = ((b"content-type", b"application/json"), *headers)
        return UpstreamRequest("POST", self.base + operation.path, typed, data)


@frozen
class KiroHosts:
    """The addresses by the settings; a `kiro_asgi.upstreams.access.Hosts`."""

    settings: KiroSettings = field(factory=KiroSettings)

    def generation(self, credential: Credential) -> Address:
        """Where answers and web searches are asked for."""
        wanted = self.settings.wire_style
        if endpoint := self.settings.endpoint.rstrip("/"):
            return self._given(endpoint, wanted)
        family = self._family(credential, credential.host)
        return Address(family.generation.format(self._region(credential)), family, family.style or wanted)

    def management(self, credential: Credential) -> Address:
        """Where lists are asked for; where the operator names one address, it is that for both."""
        endpoint = self.settings.management_endpoint or _RUNTIME.sub(r"\1management\2", self.settings.endpoint)
        if endpoint := endpoint.rstrip("/"):
            return self._given(endpoint, _LISTS)
        family = self._family(credential, credential.management_host)
        return self._lists(family, self._region(credential))

    def everywhere(self, credential: Credential) -> Iterator[Address]:
        """Every address that may list the account's profiles, best first: a profile belongs to one region."""
        first = self.management(credential)
        if self._is_given(MANAGEMENT):
            yield first
            return
        regions = dict.fromkeys((self._region(credential), *REGIONS))
        families = self.choices(first.family.name)
        yield from (self._lists(family, region) for region in regions for family in families)

    def choices(self, first: str) -> tuple[Family, ...]:
        """The families that may be asked, *first* before the other; one where the operator chose."""
        if self.settings.hosts != AUTO:
            return (FAMILIES[self.settings.hosts],)
        return tuple(sorted(FAMILIES.values(), key=lambda family: family.name != first))

    def elsewhere(self, credential: Credential, request: UpstreamRequest, error: KiroAsgiError) -> Credential | None:
        """*credential* for the other family, where *error*, the end of *request*, says that the host and it do not
        belong together; ``None`` where it says nothing of that kind, or the operator chose the address."""
        return self.moved(credential, self._role(credential, request), error)

    def moved(self, credential: Credential, role: str, error: KiroAsgiError) -> Credential | None:
        """As `elsewhere`, where *error* is the end of a request for *role*: `GENERATION` or `MANAGEMENT`."""
        if self._is_given(role) or self.settings.hosts != AUTO:
            return None
        asked = self.generation(credential) if role == GENERATION else self.management(credential)
        if not _is_misplaced(credential, asked.family, error):
            return None
        _, other = self.choices(asked.family.name)
        if role == GENERATION:
            return evolve(credential, host=other.name)
        return evolve(credential, management_host=other.name)

    def candidates(self, credential: Credential) -> tuple[Credential, ...]:
        """*credential* for each family that may be asked, best first; itself alone where the operator chose."""
        if self._is_given(GENERATION) or self._is_given(MANAGEMENT) or self.settings.hosts != AUTO:
            return (credential,)
        families = self.choices(self.generation(credential).family.name)
        return tuple(evolve(credential, host=family.name, management_host=family.name) for family in families)

    def unnamed(self, credential: Credential) -> Credential:
        """*credential* without its profile, for lists, in the region and at the host where it is asked with it."""
        return evolve(
            credential,
            profile_arn="",
            region=region_of(credential.profile_arn) or credential.region,
            management_host=self.management(credential).family.name,
        )

    def _role(self, credential: Credential, request: UpstreamRequest) -> str:
        parts = urlsplit(request.url)
        base = f"{parts.scheme}://{parts.netloc}"
        answers = self.generation(credential).base == base and parts.path in (GENERATE.path, MCP, "/")
        return GENERATION if answers else MANAGEMENT

    def _is_given(self, role: str) -> bool:
        """Whether the operator named the address for *role*."""
        given = self.settings.endpoint
        return bool(given if role == GENERATION else self.settings.management_endpoint or given)

    def _given(self, endpoint: str, style: str) -> Address:
        """The operator's address, in the form of the hosts that it belongs to, or is said to stand for."""
        host = urlsplit(endpoint).hostname or ""
        family = KIRO if host.endswith(".kiro.dev") else FAMILIES.get(self.settings.hosts, AMAZON)
        return Address(endpoint, family, family.style or style)

    def _lists(self, family: Family, region: str) -> Address:
        return Address(family.management.format(region), family, family.style or _LISTS)

    def _family(self, credential: Credential, found: str) -> Family:
        """The hosts where *credential* has worked, else those that it suggests: the new ones demand a profile."""
        if self.settings.hosts != AUTO:
            return FAMILIES[self.settings.hosts]
        return FAMILIES.get(found) or (KIRO if profile_of(credential) else AMAZON)

    def _region(self, credential: Credential) -> str:
        """The region of the profile, which decides; else the credential's, else that of the settings."""
        named = credential.region if REGION.fullmatch(credential.region) else ""
        return region_of(profile_of(credential)) or named or self.settings.region


MISPLACED: Final = frozenset(
    {
        "host_unknown",
        "connection_refused",
        "proxy_unreachable",
        "token_invalid",
        "profile_required",
        "unknown_operation",
        "not_found",
        "upstream.address",
    }
)
"""Codes of errors which say that a host and a credential do not belong together, or that there is no such host.

None of them is a judgement about the account: after one of those, no other host is asked.
"""


_NOT_HERE: Final = re.compile(r"not authorized to make this call", re.I)
"""Words of a refusal that has no reason, and a code that says less."""


def _is_misplaced(credential: Credential, family: Family, error: KiroAsgiError) -> bool:
    # The new hosts also call a request improper that names no profile.
    unnamed = error.code == "improperly_formed" and family is KIRO and not profile_of(credential)
    unauthorized = error.code == "access_denied" and _NOT_HERE.search(error.message) is not None
    return error.asked and (error.code in MISPLACED or unnamed or unauthorized)


def profile_of(credential: Credential) -> str:
    """The profile to name: never with an API key, which has none."""
    return "" if credential.kind is CredentialKind.API_KEY else credential.profile_arn


def region_of(profile_arn: str) -> str:
    """The region of ``arn:aws:codewhisperer:REGION:…``, where a profile's calls must go; empty if it names none."""
    fields = profile_arn.split(":")
    return fields[3] if len(fields) > 4 and REGION.fullmatch(fields[3]) else ""


def social_host(region: str) -> str:
    """Base URL of the sign-in with Google or GitHub."""
    return f"https://prod.{region}.auth.desktop.kiro.dev"


def oidc_host(region: str) -> str:
    """Base URL of the sign-in with a Builder ID or IAM Identity Center."""
    return f"https://oidc.{region}.amazonaws.com"
