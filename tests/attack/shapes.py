"""Requests, schemas and values that are small to send and were dear to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = [
    "BEGINNINGS",
    "DIGITS",
    "MIB",
    "PREFACE",
    "SCHEMAS",
    "UPGRADE_TO_HTTP2",
    "VALUES",
    "WEBSOCKET",
    "frame",
    "nested_text",
]

MIB: Final = 1024 * 1024

DIGITS: Final = (400, 4_300)
"""Lengths of numbers: beyond a float, and as long as Python reads by default."""


def doubling(levels: int) -> dict[str, Any]:
    """A schema whose definitions are each two of the next."""
    defs: dict[str, Any] = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)}
    defs[f"d{levels}"] = {"type": "object"}
    return {"type": "object", "$defs": defs, "$ref": "#/$defs/d0"}


def unique() -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}


def choices() -> dict[str, Any]:
    """20,000 items, each one of 20,000 values."""
    items = {"enum": [f"v{number}" for number in range(20_000)]}
    return {"type": "object", "properties": {"a": {"type": "array", "items": items}}}


def branches(keyword: str) -> dict[str, Any]:
    """20,000 branches."""
    return {"type": "object", keyword: [{"properties": {f"p{number}": {"type": "string"}}} for number in range(20_000)]}


def chain(links: int) -> dict[str, Any]:
    """A definition that refers to the next, *links* times."""
    defs: dict[str, Any] = {f"d{link}": {"anyOf": [{"$ref": f"#/$defs/d{link + 1}"}]} for link in range(links)}
    defs[f"d{links}"] = {"type": "string"}
    return {"type": "object", "properties": {"city": {"$ref": "#/$defs/d0"}}, "$defs": defs}


def nested_text(depth: int) -> bytes:
    """A schema *depth* objects deep, as JSON, which is deeper than the standard encoder goes."""
    opening = b'{"type":"object","properties":{"city":'
    return opening * depth + b'{"type":"string"}' + b"}}" * depth


SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "doubling-14": lambda: doubling(14),
    "doubling-40": lambda: doubling(40),
    "unique": unique,
    "choices": choices,
    "anyOf": lambda: branches("anyOf"),
    "allOf": lambda: branches("allOf"),
    "chain-200": lambda: chain(200),
    "chain-2000": lambda: chain(2000),
}

VALUES: Final[Mapping[str, Callable[[], Any]]] = {
    "empty": dict,
    "city": lambda: {"city": "Bergen"},
    "unique": lambda: {"a": [{"n": number} for number in range(3000)]},
    "choices": lambda: {"a": [f"v{number}" for number in reversed(range(20_000))]},
}
"""Answers that are judged by a schema."""

WEBSOCKET: Final = (
    b"GET /v1/responses HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\nauthorization: Bearer first"
    b"\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
"""A handshake, but for its end."""

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The first that a client sends that knows of HTTP/2, with empty settings."""

UPGRADE_TO_HTTP2: Final = (
    b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n"
    b"http2-settings: AAMAAABk\r\n\r\n"
)

BEGINNINGS: Final[Mapping[str, bytes]] = {
    "nothing": b"",
    "a byte": b"G",
    "half a head": b"GET /health HTTP/1.1\r\nhost: x\r\n",
    "half a preface": PREFACE[:12],
    "the head of a preface": PREFACE[:18],
    "a preface": PREFACE,
    "an offer of HTTP/2": UPGRADE_TO_HTTP2,
    "an offer of HTTP/2 and its preface": UPGRADE_TO_HTTP2 + PREFACE,
    "two upgrades": UPGRADE_TO_HTTP2.replace(b"upgrade: h2c", b"upgrade: websocket\r\nupgrade: h2c"),
    "half a handshake": WEBSOCKET,
    "a handshake without a key": WEBSOCKET.partition(b"sec-websocket-key")[0] + b"\r\n",
    "a handshake of another version": WEBSOCKET.replace(b"13", b"12") + b"\r\n",
    "a handshake of HTTP/1.0": WEBSOCKET.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n",
    "a handshake and frames": WEBSOCKET + b"\r\n\x81\x80aaaa",
    "the hello of TLS": bytes.fromhex("16030100c8010000c40303") + bytes(193),
    "a version that is none": b"GET / HTTP/9.9\r\n\r\n",
}
"""Ways to begin a connection on which no request is made, or none that is not over."""


def frame(kind: int, data: bytes = b"", *, final: bool = True, reserved: int = 0) -> bytes:
    """A client's frame of WebSocket, with a mask that changes nothing."""
    size = len(data)
    if size < 126:
        length = bytes((0x80 | size,))
    elif size < 65_536:
        length = bytes((0x80 | 126,)) + size.to_bytes(2, "big")
    else:
        length = bytes((0x80 | 127,)) + size.to_bytes(8, "big")
    return bytes((final << 7 | reserved | kind,)) + length + bytes(4) + data
