"""The grammar of a streamed Chat Completions answer, as a checker that shares no code with the encoder.

::

    stream = chunk* ("data: [DONE]")
    chunks = role, deltas, the reason for the end, and perhaps token counts

An error is a chunk without choices, and then once more by itself.
"""

from __future__ import annotations

import json
from typing import Any, Final

FINISHES: Final = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})


def payloads(stream: bytes) -> list[str]:
    """The data of every event, by the rules of the WHATWG; nothing but ``data`` and comments is allowed here."""
    events: list[str] = []
    pending: list[str] = []
    lines = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").decode().split("\n")
    assert lines[-1] == "", "the last event is not finished by a blank line"
    for line in lines[:-1]:
        if line == "" and pending:
            events.append("\n".join(pending))
            pending = []
        elif line and not line.startswith(":"):
            assert line.startswith("data: "), f"not a data line: {line[:60]!r}"
            pending.append(line.removeprefix("data: "))
            assert len(pending) == 1, "an event of more than one line"
    assert not pending, "the last event is not finished by a blank line"
    return events


def check(stream: bytes) -> list[dict[str, Any]]:
    """The chunks of a legal stream; that of an error is followed by the error itself.

    Raises:
        AssertionError: The order or the form of something is not legal.
    """
    data = payloads(stream)
    assert data and data[-1] == "[DONE]" and data.count("[DONE]") == 1, "not exactly one sentinel at the end"
    chunks = [json.loads(text, parse_constant=_refuse) for text in data[:-1]]
    if chunks and "error" in chunks[-1]:
        assert chunks.pop() == {"error": chunks[-1].get("error")}, "no error by itself, like that of the chunk before"
    assert len({(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in chunks}) <= 1
    broken = bool(chunks) and "error" in chunks[-1]
    body = chunks[:-1] if broken else chunks
    assert not any("error" in chunk for chunk in body), "something follows an error"
    if broken:
        _check_error(chunks[-1])
    _check_order(body, broken)
    _check_calls(body)
    return chunks


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def _check_error(chunk: dict[str, Any]) -> None:
    assert chunk["choices"] == []
    assert set(chunk["error"]) == {"message", "type", "param", "code"}
    assert chunk["error"]["code"] == "stream_error"


def _check_order(chunks: list[dict[str, Any]], broken: bool) -> None:
    """Role, deltas, finish, and perhaps usage; a broken stream may stop anywhere."""
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert all(len(chunk["choices"]) == 1 for chunk in chunks[:-1]), "only the last chunk may have no choice"
    for place, choice in enumerate(choices):
        assert choice["index"] == 0
        assert choice["logprobs"] is None
        assert ("role" in choice["delta"]) == (place == 0), "the role is not in the first chunk alone"
    finishes = [choice["finish_reason"] for choice in choices]
    assert all(reason is None for reason in finishes[:-1]), "a chunk follows the finish chunk"
    if broken and (not finishes or finishes[-1] is None):
        return
    assert finishes[-1] in FINISHES
    assert choices[-1]["delta"] == {}, "the finish chunk says something else as well"


def _check_calls(chunks: list[dict[str, Any]]) -> None:
    """Indices from 0 without gaps; id, type and name in the first delta of each and nowhere else."""
    started = 0
    for chunk in chunks:
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                if "id" in call:
                    assert call["index"] == started, "a call is out of order"
                    assert set(call) - {"extra_content"} == {"index", "id", "type", "function"}
                    assert set(call["function"]) == {"name", "arguments"}
                    assert call["function"]["arguments"] == ""
                    started += 1
                else:
                    assert call["index"] == started - 1, "a fragment of a call that is not open"
                    assert set(call) == {"index", "function"} and set(call["function"]) == {"arguments"}


def fold(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """The message a client puts together, its finish reason and its usage."""
    turn: dict[str, Any] = {}
    calls: dict[int, dict[str, Any]] = {}
    finish = usage = None
    for chunk in chunks:
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            finish = choice["finish_reason"] or finish
            delta = choice["delta"]
            for key in ("role", "content", "refusal", "reasoning_content"):
                if delta.get(key) is not None:
                    turn[key] = turn.get(key, "") + delta[key]
            for entry in delta.get("reasoning_details", ()):
                assert entry["index"] == len(turn.setdefault("reasoning_details", [])), "clients join equal indices"
                turn["reasoning_details"].append(entry)
            if "annotations" in delta:
                turn["annotations"] = turn.get("annotations", []) + delta["annotations"]
            if "function_call" in delta:
                _join(turn.setdefault("function_call", {}), delta["function_call"])
            for call in delta.get("tool_calls", ()):
                into = calls.setdefault(call["index"], {"id": "", "type": "function", "function": {}})
                into["id"] += call.get("id", "")
                _join(into["function"], call["function"])
    if calls:
        turn["tool_calls"] = list(calls.values())
    return {"message": turn, "finish_reason": finish, "usage": usage}


def _join(into: dict[str, str], delta: dict[str, str]) -> None:
    for key, text in delta.items():
        into[key] = into.get(key, "") + text
