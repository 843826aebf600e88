"""The grammar of a streamed Gemini answer, as a checker that shares no code with the encoder.

::

    stream = object* last
    object = "data: " JSON "\\n\\n", a candidate with parts and no reason to end
    last   = the same with a reason and token counts

Nothing else is legal: the official clients fail over comments, names of events and sentinels.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

DATA: Final = ("text", "functionCall")
LINE_ENDS: Final = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""What some client takes for the end of a line, besides the one that is."""

BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2}==|[A-Za-z0-9+/_-]{3}=)?")


def events(stream: bytes) -> list[dict[str, Any]]:
    """The objects of a stream of events."""
    text = stream.decode()
    assert not LINE_ENDS.search(text)
    assert text.endswith("\n\n") or not text
    lines = text.split("\n\n")[:-1]
    assert all(line.startswith("data: {") and "\n" not in line for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def array(stream: bytes) -> list[dict[str, Any]]:
    """The objects of a stream that is one array."""
    found: list[dict[str, Any]] = json.loads(stream)
    return found


def check_cut(stream: bytes) -> dict[str, Any]:
    """Fail unless *stream* ends with an error, as an event and once more bare, and is legal until then; the error."""
    told, _, bare = stream.rpartition(b"\n\n")
    *before, last = events(told + b"\n\n")
    assert json.loads(bare) == last
    assert list(last) == ["error"]
    assert all(each["candidates"][0]["content"]["parts"] for each in before)
    error: dict[str, Any] = last["error"]
    return error


def check(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Fail unless *objects* are one whole, legal answer; the same as one object, neighbouring texts joined."""
    *_, last = objects
    parts: list[dict[str, Any]] = []
    for each in objects:
        (candidate,) = each["candidates"]
        assert candidate["index"] == 0
        assert candidate["content"]["role"] == "model"
        assert candidate["content"]["parts"]
        assert ("finishReason" in candidate) == ("usageMetadata" in each) == (each is last)
        assert (each["modelVersion"], each["responseId"]) == (last["modelVersion"], last["responseId"])
        parts += candidate["content"]["parts"]
    for part in parts:
        assert sum(name in part for name in DATA) == 1, part
        assert BASE64.fullmatch(part.get("thoughtSignature", ""))
        if "functionCall" in part:
            assert isinstance(part["functionCall"]["args"], dict)
    candidate = {**last["candidates"][0], "content": {"role": "model", "parts": joined(parts)}}
    return {**last, "candidates": [candidate]}


def joined(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same without empty texts that say nothing, and neighbours of one kind as one."""
    found: list[dict[str, Any]] = []
    for part in parts:
        if part == {"text": ""}:
            continue
        plain = "text" in part and "thoughtSignature" not in part
        before = found[-1] if found else {}
        if plain and "text" in before and "thoughtSignature" not in before and part.keys() == before.keys():
            found[-1] = {**before, "text": before["text"] + part["text"]}
        else:
            found.append(part)
    return found
