"""Routes below ``inspector/``: the page, and the data that it requests.

Requests are ``GET`` and change nothing, but for a session's beginning and end, and which calls are kept.  No header
lets a page of another origin read any of it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from hashlib import sha256
from importlib.resources import files
from itertools import islice
from logging import getLogger
from os import getpid
from time import time
from types import MappingProxyType
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import anyio
import anyio.to_thread
from attrs import define, field, frozen

from kiro_asgi.asgi.protocol import (
    CLIENT_GONE,
    JSON,
    Disconnected,
    Headers,
    Receive,
    Scope,
    Send,
    header_values,
    query_values,
    read_body,
    respond,
    response_body,
    response_start,
)
from kiro_asgi.asgi.routing import local_paths
from kiro_asgi.asgi.siblings import Siblings
from kiro_asgi.config import InspectorSettings
from kiro_asgi.errors import KiroAsgiError, RequestError
from kiro_asgi.inspector.calls import Changes, RecentCalls, RecordedCall, Seen
from kiro_asgi.inspector.recordings import Recordings, Run, Unseen
from kiro_asgi.inspector.rows import detail, row
from kiro_asgi.inspector.sentences import of_error
from kiro_asgi.inspector.sessions import COOKIE, LIFETIME, Sessions, is_allowed_host, is_foreign
from kiro_asgi.quota.base import UsageRow
from kiro_asgi.quota.ledger import KEPT_DAYS, PARTS, as_csv, read_day, totals
from kiro_asgi.tapes import TapeError
from kiro_asgi.tapes.exports import as_curl, as_har
from kiro_asgi.tapes.folder import name_of
from kiro_asgi.wire.json import dumps, loads

_log = getLogger("kiro_asgi")

_TYPES: Final[Mapping[str, bytes]] = MappingProxyType(
    {
        "html": b"text/html; charset=utf-8",
        "css": b"text/css; charset=utf-8",
        "js": b"text/javascript; charset=utf-8",
        "svg": b"image/svg+xml",
    }
)

_INDEX: Final = "index.html"

_POLICY: Final = b"; ".join(
    (
        b"default-src 'none'",
        b"script-src 'self'",
        b"style-src 'self'",
        b"connect-src 'self'",
        b"img-src 'self' data:",
        b"base-uri 'none'",
        b"form-action 'none'",
        b"frame-ancestors 'none'",
        b"require-trusted-types-for 'script'",
        b"trusted-types 'none'",
    )
)
"""No script but ours, and no text that becomes one: whatever a model wrote, it stays text."""

_PAGE_HEADERS: Final = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every response of the inspector's."""


@frozen
class _PageFile:
    """One file, and the headers that go with it."""

    body: bytes
    type: bytes
    tag: bytes
    """Entity tag: another for other bytes."""


def _page_files() -> Mapping[str, _PageFile]:
    """Read the files of the page, by name; the page itself has an empty one.

    They are the same for all viewers, and hold nothing secret.  There is no build step: a browser gets the files of
    ``static`` as they are.
    """
    found = (each for each in files("kiro_asgi.inspector").joinpath("static").iterdir() if each.is_file())
    read = {each.name: each.read_bytes() for each in found}
    return {
        "" if name == _INDEX else name: _PageFile(
            body, _TYPES[name.rpartition(".")[2]], b'"%s"' % sha256(body).hexdigest()[:32].encode()
        )
        for name, body in read.items()
    }


MayInspect = Callable[[Scope], Awaitable[bool]]
"""Whether the sender of a request may open the page: the host's decision."""

PREFIX: Final = "/inspector"

_API: Final = "api/"

_VIEWERS: Final = 8
"""Pages that may follow changes at the same time."""

_POLL: Final = 0.1
"""Seconds between two looks at what has changed."""

_SEVERAL: Final = 200
"""Calls of which one request asks."""

_SEARCHED: Final = 200
"""Characters of a text that is searched for."""

_NOT_KEPT: Final = "process %d does not keep this call: it made room, or another process of the gateway has it"

_NUMBER: Final = re.compile("[0-9]{1,15}")

_BATCH: Final = 100
"""Calls in one message."""

_QUIET: Final = 15.0
"""Seconds without a change after which a viewer is sent a comment, lest a proxy take the connection for dead."""

_PATIENCE: Final = 10.0
"""Seconds that a viewer may take for one message; then it has to reconnect, and is sent what it missed."""

_SECRET_BYTES: Final = 4096
_SECRET_SECONDS: Final = 10.0
"""Bounds of the request that shows the secret."""

_REFUSED: Final = 0.5
"""Seconds that the answer to a wrong secret takes."""

_DAYS: Final = 30
"""Days of usage that are shown where a viewer names none."""

_SEEN: Final = re.compile("([0-9a-f]{8})-([0-9]{1,15})-([0-9]{1,15})")
"""An event's id: the name of an inspector, and what its viewer has seen."""

_MOST_TOTALS: Final = 5000
"""Sums in one answer for the page; the table for spreadsheets has all."""

_PRIVATE: Final = ((b"cache-control", b"no-store"),)


@frozen(kw_only=True)
class Sources:
    """Data of the page other than calls, all of this process."""

    accounts: Callable[[], Mapping[str, Any]]
    """Whether the gateway is ready, and which credentials rest, or are at their limit."""

    usage: Callable[[str, str], Iterable[UsageRow]] | None
    """The ledger's rows from one day to another, both included; blocks.  ``None`` where none is kept."""

    timezone: str
    """Where days begin."""

    currency: str
    """Of all costs."""

    recordings: Recordings | None
    """Recordings of what clients and services sent; ``None`` where none are kept."""


class _Refused(Exception):
    """The request is refused, with a status and a message."""

    def __init__(self, status: int, message: str, headers: Headers = ()) -> None:
        self.status, self.message, self.headers = status, message, headers


@define(eq=False)
class Inspector:
    """Serves the page to viewers who are admitted.

    Its requests are not among those that the gateway counts: no observer sees them, and no limit delays them.
    """

    _settings: InspectorSettings
    _sources: Sources
    calls: RecentCalls
    _may_inspect: MayInspect | None = None
    """The host's decision, which is asked instead of the secret."""

    _siblings: Siblings = Siblings()  # noqa: RUF009 - a frozen value
    _wall: Callable[[], float] = time
    _sessions: Sessions = field(init=False)
    _files: Mapping[str, _PageFile] = field(init=False, factory=_page_files, repr=False)
    _run: str = field(init=False, factory=lambda: secrets.token_hex(4))
    """Name of this inspector: the numbers of changes are its own."""

    _viewers: int = field(init=False, default=0)
    _closed: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._sessions = Sessions(self._settings.secret, self._wall)

    @property
    def path(self) -> str:
        """Where its pages begin, below the mount point."""
        return PREFIX

    def contains(self, scope: Scope) -> bool:
        """Whether the request's path is the inspector's."""
        return _below(scope) is not None

    def close(self) -> None:
        """Disconnect viewers, as the process ends or the application is replaced; browsers reconnect by themselves."""
        self._closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await self._answer(_below(scope) or "", scope, receive, send)
        except _Refused as refused:
            headers = (JSON, *_PRIVATE, *_PAGE_HEADERS, *refused.headers)
            await respond(send, refused.status, dumps({"error": refused.message}), headers)
        except (Disconnected, *CLIENT_GONE):
            return

    async def _answer(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        await self._admit(scope)
        if self._is_shared(scope):
            where = self._siblings.inspectors[self._siblings.number] + name.removeprefix("/")
            await respond(send, 307, b"", [(b"location", where.encode()), *_PRIVATE, *_PAGE_HEADERS])
        elif not name:
            await respond(send, 308, b"", [(b"location", PREFIX.removeprefix("/").encode() + b"/"), *_PAGE_HEADERS])
        elif (asked := name.removeprefix("/")).startswith(_API):
            await self._serve(asked.removeprefix(_API), scope, receive, send)
        else:
            await self._page(asked.rstrip("/"), scope, send)

    def _is_shared(self, scope: Scope) -> bool:
        """Whether the request came to the port that all processes share, where the next one may meet another of them:
        each shows its calls at an address of its own."""
        own = [urlsplit(each).port for each in self._siblings.inspectors]
        return bool(own) and (scope.get("server") or ("", None))[1] not in own

    async def _admit(self, scope: Scope) -> None:
        """Refuse browsers that another site's page sent (DNS rebinding), and viewers whom the host does not admit."""
        if self._may_inspect is not None:
            if not await self._decided(self._may_inspect, scope):
                raise _Refused(403, "this site does not let you open the inspector; ask its operator")
        elif not is_allowed_host(header_values(scope, b"host"), self._settings.hosts):
            raise _Refused(421, "the inspector is not served under this host name; add it to inspector.hosts")

    async def _decided(self, may_inspect: MayInspect, scope: Scope) -> bool:
        try:
            return await may_inspect(scope)
        except Exception as error:
            _log.exception("may_inspect failed")
            raise _Refused(500, "this site could not decide whether you may; the gateway's log has why") from error

    async def _page(self, name: str, scope: Scope, send: Send) -> None:
        file = self._files.get(name)
        if file is None or name == _INDEX:
            raise _Refused(404, "there is nothing here")
        _require_method(scope, "GET")
        headers = ((b"etag", file.tag), (b"cache-control", b"no-cache"), *_PAGE_HEADERS)
        if file.tag in header_values(scope, b"if-none-match"):
            await send(response_start(304, headers))
            await send(response_body(b""))
        else:
            await respond(send, 200, file.body, ((b"content-type", file.type), *headers))

    async def _serve(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of the page."""
        if is_foreign(header_values(scope, b"sec-fetch-site")):
            raise _Refused(403, "the inspector answers only its own page")
        name = name.rstrip("/")
        if name == "session":
            await self._session(scope, receive, send)
            return
        if not self._is_signed_in(scope):
            raise _Refused(401, "open the inspector with its secret; kiro-asgi serve --inspect prints a link")
        if scope["method"] != "GET" and name in ("calls", "pins"):
            await self._change(name, scope, send)
            return
        _require_method(scope, "GET")
        if name.startswith("calls/"):
            await self._call(name.removeprefix("calls/"), send)
        elif (serve := self._handlers.get(name)) is not None:
            await serve(self, scope, receive, send)
        elif (view := _VIEWS.get(name)) is not None:
            await self._show(view, scope, send)
        else:
            raise _Refused(404, "there is nothing here")

    def _is_signed_in(self, scope: Scope) -> bool:
        return self._may_inspect is not None or self._sessions.is_good(header_values(scope, b"cookie"))

    async def _session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Report whether there is a session, begin one, or end it.

        The cookie has no path of its own, so browsers give it that of this request, whatever prefix a proxy took away:
        it goes with the page's requests and with no others.
        """
        _require_method(scope, "GET", "POST", "DELETE")
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        headers, signed_in = [], self._is_signed_in(scope)
        if scope["method"] == "POST":
            if not self._sessions.admits(await _read_secret(scope, receive)):
                await anyio.sleep(_REFUSED)
                raise _Refused(401, "this is not the inspector's secret")
            value, signed_in = self._sessions.begin(), True
            headers = [_cookie(f"{COOKIE}={value}; Max-Age={LIFETIME}; HttpOnly; SameSite=Strict{secure}")]
        elif scope["method"] == "DELETE":
            headers, signed_in = [_cookie(f"{COOKIE}=; Max-Age=0; HttpOnly; SameSite=Strict{secure}")], False
        content = {"signed_in": signed_in, "by_host": self._may_inspect is not None}
        await _respond_json(send, content, headers)

    async def _list(self, scope: Scope, receive: Receive, send: Send) -> None:
        """All calls that are kept."""
        changes = self.calls.changes(Seen(), self._settings.calls)
        await _respond_json(send, {"calls": [row(call) for call in changes.calls]})

    async def _call(self, request_id: str, send: Send) -> None:
        call = self.calls.find(request_id)
        if call is None:
            raise _Refused(404, _NOT_KEPT % getpid())
        await _respond_json(send, {**detail(call), "currency": self._sources.currency})

    async def _change(self, name: str, scope: Scope, send: Send) -> None:
        """Pin or delete a call: all that a viewer can change here, without effect on clients.

        No page of another origin can send these methods: a browser sends a preflight first, and no answer allows it.
        """
        call = _query(scope).get("call", "")
        if name == "calls":
            _require_method(scope, "GET", "DELETE")
            self.calls.delete(call)
        else:
            _require_method(scope, "PUT", "DELETE")
            if not self.calls.pin(call, scope["method"] == "PUT"):
                raise _Refused(409, "this call is no longer kept, or pinned calls take half of inspector.bytes already")
        await _respond_json(send, {})

    async def _show(self, view: _View, scope: Scope, send: Send) -> None:
        """One view of a call's recording."""
        if self._sources.recordings is None:
            raise _Refused(404, "inspector.content is none: nothing is kept of what clients and services send")
        query = _Query(_query(scope), self.calls, self._find)
        try:
            result = await anyio.to_thread.run_sync(view, self._sources.recordings, query)
        except (Unseen, TapeError) as unseen:
            raise _Refused(404, str(unseen)) from unseen
        if isinstance(result, _Download):
            headers = ((b"content-type", result.type), (b"content-disposition", result.disposition))
            await respond(send, 200, result.body, (*headers, *_PRIVATE, *_PAGE_HEADERS))
        else:
            await _respond_json(send, result)

    def _find(self, request_id: str) -> RecordedCall:
        call = self.calls.find(request_id)
        if call is None:
            raise Unseen(_NOT_KEPT % getpid())
        return call

    async def _accounts(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = self._sources.accounts()
        resting = [{**each, "words": of_error(each["reason"], "").short} for each in told["resting"]]
        await _respond_json(send, {**told, "resting": resting, "allowances": self.calls.allowances})

    async def _usage(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sums of usage for the page."""
        if self._sources.usage is None:
            await _respond_json(send, {"kept": False})
            return
        first, last, parts = self._usage_query(scope)
        found = await self._totals(first, last, parts)
        content = {"kept": True, "first": first, "last": last, "by": parts, "cut": len(found) > _MOST_TOTALS}
        content["currency"] = self._sources.currency
        await _respond_json(send, {**content, "totals": [total.named(parts) for total in found[-_MOST_TOTALS:]]})

    async def _usage_table(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The same for spreadsheets."""
        first, last, parts = self._usage_query(scope)
        text = as_csv(await self._totals(first, last, parts), parts)
        name = f'attachment; filename="usage-{first}-{last}.csv"'.encode()
        headers = ((b"content-type", b"text/csv; charset=utf-8"), (b"content-disposition", name))
        await respond(send, 200, text.encode(errors="replace"), (*headers, *_PRIVATE, *_PAGE_HEADERS))

    async def _totals(self, first: str, last: str, parts: tuple[str, ...]) -> Any:
        usage = self._sources.usage
        if usage is None:
            raise _Refused(404, "no usage is kept; see state.usage")
        try:
            return await anyio.to_thread.run_sync(lambda: totals(usage(first, last), parts))
        except KiroAsgiError as error:
            raise _Refused(503, f"the usage cannot be read now: {error.code}") from error

    def _usage_query(self, scope: Scope) -> tuple[str, str, tuple[str, ...]]:
        """The first day, the last, and what to group by."""
        query = _query(scope)
        parts = tuple(query.get("by", "day,key,upstream,model").split(","))
        if not PARTS.keys() >= {*parts} or len({*parts}) < len(parts):
            raise _Refused(400, f"by must be some of {', '.join(PARTS)}, with commas between them")
        today = datetime.fromtimestamp(self._wall(), ZoneInfo(self._sources.timezone)).date()
        last = _day(query, "last", today)
        first = _day(query, "first", last - timedelta(days=_DAYS - 1))
        first = max(first, last - timedelta(days=KEPT_DAYS - 1))
        return first.isoformat(), last.isoformat(), parts

    async def _follow(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a viewer the changes, as server-sent events, until it leaves."""
        if self._closed:
            raise _Refused(503, "the gateway is being stopped", ((b"retry-after", b"2"),))
        with self._viewing():
            known = _SEEN.fullmatch(b"".join(header_values(scope, b"last-event-id")[:1]).decode("latin-1"))
            seen = Seen(int(known[2]), int(known[3])) if known and known[1] == self._run else Seen()
            headers = ((b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no"))
            await send(response_start(200, (*headers, *_PRIVATE, *_PAGE_HEADERS)))
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_when_gone, receive, group.cancel_scope)
                await self._send_changes(send, seen)
                group.cancel_scope.cancel()

    @contextmanager
    def _viewing(self) -> Iterator[None]:
        if self._viewers >= _VIEWERS:
            raise _Refused(503, f"{_VIEWERS} pages are watching already; close one", ((b"retry-after", b"10"),))
        self._viewers += 1
        try:
            yield
        finally:
            self._viewers -= 1

    async def _send_changes(self, send: Send, seen: Seen) -> None:
        quiet, fresh = 0.0, seen == Seen()
        while not self._closed:
            changes = self.calls.changes(seen, _BATCH)
            seen = changes.seen
            if changes.calls or changes.gone or fresh:
                if not await _send_in_time(send, self._message(changes)):
                    return
                quiet, fresh = 0.0, False
            elif quiet >= _QUIET:
                if not await _send_in_time(send, b": \n\n"):
                    return
                quiet = 0.0
            else:
                quiet += _POLL
            await anyio.sleep(0 if len(changes.calls) == _BATCH else _POLL)
        await _send_in_time(send, b"", last=True)

    def _message(self, changes: Changes) -> bytes:
        content = {
            "fresh": changes.fresh,
            "gone": changes.gone,
            "content": "none" if self._sources.recordings is None else self._settings.content,
            "process": getpid(),
            "worker": self._siblings.number + 1,
            "workers": self._siblings.inspectors,
            "bytes": self.calls.size,
            "most_bytes": self._settings.bytes,
            "most_calls": self._settings.calls,
            "currency": self._sources.currency,
            "calls": [row(call) for call in changes.calls],
        }
        number = f"{self._run}-{changes.seen.change}-{changes.seen.gone}".encode()
        return b"id: %s\ndata: %s\n\n" % (number, dumps(content))

    _handlers: ClassVar[Mapping[str, Callable[[Inspector, Scope, Receive, Send], Awaitable[None]]]] = MappingProxyType(
        {
            "calls": _list,
            "events": _follow,
            "usage": _usage,
            "usage.csv": _usage_table,
            "accounts": _accounts,
        }
    )


@frozen
class _Query:
    """Parameters of a view."""

    values: Mapping[str, str]
    calls: RecentCalls
    find: Callable[[str], RecordedCall]

    @property
    def call(self) -> RecordedCall:
        return self.find(self.values.get("call", ""))

    @property
    def other(self) -> RecordedCall:
        """The call to compare with; the same where none is named."""
        return self.find(self.values.get("other") or self.values.get("call", ""))

    @property
    def several(self) -> list[RecordedCall]:
        """The calls of ``calls``: numbers, with commas between them."""
        named = islice(self.values.get("calls", "").split(","), _SEVERAL)
        return self.calls.numbered([int(each) for each in named if _NUMBER.fullmatch(each)])

    @property
    def run(self) -> Run:
        """Options of the replay: ``rechunk``, and ``set`` with one ``path=value`` a line."""
        lines = (line.partition("=") for line in self.values.get("set", "").splitlines())
        changed = tuple((path.strip(), value.strip()) for path, _, value in lines if path.strip())
        return Run(self.values.get("rechunk", "recorded"), changed)

    @property
    def index(self) -> int:
        text = self.values.get("index", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


@frozen
class _Download:
    """A file to download."""

    body: bytes
    type: bytes
    suffix: str
    call: RecordedCall

    @property
    def disposition(self) -> bytes:
        return f'attachment; filename="{name_of(self.call.facts)}{self.suffix}"'.encode()


def _tape(shown: Recordings, asked: _Query) -> _Download:
    call = asked.call
    written = shown.tape(call, asked.values.get("content", "")).write()
    return _Download(written, b"application/jsonl", ".tape.jsonl", call)


def _har(shown: Recordings, asked: _Query) -> _Download:
    call = asked.call
    return _Download(dumps(as_har(shown.tape(call))), b"application/json", ".har", call)


def _curl(shown: Recordings, asked: _Query) -> Mapping[str, Any]:
    return {"command": as_curl(shown.tape(asked.call), asked.values.get("origin", ""))}


_View = Callable[[Recordings, _Query], Mapping[str, Any] | _Download]

_VIEWS: Final[Mapping[str, _View]] = MappingProxyType(
    {
        "steps": lambda shown, asked: shown.steps(asked.call, asked.run),
        "step": lambda shown, asked: shown.step(asked.call, asked.run, asked.index),
        "answer": lambda shown, asked: shown.answer(asked.call, asked.run),
        "glimpses": lambda shown, asked: shown.glimpses(asked.several),
        "search": lambda shown, asked: shown.search(asked.values.get("text", "")[:_SEARCHED], asked.several),
        "failure": lambda shown, asked: shown.failure(asked.call),
        "request": lambda shown, asked: shown.request(asked.call),
        "compare": lambda shown, asked: shown.compare(asked.other, asked.call, asked.run),
        "conversation": lambda shown, asked: shown.conversation(asked.call, asked.calls.all()),
        "settings": lambda shown, asked: {"settings": shown.settings()},
        "curl": _curl,
        "har": _har,
        "tape": _tape,
    }
)
"""Views of a recording by the names in the page's requests; each does its work in a thread."""


def _below(scope: Scope) -> str | None:
    """The path below the inspector's, from the slash on; empty for its own, ``None`` for all others."""
    for path in local_paths(scope):
        if path == PREFIX or path.startswith(f"{PREFIX}/"):
            return path[len(PREFIX) :]
    return None


def _require_method(scope: Scope, *methods: str) -> None:
    if scope["method"] not in methods:
        raise _Refused(405, f"use {' or '.join(methods)}", ((b"allow", ", ".join(methods).encode()),))


async def _read_secret(scope: Scope, receive: Receive) -> str:
    body = read_body(scope, receive, max_bytes=_SECRET_BYTES, seconds=_SECRET_SECONDS, hold=_hold, release=_hold)
    try:
        content = loads(await body, max_depth=2)
    except KiroAsgiError as error:
        raise _Refused(400, 'send the secret as JSON: {"secret": "…"}') from error
    shown = content.get("secret") if isinstance(content, dict) else None
    return shown if isinstance(shown, str) else ""


def _hold(size: int) -> None:
    """Nothing: the request is small."""


def _query(scope: Scope) -> Mapping[str, str]:
    try:
        return {name: values[-1] for name, values in query_values(scope).items()}
    except RequestError as error:
        raise _Refused(400, error.message) from error


def _day(query: Mapping[str, str], name: str, otherwise: date) -> date:
    try:
        return read_day(query[name]) if name in query else otherwise
    except ValueError as error:
        raise _Refused(400, f"{name}: {error}") from None


def _cookie(value: str) -> tuple[bytes, bytes]:
    return b"set-cookie", value.encode()


async def _respond_json(send: Send, content: Mapping[str, Any], headers: Headers = ()) -> None:
    await respond(send, 200, dumps(content), (JSON, *_PRIVATE, *_PAGE_HEADERS, *headers))


async def _cancel_when_gone(receive: Receive, work: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()


async def _send_in_time(send: Send, data: bytes, *, last: bool = False) -> bool:
    """Send *data*; whether the viewer took it in time."""
    with anyio.move_on_after(_PATIENCE) as patience:
        try:
            await send(response_body(data, more=not last))
        except CLIENT_GONE:
            return False
    return not patience.cancelled_caught
