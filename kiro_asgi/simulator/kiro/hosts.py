"""The hosts that one simulator stands for, told apart by the ``Host`` header of a request.

================================  =======================  ======================================================
host                              operations               refuses
================================  =======================  ======================================================
``runtime.<region>.kiro.dev``     chat, web search         what is no target, and with 400 what names no profile
``management.<region>.kiro.dev``  models, profiles, usage  every other operation
``q.<region>.amazonaws.com``      all of them              targets of the other family
any other                         all of them              nothing
================================  =======================  ======================================================

A test has its connections to all of these names end at the simulator.  Which family takes whose token is said by
`kiro_asgi.simulator.kiro.accounts.Accounts.hosts`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

from attrs import evolve, frozen

from kiro_asgi.simulator.request import RecordedRequest

CHAT: Final = "GenerateAssistantResponse"
TOOLS: Final = "InvokeMCP"
LISTS: Final = frozenset(("ListAvailableModels", "ListAvailableProfiles", "GetUsageLimits"))

KIRO: Final = "kiro.dev"
AMAZON: Final = "amazonaws"


@frozen
class SimulatedHost:
    """One host, as far as answers depend on it."""

    name: str = ""
    """A pattern, whose group is the region."""

    family: str = ""
    """``kiro.dev`` or ``amazonaws``; empty for a host of any other name."""

    operations: frozenset[str] = frozenset((CHAT, TOOLS, *LISTS))
    targets: frozenset[str] = frozenset()
    """Names of the APIs that ``X-Amz-Target`` may begin with; empty where that is not looked at."""

    paths: frozenset[str] = frozenset()
    """The only paths that there are; empty for all."""

    region: str = ""


HOSTS: Final = (
    SimulatedHost(
        r"runtime\.([a-z0-9-]+)\.kiro\.dev",
        KIRO,
        frozenset((CHAT, TOOLS)),
        frozenset(("KiroRuntimeService", "AmazonCodeWhispererStreamingService")),
        frozenset(("/", "/mcp")),
    ),
    SimulatedHost(
        r"management\.([a-z0-9-]+)\.kiro\.dev",
        KIRO,
        LISTS,
        frozenset(("KiroControlPlaneBearerService", "AmazonCodeWhispererService")),
        frozenset(("/", "/List-Available-Models", "/List-Available-Profiles", "/getUsageLimits")),
    ),
    SimulatedHost(
        r"q\.([a-z0-9-]+)\.amazonaws\.com",
        AMAZON,
        targets=frozenset(
            ("AmazonCodeWhispererStreamingService", "AmazonQDeveloperStreamingService", "AmazonCodeWhispererService")
        ),
    ),
)


def host_of(request: RecordedRequest) -> SimulatedHost:
    """The host that *request* is for."""
    named = request.headers.get("host", "").partition(":")[0]
    for host in HOSTS:
        if match := re.fullmatch(host.name, named):
            return evolve(host, region=match[1])
    return SimulatedHost()


def serves(host: SimulatedHost, operation: str, request: RecordedRequest) -> bool:
    """Whether *host* knows *operation* in the form of *request*."""
    api = request.headers.get("x-amz-target", "").rpartition(".")[0]
    known = not host.targets or request.path != "/" or api in host.targets
    return known and operation in host.operations and (not host.paths or request.path in host.paths)


def profile_in(request: RecordedRequest, document: Mapping[str, Any] | None) -> str:
    """The profile that *request* names, in its body, its query or a header; empty for none."""
    queried = parse_qs(request.query).get("profileArn", [""])[0]
    named = (document or {}).get("profileArn") or queried or request.headers.get("x-amzn-kiro-profile-arn", "")
    return str(named)
