"""The service's addresses, and when the other one is asked."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from attrs import evolve

import kiro_asgi.upstreams.kiro
from kiro_asgi.errors import KiroAsgiError, UpstreamDenied, UpstreamRejected, UpstreamUnreachable
from kiro_asgi.failures.meanings import STATUSES
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, UpstreamRequest
from kiro_asgi.upstreams.kiro.hosts import FAMILIES, MISPLACED, KiroHosts
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.tokens import KiroVendor
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.upstreams.faults import KIRO_NAMES as NAMES
from tests.upstreams.faults import KIRO_REASONS as REASONS
from tests.upstreams.faults import kiro as fault

ARN = "arn:aws:codewhisperer:eu-central-1:123456789012:profile/X"
BUILDER_ID = Credential(CredentialKind.ACCESS_TOKEN, "t")
IDC = evolve(BUILDER_ID, profile_arn=ARN)
KEY = Credential(CredentialKind.API_KEY, "ksk_x", ARN)
COMPANY = evolve(IDC, kind=CredentialKind.EXTERNAL_IDP)

OLD = dict.fromkeys(("generation", "management"), "https://q.{}.amazonaws.com")
NEW = {"generation": "https://runtime.{}.kiro.dev", "management": "https://management.{}.kiro.dev"}

ROLES = {
    "GenerateAssistantResponse": "generation",
    "InvokeMCP": "generation",
    "ListAvailableModels": "management",
    "GetUsageLimits": "management",
    "ListAvailableProfiles": "management",
}


def asked(credential: Credential, **settings: Any) -> dict[str, UpstreamRequest]:
    """Everything that the service is asked, by its operation; profiles as an account without one asks for them."""
    upstream = KiroUpstream(settings=KiroSettings(**settings))
    prompt = Prompt("m", (Turn(Role.USER, (Text("x"),)),))
    requests = {
        "GenerateAssistantResponse": upstream.render(prompt, ModelCard("m"), credential).request,
        "InvokeMCP": upstream.search_request(credential, "q"),
        "ListAvailableModels": upstream.models_request(credential, page="p"),
        "GetUsageLimits": upstream.limits_request(credential),
    }
    for first in KiroVendor(KiroSettings(**settings)).profile_requests(evolve(credential, profile_arn=""))[:1]:
        requests["ListAvailableProfiles"] = first
    return requests


@pytest.mark.parametrize(
    ("credential", "settings", "bases"),
    [
        pytest.param(BUILDER_ID, {}, OLD, id="builder-id"),
        pytest.param(KEY, {}, OLD, id="key"),
        pytest.param(evolve(BUILDER_ID, host="kiro.dev", management_host="kiro.dev"), {}, NEW, id="found"),
        pytest.param(BUILDER_ID, {"hosts": "kiro.dev"}, NEW, id="chosen-new"),
        pytest.param(BUILDER_ID, {"hosts": "amazonaws"}, OLD, id="chosen-old"),
        pytest.param(evolve(BUILDER_ID, host="kiro.dev"), {"hosts": "amazonaws"}, OLD, id="chosen-above-found"),
        pytest.param(BUILDER_ID, {"endpoint": "http://h/p/"}, dict.fromkeys(OLD, "http://h/p"), id="one-address"),
        pytest.param(
            BUILDER_ID,
            {"endpoint": "http://h", "management_endpoint": "http://m/"},
            {"generation": "http://h", "management": "http://m"},
            id="two-addresses",
        ),
        pytest.param(
            BUILDER_ID, {"endpoint": "https://runtime.us-east-1.kiro.dev"}, NEW, id="the-lists-of-a-public-host"
        ),
        pytest.param(
            BUILDER_ID,
            {"management_endpoint": "http://m"},
            {"generation": OLD["generation"], "management": "http://m"},
            id="lists-alone",
        ),
    ],
)
def test_every_operation_has_its_address_from_one_place(
    credential: Credential, settings: dict[str, str], bases: dict[str, str]
) -> None:
    """What belongs to answers goes to one address, what lists something to the other, whatever it is."""
    for operation, request in asked(credential, **settings).items():
        base = bases[ROLES[operation]].format("us-east-1")
        assert request.url.startswith(f"{base}/"), operation


@pytest.mark.parametrize("credential", [IDC, COMPANY], ids=["idc", "company"])
def test_a_profile_suggests_the_hosts_that_demand_one(credential: Credential) -> None:
    """Where there is a profile, the new hosts of its region come first."""
    for operation, request in asked(credential).items():
        if operation != "ListAvailableProfiles":
            assert request.url.startswith(NEW[ROLES[operation]].format("eu-central-1") + "/"), operation


@pytest.mark.parametrize("hosts", FAMILIES)
def test_the_form_is_that_of_the_host(hosts: str) -> None:
    """The new hosts know an operation by its target, the old ones by its path; either form says the same."""
    for operation, request in asked(IDC, hosts=hosts).items():
        headers, parts = dict(request.headers), urlsplit(request.url)
        if operation == "InvokeMCP":
            assert parts.path == "/mcp"
        elif hosts == "kiro.dev":
            assert (request.method, parts.path, parts.query) == ("POST", "/", "")
            assert headers[b"x-amz-target"].decode().rpartition(".")[2] == operation
            assert headers[b"content-type"] == b"application/x-amz-json-1.0"
        else:
            assert parts.path.lower() == f"/{operation.lower()}"
            assert b"x-amz-target" not in headers

    new, old = (asked(IDC, hosts=name) for name in FAMILIES)
    for operation in ("ListAvailableModels", "GetUsageLimits"):
        fields = parse_qs(urlsplit(old[operation].url).query)
        assert {name: [str(value)] for name, value in json.loads(new[operation].body).items()} == fields
        assert fields["profileArn"] == [ARN]
    for named in (new, old):
        assert json.loads(named["GenerateAssistantResponse"].body)["profileArn"] == ARN


def test_no_other_module_names_a_host() -> None:
    """One place knows the addresses, so that no operation can go elsewhere than the others."""
    named = re.compile(r"https://[^\s\"']*\{")
    folder = Path(kiro_asgi.upstreams.kiro.__file__).parent
    naming = {module.name for module in folder.rglob("*.py") if named.search(module.read_text("utf-8"))}

    assert naming == {"hosts.py"}


WRONG = [
    UpstreamUnreachable("x", code="host_unknown"),
    UpstreamUnreachable("x", code="connection_refused"),
    fault(403, (), b'{"message":"The bearer token included in the request is invalid."}'),
    fault(400, (), b'{"message":"profileArn is required for this request."}'),
    fault(403, (), b'{"message":"User is not authorized to make this call."}'),
    fault(404, ((b"x-amzn-errortype", b"UnknownOperationException"),), b"{}"),
]


@pytest.mark.parametrize("error", WRONG, ids=lambda error: error.code)
@pytest.mark.parametrize("credential", [BUILDER_ID, IDC, KEY, COMPANY], ids=["builder-id", "idc", "key", "company"])
def test_what_says_that_a_host_is_the_wrong_one(credential: Credential, error: KiroAsgiError) -> None:
    """The other host is asked, for answers and lists apart, and from there the way leads back."""
    hosts = KiroHosts()
    for operation, request in asked(credential).items():
        if operation == "ListAvailableProfiles":
            continue
        mine, theirs = ("host", "management_host")[:: 1 if ROLES[operation] == "generation" else -1]
        moved = hosts.elsewhere(credential, request, error)
        assert moved is not None
        assert getattr(moved, theirs) == ""
        assert urlsplit(asked(moved)[operation].url).netloc != urlsplit(request.url).netloc
        back = hosts.elsewhere(moved, asked(moved)[operation], error)
        assert back is not None
        assert asked(back)[operation].url == request.url
        assert {getattr(moved, mine), getattr(back, mine)} == set(FAMILIES)


def test_an_organisation_is_asked_once_more_without_its_profile_at_the_same_host() -> None:
    """Some accounts must not name it in questions for their usage; that does not make it another host's question."""
    for credential in (IDC, evolve(IDC, management_host="amazonaws")):
        first = asked(credential)["GetUsageLimits"]
        again = asked(KiroHosts().unnamed(credential))["GetUsageLimits"]

        assert urlsplit(again.url).netloc == urlsplit(first.url).netloc
        assert "profileArn" not in again.url and b"profileArn" not in again.body


def judgements() -> list[KiroAsgiError]:
    """Every refusal that the tables know, but for those that say that the host is the wrong one."""
    bodies: list[dict[str, str]] = [{"message": "x", "reason": reason} for reason in REASONS]
    bodies += [{"message": "x", "__type": f"{name}Exception"} for name in NAMES]
    bodies += [
        {"message": "Due to suspicious activity, we are imposing temporary limits."},
        {"message": "Your User ID temporarily is suspended. User is not authorized to make this call."},
        {"message": "User is not authorized to make this call.", "reason": "FEATURE_NOT_SUPPORTED"},
        {"message": "You have reached the limit."},
        {"message": "Improperly formed request."},
        {"message": "This account may not do that."},
    ]
    made = [fault(status, (), json.dumps(body).encode()) for status, body in product((400, 402, 403, 429), bodies)]
    made += [fault(status, (), b"{}") for status in (*STATUSES, 500)]
    return [error for error in made if error.code not in MISPLACED]


@pytest.mark.parametrize("credential", [IDC, COMPANY], ids=["idc", "company"])
def test_no_judgement_about_the_account_leads_to_another_host(credential: Credential) -> None:
    """Decision 0d: after suspicion, suspension and a spent quota nobody else is asked; nor after any other failure."""
    for request in asked(credential).values():
        for error in judgements():
            assert KiroHosts().elsewhere(credential, request, error) is None, error


def test_no_code_of_a_judgement_says_that_a_host_is_the_wrong_one() -> None:
    """Decision 0d: the list has no word that is about an account's money or conduct."""
    assert not MISPLACED & set(REASONS)
    assert not MISPLACED & {code for _, code in (*STATUSES.values(), *NAMES.values()) if "quota" in code}
    assert not MISPLACED & {"suspicious_activity", "TEMPORARILY_SUSPENDED", "throttled", "access_denied"}


def test_improper_means_unnamed_only_without_a_profile() -> None:
    """The new hosts call a request improper where a profile lacks; with one, something else is wrong."""
    error = UpstreamRejected("Improperly formed request.", code="improperly_formed")

    for credential, leads in ((BUILDER_ID, True), (IDC, False)):
        placed = evolve(credential, host="kiro.dev")
        request = asked(placed)["GenerateAssistantResponse"]
        assert (KiroHosts().elsewhere(placed, request, error) is not None) is leads
    old = evolve(BUILDER_ID, host="amazonaws")
    assert KiroHosts().elsewhere(old, asked(old)["GenerateAssistantResponse"], error) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"hosts": "kiro.dev"},
        {"hosts": "amazonaws"},
        {"endpoint": "http://h"},
        {"endpoint": "https://runtime.us-east-1.kiro.dev"},
    ],
)
def test_what_the_operator_chose_is_never_left(settings: dict[str, str]) -> None:
    """An address of the settings is the address."""
    for error, request in product(WRONG, asked(IDC, **settings).values()):
        assert KiroHosts(KiroSettings(**settings)).elsewhere(IDC, request, error) is None


def test_an_earlier_fault_that_stands_in_says_nothing_about_the_host() -> None:
    """A cooldown repeats what the service said once: nobody was asked."""
    error = UpstreamDenied("x", code="token_invalid")
    error.asked = False

    assert KiroHosts().elsewhere(IDC, asked(IDC)["InvokeMCP"], error) is None
