"""Checks that ask nobody: settings, keys, and what the environment holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from kiro_asgi.cli.findings import Finding, Verdict
from kiro_asgi.cli.problems import variables_in
from kiro_asgi.config import Reading
from kiro_asgi.upstreams.access import Keys

__all__ = ["keys", "proxied", "proxies", "settings"]

PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def settings(reading: Reading, problems: Collection[str]) -> Iterator[Finding]:
    """Where the settings come from; one failure for each reason why no gateway would start with them."""
    for problem in problems:
        variables = ", ".join(variables_in(problem))
        advice = f"in the environment: {variables}" if variables else "correct it"
        yield Finding("settings", Verdict.FAIL, problem, f"{advice}; kiro-asgi check shows what is set")
    if not problems:
        places = Counter(_place(source) for source in reading.sources.values())
        words = [f"{count} from {place}" for place, count in places.items()]
        detail = ", ".join([*words, "the rest are defaults"]) if words else "all are defaults"
        yield Finding("settings", Verdict.OK, detail)


def _place(source: str) -> str:
    file, colon, _ = source.rpartition(": ")
    return file if colon else source if source.startswith("preset ") else "the environment"


def proxies(environ: Mapping[str, str]) -> Finding:
    """Those that other programs obey."""
    found = [name for name in environ if name.upper() in PROXIES and environ[name]]
    if not found:
        return Finding("proxy", Verdict.OK, "no proxy in the environment; connections are direct")
    detail = f"{', '.join(sorted(found))} in the environment not used; connections are direct"
    return Finding(
        "proxy", Verdict.WARN, detail, "see that this machine may connect directly, or set the upstream's proxy"
    )


def proxied(name: str, setting: str, proxy: str) -> Finding:
    """Our own proxy, which stands in *setting*."""
    place = proxy.rpartition("@")[2].rpartition("/")[2]
    return Finding(name, Verdict.OK, f"{setting}: connections go through {place}, and are not looked at")


def keys(name: str, given: Keys) -> Finding:
    """Which keys there are for an upstream."""
    found = [setting for setting, key in given.named if key]
    if not found:
        return Finding(name, Verdict.OK, "none; the service is asked without one")
    others = f"; {len(found) - 1} more, which are not tried here" if len(found) > 1 else ""
    return Finding(name, Verdict.OK, found[0] + others)
