"""The tape format: JSON Lines in UTF-8, one exchange, readable while it is written.

Each line is an object with ``k``, its kind, and ``t``, seconds since the request came.  Bytes are ``text`` where they
are UTF-8, else ``b64``.  The kinds, in the order in which they come::

    tape            v, id, at, by, content, settings, upstreams: the head, with the gateway's configuration
    token           value: an id that the gateway made; one for each, wherever it was made
    clock           value: seconds since the epoch, of which a date in the answer was made
    draw            value: a number from 0 to 1 that was drawn, as for the length of a pause
    client.request  method, root, path, query, api, headers, and the body
    file            a file that a request names by address: url, media_type, and its bytes; or error, code, param
    stored          what was read from the store, and found: whether there was anything; or error, code
    credential      upstream, asked: get, renew or asking, and found, credential (its name), host; or error, code,
                    message, retry_after, and fresh: whether the service was asked, so that it is no earlier fault
    reset           value: seconds since the epoch of the next quota, where the service was asked for it
    factor          model, value: by what estimates of a prompt for a model are multiplied, where it is not 1
    plan            n, upstream, model, streamed, rules, context_window, input_estimate, output_factor: an attempt
    up.request      n, method, url, headers, and the body
    up.head         n, status, headers
    up.bytes        n, and what one read brought
    up.end          n, and error, code, message where the answer broke off
    tool            name, tool: its kind, and the output of a tool that the client does not run
    client.head     status, headers
    client.bytes    what one send took, and blocked: how long the server had to wait for the client
    attempt.end     n, outcome, error, code
    cut             why: what follows is missing, so it cannot be replayed
    end             outcome, status, error, code

Unknown kinds and members are ignored; a tape of a later version is refused.

A tape may come from anyone.  What is read is bounded: bytes, lines, depth and values of a line, and every number; a
message names the line.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.limits import LARGEST_COUNT, TAPE_BYTES, TAPE_LINES, TAPE_SECONDS
from kiro_asgi.wire.json import JsonError, dumps, loads

VERSION: Final = 1

BYTES: Final = frozenset({"client.request", "file", "stored", "up.request", "up.bytes", "tool", "client.bytes"})
"""Kinds of lines that hold bytes."""

_LAST_DATE: Final = 250_000_000_000
"""Seconds since the epoch of a date in the year 9892: with `TAPE_SECONDS` more it can still be written."""

_RANGES: Final[Mapping[tuple[str, str], tuple[float, float]]] = MappingProxyType(
    {
        ("tape", "at"): (0, _LAST_DATE),
        ("clock", "value"): (0, _LAST_DATE),
        ("draw", "value"): (0, 1),
        ("reset", "value"): (0, _LAST_DATE),
        ("factor", "value"): (0, 1_000_000),
        ("plan", "output_factor"): (0, 1_000_000),
        ("up.head", "status"): (0, 999),
        ("client.head", "status"): (0, 999),
    }
)
"""Lowest and highest value of a number, by kind of line and member."""

_ANY: Final = (-LARGEST_COUNT, LARGEST_COUNT)
"""The same for every other number: what can be computed with, and written, without error."""

Headers = tuple[tuple[bytes, bytes], ...]


class TapeError(ConfigError):
    """The file is no tape, or cannot be used for what was requested."""


@frozen
class Line:
    """One line."""

    kind: str
    t: float
    """Seconds since the request came."""

    members: Mapping[str, Any] = field(factory=dict)
    data: bytes = b""
    """The bytes of a line that holds some."""

    @property
    def headers(self) -> Headers:
        """The headers, as they go over the wire."""
        try:
            pairs = self.members.get("headers") or ()
            return tuple((_raw(name), _raw(value)) for name, value in pairs)
        except (TypeError, ValueError):
            raise TapeError(f"the headers of a {self.kind} line are not pairs of texts", code="tape.headers") from None

    def header(self, name: bytes) -> bytes:
        """The first header of that name, which is in lower case; empty where there is none."""
        return next((value for each, value in self.headers if each.lower() == name), b"")

    def text(self, name: str) -> str:
        """A member that is a text; empty where it is none."""
        value = self.members.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float:
        """A member that is a number; 0 where it is none."""
        value = self.members.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else 0

    def write(self) -> bytes:
        """The line as it stands in a file, with its end."""
        members: dict[str, Any] = {"k": self.kind, "t": round(self.t, 6), **self.members}
        if self.kind in BYTES:
            try:
                members["text"] = self.data.decode()
            except UnicodeDecodeError:
                members["b64"] = b64encode(self.data).decode()
        return dumps(members) + b"\n"

    @classmethod
    def read(cls, written: bytes) -> Line:
        """The line that *written* is.

        Raises:
            TapeError: It is no object with a kind and a time, or has a number that no recorder writes.
        """
        try:
            members = loads(written)
        except JsonError as error:
            raise TapeError(f"a line is not JSON: {error}", code="tape.json") from error
        kind, t = (members.pop("k", None), members.pop("t", None)) if isinstance(members, dict) else (None, None)
        if not isinstance(kind, str) or isinstance(t, bool) or not isinstance(t, int | float):
            raise TapeError("a line has no kind (k) or no time (t)", code="tape.line")
        _check_number("t", t, (0, TAPE_SECONDS))
        for name, value in members.items():
            _check_number(name, value, _RANGES.get((kind, name), _ANY))
        if kind in _TOKENS:
            _check_token(members, _TOKENS[kind])
        data = _bytes(kind, members) if kind in BYTES else b""
        return cls(kind, _seconds(t), members, data)


def _seconds(t: float) -> float:
    try:
        return float(t)
    except OverflowError:
        raise TapeError("the time (t) of a line is too large", code="tape.line") from None


def _check_number(name: str, value: object, bounds: tuple[float, float]) -> None:
    if isinstance(value, int | float) and not bounds[0] <= value <= bounds[1]:
        lowest, highest = bounds
        raise TapeError(f"{name[:_NAME]} must be from {lowest:.15g} to {highest:.15g}", code="tape.number")


_TOKENS: Final[Mapping[str, str]] = MappingProxyType({"tape": "id", "token": "value"})
"""Members that are ids, by kind of line."""

_TOKEN: Final = re.compile("[!-~]{0,200}")


def _check_token(members: Mapping[str, Any], name: str) -> None:
    """Ids go into headers of the answer, so they are plain ASCII."""
    value = members.get(name, "")
    if isinstance(value, str) and not _TOKEN.fullmatch(value):
        raise TapeError(f"{name} must be at most 200 printable ASCII characters without spaces", code="tape.token")


_NAME: Final = 60
"""Characters of a member's name in a message."""


def _raw(text: object) -> bytes:
    """A name or a value of a header: a text in a file, bytes where it was just recorded."""
    return text if isinstance(text, bytes) else str(text).encode("latin-1")


def _bytes(kind: str, members: dict[str, Any]) -> bytes:
    text, encoded = members.pop("text", ""), members.pop("b64", None)
    try:
        return str(text).encode() if encoded is None else b64decode(encoded, validate=True)
    except (UnicodeEncodeError, Base64Error, TypeError, ValueError):
        raise TapeError(f"the bytes of a {kind} line cannot be read", code="tape.bytes") from None


@frozen
class TapeAnswer:
    """A service's answer to one request."""

    request: Line
    head: Line | None
    reads: tuple[tuple[int, Line], ...]
    """Each with its place among the tape's lines."""

    end: Line | None


@frozen
class TapeAttempt:
    """One attempt at the answer."""

    plan: Line
    answers: tuple[TapeAnswer, ...]
    """One, or several where the service paused."""


@frozen
class Tape:
    """One exchange."""

    lines: tuple[Line, ...]

    @property
    def head(self) -> Line:
        """The first line, which names version, settings and upstreams."""
        return self.lines[0]

    @property
    def is_masked(self) -> bool:
        """Whether its texts were masked, so that only its shape is what it was."""
        return self.head.text("content") == "masked"

    @property
    def request(self) -> Line:
        """The client's request.

        Raises:
            TapeError: It is missing.
        """
        for line in self.of("client.request"):
            return line
        raise TapeError(
            "the tape has no client request, so nothing can be replayed; it was refused before its body was read, "
            "or it was a WebSocket's handshake",
            code="tape.request",
        )

    @property
    def end(self) -> Line | None:
        """The last line; ``None`` where the tape is still being written, or its process ended."""
        return next(self.of("end"), None)

    @property
    def cut(self) -> str:
        """Why something is missing; empty where nothing is."""
        return next((line.text("why") or "unknown" for line in self.of("cut")), "")

    def of(self, kind: str) -> Iterator[Line]:
        """The lines of one kind."""
        return (line for line in self.lines if line.kind == kind)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The ids that were made."""
        return tuple(line.text("value") for line in self.of("token"))

    @property
    def status(self) -> int:
        """Of the response; 0 where there was none."""
        return int(next((line.number("status") for line in self.of("client.head")), 0))

    @property
    def sent(self) -> bytes:
        """All that the client was sent."""
        return b"".join(line.data for line in self.of("client.bytes"))

    @property
    def attempts(self) -> tuple[TapeAttempt, ...]:
        """The attempts at the answer."""
        attempts: list[tuple[Line, list[_Answer]]] = []
        for place, line in enumerate(self.lines):
            if line.kind == "plan":
                attempts.append((line, []))
            elif attempts and line.kind == "up.request":
                attempts[-1][1].append(_Answer(line))
            elif attempts and attempts[-1][1]:
                attempts[-1][1][-1].add(place, line)
        return tuple(TapeAttempt(plan, tuple(each.build() for each in answers)) for plan, answers in attempts)

    def write(self) -> bytes:
        """The whole file."""
        return b"".join(line.write() for line in self.lines)


class _Answer:
    """Gathers the lines of one answer."""

    def __init__(self, request: Line) -> None:
        self._request = request
        self._parts: dict[str, Line] = {}
        self._reads: list[tuple[int, Line]] = []

    def add(self, place: int, line: Line) -> None:
        if line.kind == "up.bytes":
            self._reads.append((place, line))
        elif line.kind in ("up.head", "up.end"):
            self._parts.setdefault(line.kind, line)

    def build(self) -> TapeAnswer:
        return TapeAnswer(self._request, self._parts.get("up.head"), tuple(self._reads), self._parts.get("up.end"))


def read_tape(chunks: Iterable[bytes]) -> Tape:
    """Read a tape, as far as it is written; an incomplete last line is ignored.

    Args:
        chunks: The file, in pieces of any size.

    Raises:
        TapeError: It is no tape, of a later version, or exceeds one of the limits of tapes in `kiro_asgi.limits`.
    """
    lines: list[Line] = []
    for number, written in enumerate(_split(chunks), 1):
        if written.strip():
            lines.append(_numbered(number, written, is_first=not lines))
        if number > TAPE_LINES:
            raise TapeError(f"the tape has more than {TAPE_LINES} lines", code="tape.size")
    if not lines:
        raise TapeError("the file is empty", code="tape.empty")
    return Tape(tuple(lines))


def _numbered(number: int, written: bytes, *, is_first: bool) -> Line:
    """Read one line; its *number* stands in the message where that fails."""
    try:
        line = Line.read(written)
        if is_first:
            _check_head(line)
    except TapeError as error:
        raise TapeError(f"line {number}: {error.message}", code=error.code) from error
    return line


def _check_head(line: Line) -> None:
    version = line.members.get("v")
    if line.kind != "tape" or not isinstance(version, int):
        raise TapeError('the first line is not that of a tape, {"k":"tape","v":1,…}', code="tape.head")
    if version > VERSION:
        raise TapeError(
            f"the tape has version {version}, and this kiro_asgi reads up to {VERSION}: upgrade kiro_asgi",
            code="tape.version",
        )


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest: list[bytes] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > TAPE_BYTES:
            raise TapeError(f"the tape is larger than {TAPE_BYTES} bytes", code="tape.size")
        *complete, left = chunk.split(b"\n")
        for line in complete:
            yield b"".join([*rest, line])
            rest = []
        rest.append(left)
    last = b"".join(rest)
    if _is_complete(last):  # written by an editor that ends files without a line break
        yield last


def _is_complete(line: bytes) -> bool:
    try:
        loads(line)
    except JsonError:
        return False
    return True
