"""Frames as the service sends them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from kiro_asgi.model.events import Delta
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.opaque import SameApi
from kiro_asgi.upstreams.bedrock.answer import FRAMES, stages
from kiro_asgi.upstreams.bedrock.claude import messages
from kiro_asgi.wire.eventstream import encode_frame

PADDING = {"p": "abcdefghijk"}


def event(name: str, **payload: Any) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, json.dumps({**payload, **PADDING}).encode())


def exception(name: str, **payload: Any) -> bytes:
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return encode_frame(headers, json.dumps(payload).encode())


def delta(index: int, **members: Any) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta=members)


def stop(index: int) -> bytes:
    return event("contentBlockStop", contentBlockIndex=index)


def call(index: int, call_id: str, name: str) -> bytes:
    return event("contentBlockStart", contentBlockIndex=index, start={"toolUse": {"toolUseId": call_id, "name": name}})


def end(reason: str = "end_turn", **usage: int) -> bytes:
    return event("messageStop", stopReason=reason) + event("metadata", usage=usage, metrics={"latencyMs": 7})


def chunk(**value: Any) -> bytes:
    return event("chunk", bytes=b64encode(json.dumps(value).encode()).decode())


def read(chunks: Iterable[bytes], content_type: str = FRAMES) -> list[Delta]:
    """The deltas of an answer that comes in these pieces."""
    pipeline: Pipeline[bytes, Delta] = Pipeline(*stages(content_type, messages), SameApi("", ""))
    return [*(each for piece in chunks for each in pipeline.feed([piece])), *pipeline.flush()]
