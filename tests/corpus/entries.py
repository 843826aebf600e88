"""The corpus: requests as clients send them, from files, and built where they are large."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import field, frozen

HERE = Path(__file__).parent

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@frozen
class Expected:
    """What is to become of a request; without anything said, it is accepted at once."""

    status: int = 200
    rule: str = ""
    """The rule that refuses it; empty where the client's API itself does."""

    place: str = ""
    """The JSON path that the refusal names."""

    notes: tuple[str, ...] = field(default=(), converter=tuple)
    """Rules that must have had something to adapt."""

    heals: tuple[str, ...] = field(default=(), converter=tuple)
    """Rules of the one remedy after which it is accepted."""

    said: tuple[str, ...] = field(default=(), converter=tuple)
    """Texts that must be told, though the request does not hold them in this form."""

    unsaid: tuple[str, ...] = field(default=(), converter=tuple)
    """Texts that are no content."""


@frozen
class Entry:
    """One request."""

    name: str
    api: str
    """``anthropic``, ``anthropic_count``, ``openai`` or ``responses``."""

    description: str
    body: dict[str, Any] = field(repr=False)
    expect: Expected = Expected()


def _read(path: Path) -> Entry:
    document = json.loads(path.read_text())
    return Entry(
        path.stem, document["api"], document["description"], document["body"], Expected(**document["expect"])
    )  # fmt: skip


def _messages(*messages: dict[str, Any], model: str = "claude-sonnet-4-5", **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 4096, "messages": [*messages], **more}


def _tool(number: int) -> dict[str, Any]:
    properties = {f"option_{at}": {"type": "string", "description": f"Option {at} of {number}"} for at in range(6)}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    name = f"mcp__server_{number % 9}__tool_{number}"
    return {"name": name, "description": f"Tool {number}.", "input_schema": schema}


def _rounds(count: int) -> Iterator[dict[str, Any]]:
    """Rounds of four messages: a wish, a call, its result, an answer."""
    for number in range(count):
        call = {"type": "tool_use", "id": f"toolu_{number:04}", "name": "Read", "input": {"file_path": f"/f{number}"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number:04}", "content": f"{number}: " + "line\n" * 60}
        yield {"role": "user", "content": f"Read file {number}."}
        yield {"role": "assistant", "content": [call]}
        yield {"role": "user", "content": [result]}
        yield {"role": "assistant", "content": f"File {number} has sixty lines."}


def _images(count: int) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    parts: list[dict[str, Any]] = [{"type": "text", "text": "Which of these differ?"}]
    return {"role": "user", "content": parts + [{"type": "image", "source": source}] * count}


def _long_talk(size: int) -> Iterator[dict[str, Any]]:
    """Ten rounds of *size* characters each."""
    for number in range(10):
        yield {"role": "user", "content": f"{number}" + " word" * (size // 5)}
        yield {"role": "assistant", "content": "Noted."}
    yield {"role": "user", "content": "And?"}


def _built() -> Iterator[Entry]:
    hello = {"role": "user", "content": "Hello."}
    read = {
        "name": "Read",
        "description": "Reads.",
        "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
    }
    manual = "\n".join(f"{line}. Of this rule every word matters to somebody." for line in range(250))
    umlauts = "Größe " * 1_600
    yield Entry("tools_137", "anthropic", "137 tools.", _messages(hello, tools=[*map(_tool, range(137))]))
    yield Entry(
        "messages_200",
        "anthropic",
        "Two hundred messages and one more.",
        _messages(*_rounds(50), hello, tools=[read]),
    )
    yield Entry(
        "description_long",
        "anthropic",
        "Descriptions over 10,000 characters, and over 10,240 bytes.",
        _messages(
            hello,
            tools=[
                {**read, "description": manual},
                {**read, "name": "Size", "description": umlauts},
            ],
        ),
        Expected(notes=("tools.description_moved",)),
    )
    yield Entry("images_12", "anthropic", "Twelve images in one turn.", _messages(_images(12)))
    yield Entry(
        "images_25",
        "anthropic",
        "More images than the service takes, most of them old.",
        _messages(_images(13), {"role": "assistant", "content": "None."}, _images(12)),
        Expected(notes=("images.limit",)),
    )
    yield Entry(
        "body_large",
        "anthropic",
        "640 KB for a model with a window of 200,000 tokens.",
        _messages(*_long_talk(64_000)),
        Expected(status=400, rule="size.payload", place="messages[0]"),
    )
    yield Entry(
        "body_large_window_large",
        "anthropic",
        "The same for a model with a window of a million tokens.",
        _messages(*_long_talk(64_000), model="claude-opus-4-8"),
    )
    yield Entry(
        "message_large",
        "anthropic",
        "One message of more than 600,000 characters.",
        _messages({"role": "user", "content": "word " * 120_001}, model="claude-opus-4-8"),
        Expected(status=400, rule="size.message", place="messages[0]"),
    )
    call = {"type": "tool_use", "id": "toolu_big", "name": "Read", "input": {"file_path": "/big"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_big", "content": "line\n" * 160_001}
    yield Entry(
        "result_large",
        "anthropic",
        "A tool's result of more than 800,000 characters.",
        _messages(
            hello,
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            model="claude-opus-4-8",
            tools=[read],
        ),
        Expected(status=400, rule="size.result", place="messages[2]"),
    )


CORPUS = (*map(_read, sorted(HERE.glob("*.json"))), *_built())
