"""Checks that ask nobody: settings, credentials, regions, times, and what the environment holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from kiro_asgi.cli.findings import SIGN_IN, Finding, Verdict, failed, masked, span
from kiro_asgi.config import DirectSettings, KiroSettings, Reading
from kiro_asgi.errors import ConfigError, KiroAsgiError
from kiro_asgi.net.credential_sources import open_source
from kiro_asgi.net.files import exposed
from kiro_asgi.net.keys import keys_in
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, TokenKind
from kiro_asgi.upstreams.kiro.auth import region_of
from kiro_asgi.upstreams.kiro.profiles import REGIONS
from kiro_asgi.upstreams.kiro.renewal import DEFAULT_REGION
from kiro_asgi.upstreams.kiro.vendor import KiroVendor

__all__ = [
    "SignIn",
    "credentials",
    "expiry",
    "keys",
    "not_kept",
    "profile",
    "proxied",
    "proxies",
    "refreshed",
    "regions",
    "settings",
]

KINDS: Final[Mapping[TokenKind | CredentialKind, str]] = {
    TokenKind.SOCIAL: "Google or GitHub sign-in",
    TokenKind.OIDC: "Builder ID or IAM Identity Center sign-in",
    TokenKind.EXTERNAL_IDP: "sign-in with a company's own identity provider",
    CredentialKind.API_KEY: "API key",
    CredentialKind.ACCESS_TOKEN: "access token, which nobody renews",
    CredentialKind.EXTERNAL_IDP: "access token of a company's own identity provider, which nobody renews",
}

PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def settings(reading: Reading, problems: Collection[str]) -> Iterator[Finding]:
    """Where the settings come from; one failure for each reason why no gateway would start with them."""
    for problem in problems:
        yield Finding("settings", Verdict.FAIL, problem, "correct it; kiro-asgi check shows all settings")
    if not problems:
        places = Counter(_place(source) for source in reading.sources.values())
        words = [f"{count} from {place}" for place, count in places.items()]
        detail = ", ".join([*words, "the rest are defaults"]) if words else "all are defaults"
        yield Finding("settings", Verdict.OK, detail)


def _place(source: str) -> str:
    file, colon, _ = source.rpartition(": ")
    return file if colon else source if source.startswith("preset ") else "the environment"


@frozen
class SignIn:
    """One token file."""

    path: Path
    token: Token
    keeps: bool
    """Whether a renewed token would be written back to it."""


def credentials(kiro: KiroSettings, vendor: KiroVendor, now: Callable[[], float]) -> tuple[list[Finding], list[SignIn]]:
    """What is said of every credential that is named, in order of preference, and the token files that can be read."""
    findings, sign_ins = [], []
    if vendor.given is not None:
        words = f"{vendor.given.source}: {KINDS[vendor.given.kind]}"
        findings.append(Finding("credential", Verdict.OK, words))
    for setting, path in _files(kiro):
        try:
            source = open_source(path, vendor, kiro.write_back, now)
            sign_ins.append(SignIn(path, source.load(), source.keeps))
        except OSError as error:
            words = f"{setting}: {path}: {error.strerror or error}"
            findings.append(failed("credential", ConfigError(words, code="credentials.unreadable")))
        except KiroAsgiError as error:
            findings.append(failed("credential", error))
        else:
            words = f"{setting}: {path}, {KINDS[sign_ins[-1].token.kind]}"
            findings += [Finding("credential", Verdict.OK, words), _file_mode(path)]
    if kiro.credentials_command:
        findings.append(Finding("credential", Verdict.OK, "kiro.credentials_command: a program that prints a token"))
    if not findings:
        advice = "set KIRO_API_KEY, or sign in: kiro-asgi login"
        findings.append(Finding("credential", Verdict.FAIL, "none is set", advice))
    return findings, sign_ins


def _files(kiro: KiroSettings) -> Iterator[tuple[str, Path]]:
    if kiro.credentials_file:
        yield "kiro.credentials_file", Path(kiro.credentials_file).expanduser()
    for name in kiro.fallback_credentials_files:
        yield "kiro.fallback_credentials_files", Path(name).expanduser()


def _file_mode(path: Path) -> Finding:
    if exposed(path):
        return Finding("file mode", Verdict.WARN, f"others than you may read {path}", f"chmod 600 {path}")
    return Finding("file mode", Verdict.OK, f"only you may read {path}")


def regions(kiro: KiroSettings, token: Token | None, arn: str) -> Finding:
    """The three regions, which are easily taken for one another."""
    service = region_of(arn) or kiro.region
    words = [f"service {kiro.endpoint or service}"]
    if region_of(arn):
        words.append(f"profile {region_of(arn)}")
    if token is not None:
        words.insert(0, f"sign-in {kiro.auth_endpoint or kiro.auth_region or token.region or DEFAULT_REGION}")
    detail = ", ".join(words)
    if kiro.endpoint or service in REGIONS:
        return Finding("regions", Verdict.OK, detail)
    return Finding(
        "regions", Verdict.WARN, detail, f"the service is known in {' and '.join(REGIONS)} only: kiro.region"
    )


def expiry(token: Token, now: float) -> Finding:
    """How long the access token lasts."""
    left = None if token.expires_at is None else token.expires_at - now
    words = (
        "the token does not say how long it lasts"
        if left is None
        else f"in {span(left)}"
        if left > 0
        else f"{span(left)} ago"
    )
    if token.refresh_token:
        return Finding("expiry", Verdict.OK, words)
    verdict = Verdict.FAIL if left is not None and left <= 0 else Verdict.WARN
    return Finding("expiry", verdict, f"{words}; there is no refresh token", SIGN_IN)


def not_kept(path: Path, due: bool) -> Finding:
    """A token that is not renewed here, because nobody would keep the new one."""
    detail = f"not tried: kiro.write_back keeps renewed tokens out of {path}, and the old one would be lost"
    advice = "use the program that the file belongs to; it renews the token"
    return Finding("refresh", Verdict.FAIL if due else Verdict.WARN, detail, advice if due else "")


def refreshed(tried: bool, newer: bool) -> Finding:
    """Whether the token could be renewed."""
    if not tried:
        return Finding("refresh", Verdict.OK, "not needed now; --refresh tries it")
    if newer:
        return Finding("refresh", Verdict.OK, "works; there is a new token")
    return Finding("refresh", Verdict.WARN, "there is no newer token", SIGN_IN)


def profile(credential: Credential, kiro: KiroSettings, token: Token | None) -> Finding:
    """Which profile calls name."""
    if credential.kind is CredentialKind.API_KEY:
        return Finding("profile", Verdict.OK, "none; an API key has none")
    if not credential.profile_arn:
        advice = "set kiro.profile_arn if the service asks for one"
        return Finding("profile", Verdict.WARN, "none; the service lists none for this account", advice)
    told = token.profile_arn if token is not None else ""
    where = {kiro.profile_arn: "from kiro.profile_arn", told: "from the token"}
    return Finding(
        "profile", Verdict.OK, f"{masked(credential.profile_arn)}, {where.get(credential.profile_arn, 'as listed')}"
    )


def proxies(environ: Mapping[str, str]) -> Finding:
    """Those that other programs obey."""
    found = [name for name in environ if name.upper() in PROXIES and environ[name]]
    if not found:
        return Finding("proxy", Verdict.OK, "no proxy in the environment; connections are direct")
    detail = f"{', '.join(sorted(found))} in the environment not used; connections are direct"
    return Finding("proxy", Verdict.WARN, detail, "see that this machine may connect directly, or set kiro.proxy")


def proxied(name: str, setting: str, proxy: str) -> Finding:
    """Our own proxy, which stands in *setting*."""
    place = proxy.rpartition("@")[2].rpartition("/")[2]
    return Finding(name, Verdict.OK, f"{setting}: connections go through {place}, and are not looked at")


def keys(name: str, path: str, settings: DirectSettings) -> Finding:
    """Which keys there are for an upstream whose settings stand at *path*."""
    found = [setting for setting, key in keys_in(path, settings) if key]
    if not found:
        return Finding(name, Verdict.OK, "none; the service is asked without one")
    others = f"; {len(found) - 1} more, which are not tried here" if len(found) > 1 else ""
    return Finding(name, Verdict.OK, found[0] + others)
