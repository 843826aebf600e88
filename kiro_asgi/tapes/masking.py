"""Removal of secrets and prose from recordings, without changing a length.

The reads of a body are joined, since a secret may lie across two of them, and cut again at the same places.  In an AWS
event stream each changed frame gets fresh checksums.

Masking keeps what bugs depend upon: sizes, boundaries, white space, the structure of JSON and of server-sent events,
names of members, of tools and of events, roles, ids, choices of an API, numbers outside of texts, escapes, known tags,
and the scheme of an address.  In all other texts each letter becomes ``x`` or ``X``, each digit ``1``, and each longer
character one of the same length.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Final
from zlib import crc32

from attrs import frozen

from kiro_asgi.redaction import Redactor
from kiro_asgi.wire.json import JsonError, loads

EVENT_STREAM: Final = "application/vnd.amazon.eventstream"

SHOWN_HEADERS: Final = re.compile(
    rb"content-(?:type|length|encoding)|accept|user-agent|connection|transfer-encoding|server|date|retry-after(?:-ms)?|via"
    rb"|(?:x-|apim-|openai-|cf-)?(?:amzn-|amz-)?request-?id|x-(?:amzn|amz)-(?:requestid|errortype|target)|idempotency-key"
    rb"|(?:x-|anthropic-)?ratelimit-[a-z-]+|anthropic-(?:version|beta)|openai-(?:beta|version|processing-ms)"
    rb"|x-stainless-[a-z-]+|x-kiro-asgi-[a-z-]+|cache-control",
    re.IGNORECASE,
)
"""Names of headers whose values are shown: a list of the harmless ones, since the names of secret ones are not all
known."""

_HIDDEN: Final = re.compile(rb"\(hidden, \d{1,20} bytes\)")
"""What stands for a value that is not shown."""

_SHAPES: Final = re.compile(
    rb"\b(?:sk|ksk|pk|rk|xai|gsk|hf|ghp|gho)[-_][A-Za-z0-9_-]{16,}+|\bA[KS]IA[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}+"
    rb"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?"
    rb"|-----BEGIN [A-Z ]{1,40}-----[A-Za-z0-9+/=\\\s]{16,}+-----END [A-Z ]{1,40}-----"
    rb"|\barn:aws[a-z-]{0,12}:[a-z-]{2,40}:[a-z0-9-]{0,30}:\d{12}:"
)
"""Secrets by their looks: keys of known services, tokens, private keys, and accounts of AWS."""

_BEGINNINGS: Final = (
    *(word + mark for word in b"sk pk rk xai gsk hf ghp gho".split() for mark in (b"-", b"_")),
    *(b"AKIA", b"ASIA", b"AIza", b"eyJ", b"-----BEGIN ", b"arn:aws"),
)
"""Each of them has one of these; most texts have none, which is quick to check."""

_QUERY_SECRET: Final = re.compile(
    r"((?:^|[?&])[a-z_-]{0,40}(?:key|token|secret|signature|credential)[a-z_-]{0,40}=)([^&#]*)", re.IGNORECASE
)

_KEY: Final = re.compile(rb"[A-Za-z_$@.:][\w$@.:/-]{0,63}")
"""A member's name as programs have it; any other name is masked, too."""

_KEPT: Final = frozenset(
    b"type role model id name call_id tool_call_id tool_use_id toolUseId object finish_reason finishReason"
    b" stop_reason stopReason status event item_id response_id previous_response_id conversationId messageId responseId"
    b" modelId modelVersion mimeType mime_type media_type required service_tier effort code __type reason origin"
    b" unit format include phase execution syntax".split()
)
"""Members whose texts are words of an API, or ids."""

_CHOICES: Final = frozenset(
    b"auto none any required disabled enabled adaptive omitted all minimal low medium high xhigh max concise detailed"
    b" text json in_memory 24h 5m 1h ephemeral default flex priority scale".split()
)
"""Texts that are a choice of an API, in whatever member."""

_DOCUMENT: Final = b"bytes"
"""A member with a document in base64, or with a picture."""

_LONGEST_KEPT: Final = 256
"""Bytes of such a text."""

_STRING: Final = re.compile(rb'"((?:[^"\\]|\\.)*+)(?:"(\s*+:)?|$|\\$)', re.DOTALL)

_TAGS: Final = rb"</?(?:thinking|think|reasoning|thought|tool_call|tool_calls|invoke|function_calls|parameter)>"

_WITHIN: Final = re.compile(
    rb"(\\u[0-9a-fA-F]{4}|\\.|\b(?:true|false|null)\b|\bhttps?://|"
    + _TAGS
    + rb"|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}"
    rb"|[\xf0-\xf4][\x80-\xbf]{3})",
    re.DOTALL,
)
"""Pieces of a text that are no single letters."""

_OUTSIDE: Final = re.compile(
    rb"((?:^|(?<=[\r\n]))(?:event|id|retry):[^\r\n]{0,200}|(?:^|(?<=[\r\n]))data:|\b(?:true|false|null)\b|\[DONE\]"
    rb"|-?\b\d[\d.]*(?:[eE][+-]?\d+)?\b|[\xc2-\xf4][\x80-\xbf]{1,3})"
)
"""Pieces between the strings of a document, or of a stream of documents, that must not change."""

_PLAIN: Final = b'{}[],:"-.0123456789 \t\r\n'
_SPECIAL: Final = (b"\\", b"<", b"://", b"true", b"false", b"null")
"""Marks of a text that cannot be masked letter by letter."""

_LETTERS: Final = bytes.maketrans(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", b"x" * 26 + b"X" * 26 + b"1" * 10
)
_SHAPE: Final = bytes.maketrans(b"X1+/", b"xxxx")

_LONGER: Final[Mapping[int, bytes]] = MappingProxyType({2: "é".encode(), 3: "中".encode(), 4: "😀".encode()})
"""Characters by their bytes."""


_KIND_BYTES: Final = 16
"""Bytes of a file by which its kind is known."""

_LENGTHS: Final = Struct(">II")
_SUM: Final = Struct(">I")
_PRELUDE: Final = 12
_OVERHEAD: Final = 16
"""Bytes of a frame without headers and payload."""


_RUN: Final = re.compile(rb"[A-Za-z0-9_-]{40,}")
"""Base64 for URLs: other content has other punctuation, too."""


def mask(data: bytes) -> bytes:
    """*data*, which is JSON or server-sent events, whole or not, without a word of prose; of the same length."""
    return _mask_strings(data, _mask_document)


def _mask_strings(data: bytes, mask_document: Callable[[bytes], bytes]) -> bytes:
    pieces: list[bytes] = []
    end, member = 0, b""
    for match in _STRING.finditer(data):
        start, stop = match.span(1)
        between, inner = data[end:start], match[1]
        pieces.append(_mask_pieces(_OUTSIDE, between) if between.strip(_PLAIN) else between)
        if match[2] is not None:
            member = inner
            pieces.append(inner if _KEY.fullmatch(inner) else _mask_text(inner))
        elif inner in _CHOICES or (member in _KEPT and len(inner) <= _LONGEST_KEPT):
            pieces.append(inner)
        else:
            pieces.append(mask_document(inner) if member == _DOCUMENT else _mask_text(inner))
        end = stop
    pieces.append(_mask_pieces(_OUTSIDE, data[end:]))
    return b"".join(pieces)


def _mask_document(text: bytes) -> bytes:
    """A JSON document in base64, as chunks of an event stream have, masked inside; any other text."""
    try:
        document = b64decode(text, validate=True)
        loads(document)
    except (Base64Error, JsonError):
        return _mask_text(text)
    return b64encode(_mask_strings(document, _mask_text))


def shape(data: bytes) -> bytes:
    """*data* masked, and without the differences in base64 of other words: equal for data that differ in words only."""
    return _RUN.sub(lambda run: b"x" * len(run[0]), mask(data).translate(_SHAPE))


def _mask_text(text: bytes) -> bytes:
    is_special = not text.isascii() or any(word in text for word in _SPECIAL)
    return _mask_pieces(_WITHIN, text) if is_special else text.translate(_LETTERS)


def _mask_pieces(kept: re.Pattern[bytes], text: bytes) -> bytes:
    """*text* with its letters masked, except in pieces that *kept* finds; of these only characters beyond ASCII."""
    pieces = kept.split(text)
    pieces[::2] = [each.translate(_LETTERS) for each in pieces[::2]]
    pieces[1::2] = [_mask_piece(each) for each in pieces[1::2]]
    return b"".join(pieces)


def _mask_piece(piece: bytes) -> bytes:
    if piece[0] >= 0xC2:
        return _LONGER[len(piece)]
    if piece[:2] != rb"\u" or len(piece) != 6:
        return piece
    unit = int(piece[2:], 16)
    if unit < 0x20:  # a line break, or a tab
        return piece
    high, low = 0xD800 <= unit < 0xDC00, 0xDC00 <= unit < 0xE000
    return rb"\ud83d" if high else rb"\ude00" if low else rb"\u0078" if unit < 0x80 else rb"\u4e2d"


def cover_shapes(data: bytes) -> bytes:
    """*data* with asterisks for whatever looks like a secret."""
    if not any(beginning in data for beginning in _BEGINNINGS):
        return data
    return _SHAPES.sub(lambda match: b"*" * len(match[0]), data)


def is_event_stream(content_type: str) -> bool:
    """Whether a body of that type is an AWS event stream."""
    return content_type.partition(";")[0].strip().lower() == EVENT_STREAM


def shown_headers(headers: Iterable[tuple[bytes, bytes]], cover: Callable[[bytes], bytes]) -> list[list[str]]:
    """The *headers* as a tape has them: values that may be secret are replaced by their length."""
    return [
        [name.decode("latin-1"), cover(value).decode("latin-1") if SHOWN_HEADERS.fullmatch(name) else _hidden(value)]
        for name, value in headers
    ]


def _hidden(value: bytes) -> str:
    if _HIDDEN.fullmatch(value):  # a tape that is masked has been recorded, so that the value was hidden then
        return value.decode("latin-1")
    return f"(hidden, {len(value)} bytes)"


def shown_url(url: str, cover: Callable[[bytes], bytes]) -> str:
    """A URL, or a query, as a tape has it."""
    hidden = _QUERY_SECRET.sub(lambda match: match[1] + "*" * len(match[2]), url)
    return cover(hidden.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")


@frozen
class Protection:
    """Takes secrets out of bodies, and prose where they are to be masked."""

    redactor: Redactor
    is_masking: bool

    def cover(self, data: bytes) -> bytes:
        """*data* without secrets, neither known ones nor what looks like one."""
        return cover_shapes(self.redactor.cover_in(data))

    def protect(self, data: bytes) -> bytes:
        """A whole text without secrets, and without prose."""
        covered = self.cover(data)
        return mask(covered) if self.is_masking else covered

    def protect_file(self, data: bytes) -> bytes:
        """A file; of one that is no text only the beginning stays, which shows its kind."""
        try:
            data.decode()
        except UnicodeDecodeError:
            return data[:_KIND_BYTES].ljust(len(data), b"\0") if self.is_masking else data
        return self.protect(data)

    def protect_frames(self, data: bytes) -> bytes:
        """The same for an AWS event stream; a frame that changes is sealed again."""
        covered = self.cover(data)
        if covered == data and not self.is_masking:
            return data
        frames = [*_frames(data)]
        payloads = b"".join(covered[start:stop] for _, start, stop, _ in frames)
        masked = mask(payloads) if self.is_masking else payloads
        sealed: list[bytes] = []
        at = 0
        for begin, start, stop, end in frames:
            size = stop - start
            # Lengths stay as they were: a "secret" in them would be one by chance.
            message = data[begin : begin + _PRELUDE] + covered[begin + _PRELUDE : start] + masked[at : at + size]
            sealed.append(_sealed(data[begin:end], message[: end - begin]))
            at += size
        return b"".join(sealed)

    def protect_reads(self, reads: list[bytes], content_type: str) -> list[bytes]:
        """The reads of one body, cut at the same places."""
        body = b"".join(reads)
        protected = self.protect_frames(body) if is_event_stream(content_type) else self.protect(body)
        cut, at = [], 0
        for read in reads:
            cut.append(protected[at : at + len(read)])
            at += len(read)
        return cut


def _frames(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Beginning, payload's beginning and end, and end of each frame; the last may be cut, or be no frame at all."""
    at = 0
    while at < len(data):
        begin, at = at, len(data)
        if at - begin < _OVERHEAD:
            yield begin, at, at, at
            return
        total, headers = _LENGTHS.unpack_from(data, begin)
        if total < _OVERHEAD + headers or begin + total > at:
            yield begin, min(begin + _PRELUDE + headers, at), at, at
        else:
            at = begin + total
            yield begin, begin + _PRELUDE + headers, at - _SUM.size, at


def _sealed(frame: bytes, message: bytes) -> bytes:
    """*message*, the masked *frame*, with its checksum; one that was wrong, or missing, stays so."""
    old = frame[len(message) :]
    if len(old) != _SUM.size or message == frame[: len(message)] or _SUM.pack(crc32(frame[: len(message)])) != old:
        return message + old
    return message + _SUM.pack(crc32(message))
