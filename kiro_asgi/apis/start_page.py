"""The page at the mount point: where each API is, as its reader has reached the gateway, and how to try it.

It has no script and no secret, asks no service, and tells a reader no more than the APIs would without a key.
Programs, which do not ask for HTML, get the same facts as JSON.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any, Final

from attrs import frozen

from kiro_asgi.asgi.address import base_url
from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.asgi.door.readiness import Readiness, ReadinessReason
from kiro_asgi.asgi.exchange.model_routes import Models
from kiro_asgi.asgi.protocol import CLIENT_GONE, JSON, Receive, Scope, Send, header_values, respond
from kiro_asgi.asgi.routing import local_paths
from kiro_asgi.dialects.manifest import DialectManifest
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.wire.json import dumps

_HTML: Final = re.compile(rb"(?:^|,)[ \t]*text/html[ \t]*(?:[,;]|$)", re.IGNORECASE)
"""In ``accept`` of browsers; other programs take anything, or ask for JSON."""

_MOST_MODELS: Final = 100
"""Models that are named; ``/v1/models`` has all."""

_STYLE: Final = """
:root {
  color-scheme: light dark;
  --text: #1b1d21; --faint: #565c67; --ground: #fff; --raised: #f4f5f7; --link: #2456b8;
}
@media (prefers-color-scheme: dark) {
  :root { --text: #e7e9ed; --faint: #a5acb8; --ground: #16181c; --raised: #1f2228; --link: #9dbdff }
}
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 46rem; margin: 0 auto; padding: 1.5rem 1rem 3rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
a { color: var(--link) } dt { color: var(--faint); margin-top: .6rem } dd { margin: 0 }
code { font: .9rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
pre { background: var(--raised); padding: .8rem 1rem; margin: 0; white-space: pre-wrap }
"""

_STYLE_HASH: Final = base64.b64encode(sha256(_STYLE.encode()).digest())

_POLICY: Final = b"; ".join(
    (
        b"default-src 'none'",
        b"style-src 'sha256-%b'" % _STYLE_HASH,
        b"img-src data:",
        b"base-uri 'none'",
        b"form-action 'none'",
        b"frame-ancestors 'none'",
    )
)

_HEADERS: Final = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"vary", b"Accept"),
)


@frozen
class StartPage:
    """Answers ``GET`` at the mount point; its requests are no calls, so that no observer sees them."""

    _apis: tuple[DialectManifest, ...]
    _auth: Authenticator
    _models: Models
    _readiness: Callable[[], Readiness]
    _inspector: str = ""
    """Path of the inspector below the mount point; empty where it is off."""

    def contains(self, scope: Scope) -> bool:
        """Whether the request is for the page."""
        return scope["method"] == "GET" and any(path in ("", "/") for path in local_paths(scope))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it."""
        facts = await self._facts(scope)
        wants_page = any(map(_HTML.search, header_values(scope, b"accept")))
        body = _page(facts, self._apis).encode() if wants_page else dumps(facts)
        kind = (b"content-type", b"text/html; charset=utf-8") if wants_page else JSON
        try:
            await respond(send, 200, body, (kind, *_HEADERS))
        except CLIENT_GONE:
            return

    def close(self) -> None:
        """End nothing: no answer lasts."""

    async def _facts(self, scope: Scope) -> dict[str, Any]:
        base, readiness = base_url(scope), self._readiness()
        models = await self._known_models(scope)
        return {
            "name": "kiro-asgi",
            "base": base,
            "ready": readiness.is_ready,
            "simulated": ReadinessReason.SIMULATED in readiness.degraded,
            "apis": {
                api.name: {"title": api.title, "base_url": base + api.base, "answers_at": base + api.root}
                for api in self._apis
            },
            "needs_key": models is None,
            "models": models,
            "models_at": f"{base}/v1/models",
            "inspector": f"{base}{self._inspector}/" if self._inspector else None,
            "health": f"{base}/health",
        }

    async def _known_models(self, scope: Scope) -> list[str] | None:
        """Models that the sender may ask for, as far as they are known without asking; ``None`` where it needs a
        key."""
        try:
            identified = await self._auth.identify(scope)
        except KiroAsgiError:
            return None
        return [listing.card.id for listing in self._models.shown(identified.client.permits)]


def _page(facts: Mapping[str, Any], apis: Iterable[DialectManifest]) -> str:
    state = "Ready for requests." if facts["ready"] else "Not ready: requests will fail. kiro-asgi doctor says why."
    if facts["simulated"]:
        state += " Simulated: no service is asked, and all answers are made up."
    rows = "".join(
        f"<dt>{escape(api['title'])}</dt><dd><code>{escape(api['base_url'])}</code></dd>"
        for api in facts["apis"].values()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>kiro-asgi</title>'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head><body><main>'
        "<h1>kiro-asgi</h1><p>A gateway to language models: clients of several APIs get their answers here, from the "
        f"services that its operator has set up.</p><p>{state}</p>"
        f"<h2>Base URLs for clients</h2><dl>{rows}</dl>"
        f"<h2>Try it</h2><pre><code>{escape(_example(facts, apis))}</code></pre>"
        f"<h2>Models</h2>{''.join(_models(facts))}<h2>More</h2><ul>{''.join(_links(facts))}</ul></main></body></html>"
    )


def _example(facts: Mapping[str, Any], apis: Iterable[DialectManifest]) -> str:
    """A request in the first API that has an example, for a shell."""
    for api in apis:
        if api.example:
            model = next(iter(facts["models"] or ()), "MODEL")
            return api.curl(facts["base"], model, "YOUR-KEY" if facts["needs_key"] else "")
    return f"curl {facts['models_at']}"


def _models(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts["models"] is None:
        yield f"<p>Clients need a key here; with one, <code>{escape(facts['models_at'])}</code> lists the models.</p>"
        return
    named = facts["models"][:_MOST_MODELS]
    if not named:
        yield f"<p>No list is known yet; <code>{escape(facts['models_at'])}</code> asks for it.</p>"
        return
    yield f"<p>{', '.join(f'<code>{escape(name)}</code>' for name in named)}"
    left = len(facts["models"]) - len(named)
    yield f", and {left} more</p>" if left else "</p>"


def _links(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts["inspector"]:
        yield f'<li><a href="{escape(facts["inspector"])}">Inspector</a>: calls as they happen, and what was used</li>'
    yield f'<li><a href="{escape(facts["health"])}">Health</a>: whether the process lives</li>'
