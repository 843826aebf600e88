"""Tapes in formats of other programs: a shell command, an HTTP archive."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from string import punctuation
from typing import Any, Final
from urllib.parse import quote

from kiro_asgi._version import __version__
from kiro_asgi.tapes.format import Line, Tape
from kiro_asgi.visible import visible, visible_lines

_ORIGIN: Final = "http://127.0.0.1:8000"

_OWN: Final = frozenset({b"connection", b"content-length", b"expect", b"host", b"transfer-encoding"})
"""Headers that an HTTP client makes by itself."""

_KEY: Final = '"authorization: Bearer $KIRO_ASGI_KEY"'


def as_curl(tape: Tape, origin: str = _ORIGIN) -> str:
    """A POSIX shell command that sends the client's request again, to *origin*; ``KIRO_ASGI_KEY`` holds a key.

    Raises:
        TapeError: The tape has no request.
    """
    request = tape.request
    path, root = request.text("path"), request.text("root")
    target = quote(path if path.startswith(f"{root}/") else root + path, safe="/:@!$&'()*+,;=")
    url = origin + target + (f"?{_escaped(query)}" if (query := request.text("query")) else "")
    words = ["curl", "--no-buffer", "--globoff", "--path-as-is", "--request", request.text("method"), url]
    for name, value in _shown(request):
        words += ["--header", f"{name}: {value}" if value else f"{name};"]
    command = f"{' '.join(map(_word, words))} --header {_KEY}"
    if not request.data:
        return command
    return f"{_printed(request.data)} | {command} --data-binary @-"


def _escaped(query: str) -> str:
    """*query* as it was sent, with percent-encoded bytes in place of what cannot be seen."""
    return quote(query.encode("latin-1", "replace"), safe=punctuation)


def _word(text: str) -> str:
    """One word of the command; control characters, which a terminal obeys when they are pasted, as octal numbers."""
    if visible(text) == text:
        return shlex.quote(text)
    return f'"$(printf {_octal(text.encode("utf-8", "surrogateescape"))})"'


def _printed(body: bytes) -> str:
    """A shell command that prints *body*, since an argument of a program can hold no more than 128 KiB.

    ``printf`` is built into the shell, so the limit does not apply; octal numbers can be pasted into any terminal.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if visible_lines(text) != text:
        return f"printf {_octal(body)}"
    return f"printf %s {shlex.quote(text)}"


def _octal(data: bytes) -> str:
    """An argument of ``printf`` for *data*, in plain ASCII."""
    return "'" + "".join(f"\\{byte:03o}" for byte in data) + "'"


def _shown(line: Line) -> Iterator[tuple[str, str]]:
    """The headers whose values are on the tape, without those that an HTTP client makes by itself."""
    for name, value in line.headers:
        if not value.startswith(b"(hidden, ") and name.lower() not in _OWN:
            yield name.decode("latin-1"), _text(value)


def _text(value: bytes) -> str:
    """A header's value as text that becomes the same bytes in a terminal with UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def as_har(tape: Tape) -> dict[str, Any]:
    """An HTTP archive, with an entry for the client's request and one for each to a service.

    Raises:
        TapeError: The tape has no request.
    """
    head = next(tape.of("client.head"), None)
    sends = [(line.t, line.data) for line in tape.of("client.bytes")]
    request = tape.request
    entries = [_entry(tape, request, request.text("path"), head, sends)]
    for attempt in tape.attempts:
        for answer in attempt.answers:
            reads = [(line.t, line.data) for _, line in answer.reads]
            entries.append(_entry(tape, answer.request, answer.request.text("url"), answer.head, reads))
    return {"log": {"version": "1.2", "creator": {"name": "kiro_asgi", "version": __version__}, "entries": entries}}


def _entry(tape: Tape, request: Line, url: str, head: Line | None, chunks: list[tuple[float, bytes]]) -> dict[str, Any]:
    """One entry of an HTTP archive; ``_chunks`` holds where the bytes were cut.

    Source: http://www.softwareishard.com/blog/har-12-spec/
    """
    body = b"".join(data for _, data in chunks)
    headers = [] if head is None else _pairs(head)
    kind = "" if head is None else head.header(b"content-type").decode("latin-1")
    first = head.t if head is not None else request.t
    last = chunks[-1][0] if chunks else first
    began = datetime.fromtimestamp(tape.head.number("at") + request.t, UTC).isoformat()
    waited, received = round((first - request.t) * 1000, 3), round((last - first) * 1000, 3)
    text = request.data.decode("utf-8", "replace")
    return {
        "startedDateTime": began,
        "time": round(waited + received, 3),
        "request": {
            "method": request.text("method"),
            "url": url if "://" in url else f"{_ORIGIN}{url}",
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": _pairs(request),
            "queryString": [],
            "postData": {"mimeType": "application/json", "text": text},
            "headersSize": -1,
            "bodySize": len(request.data),
        },
        "response": {
            "status": 0 if head is None else int(head.number("status")),
            "statusText": "",
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": headers,
            "content": {"size": len(body), "mimeType": kind, "text": body.decode("utf-8", "replace")},
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": len(body),
        },
        "cache": {},
        "timings": {"send": 0, "wait": waited, "receive": received},
        "_chunks": [{"t": t, "bytes": len(data)} for t, data in chunks],
    }


def _pairs(line: Line) -> list[dict[str, str]]:
    return [{"name": name.decode("latin-1"), "value": value.decode("latin-1")} for name, value in line.headers]
