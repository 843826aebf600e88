"""Tokens as the service's own clients keep them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.upstreams.base import CredentialKind, Token, TokenKind
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.tokens import (
    KiroVendor,
    TokenUnreadable,
    expiry,
    merge_token,
    parse_token,
    parse_token_rows,
    render_token,
    rfc3339,
)

NOW = 1_767_323_045.0
SOCIAL = {
    "accessToken": "aoaA",
    "refreshToken": "aorR",
    "expiresAt": "2026-01-02T03:04:05.678Z",
    "authMethod": "social",
    "provider": "Google",
    "profileArn": "arn:aws:codewhisperer:us-east-1:1:profile/X",
    "region": "us-east-1",
}
IDC = {
    "accessToken": "aoaA",
    "refreshToken": "aorR",
    "expiresAt": "2026-01-02T03:04:05.678Z",
    "authMethod": "IdC",
    "provider": "Enterprise",
    "region": "eu-west-1",
    "clientIdHash": "0a1b",
}
REGISTRATION = {"clientId": "c", "clientSecret": "s", "expiresAt": "2026-03-01T00:00:00Z"}
TOKENS = st.builds(
    Token,
    access_token=st.from_regex(r"[!-~]{1,9}", fullmatch=True),
    refresh_token=st.from_regex(r"[!-~]{0,9}", fullmatch=True),
    expires_at=st.none() | st.integers(0, 10**13).map(lambda ms: ms / 1000),
    profile_arn=st.sampled_from(["", "arn:x"]),
)


def parse(document: Any, beside: dict[str, Any] | None = None) -> Token:
    files = {name: json.dumps(content).encode() for name, content in (beside or {}).items()}
    return parse_token(json.dumps(document).encode(), files.get, NOW)


def test_a_social_file() -> None:
    """What the desktop client writes for a Google or GitHub account."""
    assert parse(SOCIAL) == Token(
        "aoaA", "aorR", 1_767_323_045.678, TokenKind.SOCIAL, "us-east-1", "arn:aws:codewhisperer:us-east-1:1:profile/X"
    )


def test_an_idc_file_and_its_registration() -> None:
    """The client's id and secret stand in the file that ``clientIdHash`` names."""
    token = parse(IDC, {"0a1b.json": REGISTRATION})

    assert (token.kind, token.region, token.client_id, token.client_secret) == (TokenKind.OIDC, "eu-west-1", "c", "s")
    assert parse({**IDC, **REGISTRATION, "expiresAt": IDC["expiresAt"]}) == token


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", "", "x" * 129, "ä"])
def test_a_registration_is_looked_for_in_the_same_folder_only(name: str) -> None:
    """What a document names cannot lead anywhere else."""
    asked: list[str] = []
    parse_token(json.dumps({**IDC, "clientIdHash": name}).encode(), lambda name: asked.append(name), NOW)

    assert asked == []


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"authMethod": "social"}, TokenKind.SOCIAL),
        ({"authMethod": "IdC"}, TokenKind.OIDC),
        ({"authMethod": "builder-id"}, TokenKind.OIDC),
        ({"authMethod": "external_idp"}, TokenKind.EXTERNAL_IDP),
        ({"auth_method": "ExternalIdp"}, TokenKind.EXTERNAL_IDP),
        ({"provider": "Github"}, TokenKind.SOCIAL),
        ({"provider": "BuilderId"}, TokenKind.OIDC),
        ({"authMethod": "new", "provider": "Enterprise"}, TokenKind.OIDC),
        ({"tokenEndpoint": "https://x"}, TokenKind.EXTERNAL_IDP),
        ({"clientId": "c", "clientSecret": "s"}, TokenKind.OIDC),
        ({}, TokenKind.SOCIAL),
    ],
)
def test_kinds(fields: dict[str, str], kind: TokenKind) -> None:
    """The method says who renews, else the provider, else what there is to renew with."""
    assert parse({"refreshToken": "r", **fields}).kind is kind


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-02T03:04:05Z", NOW),
        ("2026-01-02T03:04:05", NOW),
        ("2026-01-02T03:04:05.678", NOW + 0.678),
        ("2026-01-02T03:04:05.678901234Z", NOW + 0.678901),
        ("2026-01-02T05:04:05.5+02:00", NOW + 0.5),
        ("2026-01-01T22:04:05-0500", NOW),
        (NOW, NOW),
        (int(NOW), NOW),
        (NOW * 1000, NOW),
        ("soon", None),
        ("", None),
        (None, None),
        (True, None),
        (-1, None),
        (10**400, None),
        (1e300, None),
        ([], None),
    ],
)
def test_expiry(value: Any, expected: float | None) -> None:
    """Every known way to say when a token ends; what is none says nothing."""
    assert expiry(value) == expected


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 31), timezones=st.just(UTC)), st.integers(3, 9), st.booleans()
)
def test_expiry_takes_any_number_of_digits(moment: datetime, digits: int, zulu: bool) -> None:
    """Three to nine fraction digits, with a ``Z`` or without, mean the same to the microsecond."""
    text = moment.strftime("%Y-%m-%dT%H:%M:%S.").rjust(20, "0") + f"{moment.microsecond:06}000"[:digits]
    wanted = moment.timestamp() if digits >= 6 else int(moment.timestamp() * 1000) / 1000

    assert expiry(text + "Z" * zulu) == pytest.approx(wanted, abs=0.002)


@given(st.integers(0, 253_402_300_799_000))
def test_times_survive_being_written(milliseconds: int) -> None:
    """What we write, we read."""
    assert expiry(rfc3339(milliseconds / 1000)) == pytest.approx(milliseconds / 1000, abs=0.001)


def test_a_lifetime_instead_of_an_end() -> None:
    """A program may print how long a token lasts; it counts from now."""
    assert parse({"access_token": "a", "expires_in": 60}).expires_at == NOW + 60
    assert parse({"access_token": "a", "expires_in": True}).expires_at is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=3))
def test_any_value_of_a_member_is_survived(value: Any) -> None:
    """A member of a wrong type is as good as none; nothing but our own error comes out of any document."""
    for name in (*SOCIAL, "scopes", "expiresIn", "clientIdHash", "tokenEndpoint"):
        try:
            token = parse({**SOCIAL, name: value})
        except TokenUnreadable:
            continue
        assert isinstance(token.region, str) and isinstance(token.expires_at, float | None)


@pytest.mark.parametrize("document", [b"", b"no", b"[]", b"{}", b'{"accessToken":""}', b'{"accessToken":"a\\nb"}'])
def test_unreadable(document: bytes) -> None:
    """What holds no token that could stand in a header is refused, and not quoted."""
    with pytest.raises(TokenUnreadable) as caught:
        parse_token(document, lambda _: None, NOW)

    assert isinstance(caught.value, KiroAsgiError)
    assert "a\nb" not in caught.value.message


# Stores.

ROW = {"access_token": "aoaA", "refresh_token": "aorR", "expires_at": "2026-01-02T03:04:05.123456789Z", "region": "x"}
DEVICE = {"client_id": "c", "client_secret": "s", "region": "eu-west-1"}


def rows(**values: Any) -> dict[tuple[str, str], bytes]:
    return {
        ("state" if name.startswith(("api.", "auth.")) else "auth_kv", name): json.dumps(value).encode()
        for name, value in values.items()
    }


def test_a_store_of_the_command_line() -> None:
    """Token, registration, profile and region stand in rows of their own."""
    token = parse_token_rows(
        rows(
            **{
                "kirocli:odic:token": {**ROW, "region": ""},
                "kirocli:odic:device-registration": DEVICE,
                "api.codewhisperer.profile": {"arn": "arn:p", "profile_name": "P"},
                "auth.idc.region": "eu-west-3",
            }
        ),
        NOW,
    )

    assert token == Token(
        "aoaA",
        "aorR",
        NOW + 0.123456,
        TokenKind.OIDC,
        "eu-west-1",
        "arn:p",
        "c",
        "s",
        place=("auth_kv", "kirocli:odic:token"),
    )


def test_of_several_tokens_the_freshest_is_used() -> None:
    """A sign-in of the predecessor may still be in the store."""
    old, new = {**ROW, "expires_at": "2025-01-01T00:00:00Z"}, {**ROW, "access_token": "new"}
    found = parse_token_rows(rows(**{"kirocli:social:token": new, "codewhisperer:odic:token": old}), NOW)

    assert (found.access_token, found.kind) == ("new", TokenKind.SOCIAL)


def test_a_store_without_a_token() -> None:
    """A store that nobody has signed in with says so."""
    with pytest.raises(TokenUnreadable, match="no sign-in"):
        parse_token_rows({}, NOW)


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b"{}", b"\xff", b'{"access_token": 7}'])
def test_a_damaged_row_spoils_no_other(damaged):
    """A sign-in that was left half written hides none that is whole; alone, it is told."""
    good = json.dumps({"access_token": "aoaGood", "refresh_token": "r"}).encode()
    row = ("auth_kv", "kirocli:social:token")
    both = {row: damaged, ("auth_kv", "codewhisperer:odic:token"): good}

    assert parse_token_rows(both, NOW).access_token == "aoaGood"
    with pytest.raises(TokenUnreadable, match=r"not JSON|no token|no JSON|not a JSON object"):
        parse_token_rows({row: damaged}, NOW)


# Writing.


@given(TOKENS, st.booleans(), st.dictionaries(st.sampled_from(["x", "y", "provider"]), st.integers(), max_size=3))
def test_merging_changes_the_token_and_nothing_else(token: Token, snake: bool, other: dict[str, Any]) -> None:
    """What is not ours stays, and what is merged is what is read again, in either spelling."""
    names = ("access_token", "refresh_token") if snake else ("accessToken", "refreshToken")
    merged = merge_token(json.dumps({**other, names[0]: "old", names[1]: "older"}).encode(), token)
    again = parse_token(merged, lambda _: None, NOW)

    assert {key: value for key, value in json.loads(merged).items() if key in other} == other
    assert (again.access_token, again.refresh_token) == (token.access_token, token.refresh_token or "older")
    assert again.expires_at == pytest.approx(token.expires_at, abs=0.001)
    assert ("accessToken" in json.loads(merged)) is not snake


def test_a_file_that_is_no_document_is_replaced() -> None:
    """A damaged file does not stop a token from being kept."""
    assert parse_token(merge_token(b"\0", Token("a", "r")), lambda _: None, NOW) == Token("a", "r")


@given(TOKENS, st.sampled_from(TokenKind), st.sampled_from(["", "eu-west-1"]))
def test_a_document_of_our_own_has_everything(token: Token, kind: TokenKind, region: str) -> None:
    """What a sign-in gave is all in the one file that is written for it."""
    token = evolve(token, kind=kind, region=region, scopes=("a", "b"))
    if kind is not TokenKind.SOCIAL:
        token = evolve(token, client_id="c", client_secret="s", token_endpoint="https://x/t")
    again = parse_token(render_token(token), lambda _: None, NOW)

    assert again == evolve(token, expires_at=again.expires_at)
    assert again.expires_at == pytest.approx(token.expires_at, abs=0.001)


# What is made of them.


def test_secrets_are_not_shown() -> None:
    """No representation of a token holds a secret."""
    shown = repr(Token("SECRET1", "SECRET2", client_id="SECRET3", client_secret="SECRET4"))

    assert "SECRET" not in shown


def test_the_region_of_the_sign_in_stays_with_the_sign_in() -> None:
    """Calls go to the profile's region or the service's own; where somebody signed in says nothing about that."""
    token = Token("a", kind=TokenKind.EXTERNAL_IDP, region="eu-west-1", profile_arn="arn:p")
    credential = KiroVendor().credential(token, "here")

    assert (credential.kind, credential.region, credential.source) == (CredentialKind.EXTERNAL_IDP, "", "here")
    assert credential.profile_arn == "arn:p"
    assert KiroVendor(KiroSettings(profile_arn="arn:q")).credential(token, "here").profile_arn == "arn:q"
