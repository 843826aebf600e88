"""A service that means harm: ``python -m tests.attack.hostile`` prints its port and runs until it is killed.

The prompt chooses, by ``attack:NAME``, which of `ANSWERS` is sent.  Kiro's event stream goes out where its path is
asked for, server-sent events elsewhere.  An answer is an iterator of bytes, written as fast as the gateway reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any, Final

from attrs import frozen

from kiro_asgi.simulator import Event, Trailers
from kiro_asgi.simulator.kiro.encoder import encode
from kiro_asgi.wire.eventstream import FrameDecoder, encode_frame
from tests.attack.shapes import MIB, VALUES

KIRO: Final = "/generateAssistantResponse"
OPENAI: Final = "/v1/chat/completions"
ANTHROPIC: Final = "/v1/messages"
VECTORS: Final = "/embeddings"

PIECE: Final = 64 * 1024
"""Bytes of text in one event."""

LARGEST: Final = 4 * 1024 * MIB
"""Bytes of address space that this process may have: it is not its own machine that is attacked."""

TEXT: Final = "word " * (PIECE // 5)

Answer = Callable[[str, str], Iterator[bytes]]
"""Path and parameter to the bytes of a body."""


def _event(kind: str, **payload: Any) -> bytes:
    return encode(Event(kind, payload))


def _end(reason: str = "END_TURN") -> bytes:
    return b"".join(map(encode, Trailers(reason).pieces()))


def _chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    document = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def _named(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


DONE: Final = b"data: [DONE]\n\n"

STRICT: Final = "strict"
"""The prompt for a server that refuses some members, and otherwise answers with the names of all that it was sent."""

TIER: Final = "flex"

GEMINI_USAGE: Final = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 1}

_USAGE: Final = {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 1}

ANTHROPIC_HEAD: Final = (
    {
        "type": "message_start",
        "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": _USAGE},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
)
"""Events before the text of a Messages answer."""

ANTHROPIC_END: Final = (
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": _USAGE},
    {"type": "message_stop"},
)
"""Events after it."""


def _said(path: str, pieces: Iterable[str]) -> Iterator[bytes]:
    """An answer that is *pieces* of text, in the words of the service at *path*."""
    if path == KIRO:
        yield from (_event("assistantResponseEvent", content=piece) for piece in pieces)
        yield _end()
    elif path == OPENAI:
        yield from (_chunk({"content": piece}) for piece in pieces)
        yield _chunk({}, "stop") + DONE
    elif path == ANTHROPIC:
        yield b"".join(map(_named, ANTHROPIC_HEAD))
        for piece in pieces:
            delta = {"type": "text_delta", "text": piece}
            yield _named({"type": "content_block_delta", "index": 0, "delta": delta})
        yield b"".join(map(_named, ANTHROPIC_END))
    else:
        for piece in (*pieces, ""):
            content = {"role": "model", "parts": [{"text": piece}]}
            candidate = {"content": content, "index": 0, **({} if piece else {"finishReason": "STOP"})}
            document = {"candidates": [candidate], "usageMetadata": GEMINI_USAGE}
            yield f"data: {json.dumps(document)}\n\n".encode()


def _much_text(path: str, parameter: str) -> Iterator[bytes]:
    """*parameter* MiB of text."""
    return _said(path, repeat(TEXT, int(parameter) * MIB // PIECE))


def _much_thinking(path: str, parameter: str) -> Iterator[bytes]:
    piece = _event("reasoningContentEvent", text=TEXT)
    for _ in range(int(parameter) * MIB // PIECE):
        yield piece
    yield _event("assistantResponseEvent", content="so") + _end()


def _open_calls(path: str, parameter: str) -> Iterator[bytes]:
    """40 calls of *parameter* MiB, none of which ends."""
    for number in range(40):
        yield _event("toolUseEvent", name="get_weather", toolUseId=f"tooluse_{number}", input='{"city": "')
    for _ in range(int(parameter) * MIB // PIECE):
        for number in range(40):
            yield _event("toolUseEvent", name="get_weather", toolUseId=f"tooluse_{number}", input=TEXT)
    yield _end("TOOL_USE")


def _one_call(path: str, parameter: str) -> Iterator[bytes]:
    """One call with arguments of *parameter* MiB, of Kiro and of services like OpenAI."""
    pieces = chain(['{"city": "'], repeat(TEXT, int(parameter) * MIB // PIECE), ['"}'])
    if path == KIRO:
        for piece in pieces:
            yield _event("toolUseEvent", name="get_weather", toolUseId="tooluse_0", input=piece)
        yield _event("toolUseEvent", name="get_weather", toolUseId="tooluse_0", stop=True) + _end("TOOL_USE")
        return
    call = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    yield _chunk({"tool_calls": [call]})
    for piece in pieces:
        yield _chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield _chunk({}, "tool_calls") + DONE


def _strange(path: str, parameter: str) -> Iterator[bytes]:
    """*parameter* kinds that nobody knows, each another one: blocks, events and members, or members of chunks."""
    for number in range(int(parameter)):
        kind, value = f"hologram_{number}", {"of": f"x{number}", "deep": {"er": [number]}}
        if path != ANTHROPIC:
            yield _chunk({kind: value}, **{f"x_{number}": value})
            continue
        if not number:
            yield b"".join(map(_named, (*ANTHROPIC_HEAD, ANTHROPIC_END[0])))
        block = {"type": kind, **value}
        yield _named({"type": "content_block_start", "index": number + 1, "content_block": block})
        yield _named({"type": "content_block_stop", "index": number + 1})
        yield _named({"type": f"event_{number}", **value})
    yield b"".join(map(_named, ANTHROPIC_END[1:])) if path == ANTHROPIC else _chunk({"content": "so"}, "stop") + DONE


def _thought_call(path: str, parameter: str) -> Iterator[bytes]:
    """A call after *parameter* MiB of thinking, of services like OpenAI."""
    for _ in range(int(parameter) * MIB // PIECE):
        yield _chunk({"reasoning_content": TEXT})
    function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    yield _chunk({"tool_calls": [{"index": 0, "id": "call_0", "type": "function", "function": function}]})
    yield _chunk({}, "tool_calls") + DONE


def _one_event(path: str, parameter: str) -> Iterator[bytes]:
    """*parameter* MiB of text in a single event."""
    return _said(path, [TEXT * (int(parameter) * MIB // PIECE)])


def _many_calls(path: str, parameter: str) -> Iterator[bytes]:
    """*parameter* small calls."""
    count, step = int(parameter), 100
    for first in range(0, count, step):
        yield b"".join(
            _event(
                "toolUseEvent", name="get_weather", toolUseId=f"t{number}", input=f'{{"city": "{number}"}}', stop=True
            )
            for number in range(first, first + step)
        )
    yield _end("TOOL_USE")


def _redacted(path: str, parameter: str) -> Iterator[bytes]:
    """*parameter* MiB of redacted thinking behind a call that stays open."""
    yield _event("toolUseEvent", name="get_weather", toolUseId="tooluse_0", input='{"city": "')
    piece = _event("reasoningContentEvent", redactedContent="A" * PIECE)
    for _ in range(int(parameter) * MIB // PIECE):
        yield piece
    yield _end("TOOL_USE")


def _endless(path: str, parameter: str) -> Iterator[bytes]:
    """Text as fast as it is read, for ever."""
    return _said(path, repeat(TEXT))


def _torn(path: str, parameter: str) -> Iterator[bytes]:
    """Text and the beginning of a frame in one write, and then the end."""
    frame = _event("assistantResponseEvent", content="half an answer")
    yield frame + frame[: len(frame) // 2]


def _digits(path: str, parameter: str) -> Iterator[bytes]:
    """Token counts of *parameter* digits, in each format."""
    number = b"9" * int(parameter)
    if path == KIRO:
        usage = {"uncachedInputTokens": "#", "outputTokens": "#", "totalTokens": "#"}
        yield _event("assistantResponseEvent", content="counted")
        for data in (
            _event("metadataEvent", tokenUsage=usage, contextUsagePercentage="#"),
            _event("contextUsageEvent", contextUsagePercentage="#"),
            _event("meteringEvent", usage="#", unit="credit"),
        ):
            yield _refit(data, number)
    elif path == OPENAI:
        usage = {"prompt_tokens": "#", "completion_tokens": "#", "prompt_tokens_details": {"cached_tokens": "#"}}
        yield _chunk({"role": "assistant", "content": "counted"}) + _chunk({}, "stop")
        yield _chunk({}, usage=usage).replace(b'"#"', number) + DONE
    else:
        counted = re.compile(rb'("\w*(?:_tokens|TokenCount)": )1')
        for data in _said(path, ["counted"]):
            yield counted.sub(rb"\g<1>" + number, data)


def _refit(data: bytes, number: bytes) -> bytes:
    """A frame with *number* in its places, and the checksums that go with it."""
    (frame,) = FrameDecoder().feed([data])
    return encode_frame(frame.headers, frame.payload.replace(b'"#"', number))


def _value(path: str, parameter: str) -> Iterator[bytes]:
    """A JSON document of `VALUES`, as an answer's text."""
    text = json.dumps(VALUES[parameter]())
    return _said(path, [text[start : start + PIECE] for start in range(0, len(text), PIECE)])


def _call(path: str, parameter: str) -> Iterator[bytes]:
    """One call whose arguments are a document of `VALUES`, of Kiro and of services like OpenAI; of others, text."""
    text = json.dumps(VALUES[parameter]())
    if path == KIRO:
        yield _event("toolUseEvent", name="get_weather", toolUseId="tooluse_0", input=text, stop=True)
        yield _end("TOOL_USE")
    elif path == OPENAI:
        function = {"name": "get_weather", "arguments": text}
        yield _chunk({"tool_calls": [{"index": 0, "id": "call_0", "type": "function", "function": function}]})
        yield _chunk({}, "tool_calls") + DONE
    else:
        yield from _said(path, [text])


def _words(path: str, parameter: str) -> Iterator[bytes]:
    """A short answer."""
    return _said(path, ["1 2 3"])


ANSWERS: Final[Mapping[str, Answer]] = {
    "text": _much_text,
    "thinking": _much_thinking,
    "open-calls": _open_calls,
    "one-call": _one_call,
    "one-event": _one_event,
    "strange": _strange,
    "thought-call": _thought_call,
    "calls": _many_calls,
    "redacted": _redacted,
    "endless": _endless,
    "torn": _torn,
    "digits": _digits,
    "value": _value,
    "call": _call,
    "words": _words,
}
"""Name to the body of an answer."""


def _vectors(*embeddings: str) -> bytes:
    """An answer with these vectors, each written as JSON."""
    entries = (f'{{"index":{index},"embedding":{each}}}' for index, each in enumerate(embeddings))
    return f'{{"data":[{",".join(entries)}],"usage":{{"prompt_tokens":1}}}}'.encode()


EMBEDDINGS: Final[Mapping[str, Callable[[int], bytes]]] = {
    "fewer": lambda inputs: _vectors(*["[1,2]"] * (inputs - 1)),
    "more": lambda inputs: _vectors(*["[1,2]"] * (inputs + 1)),
    "far-more": lambda inputs: _vectors(*["[1]"] * 300_000),
    "no-numbers": lambda inputs: _vectors(*['"AADAfwAAwH8="'] * inputs),
    "infinite": lambda inputs: _vectors(*["[1e999,1]"] * inputs),
    "no-base64": lambda inputs: _vectors(*['"AAAA¶"'] * inputs),
    "torn-base64": lambda inputs: _vectors(*['"AAAAAAA="'] * inputs),
    "long": lambda inputs: _vectors("[" + "1," * 4_000_000 + "1]", *["[1]"] * (inputs - 1)),
    "long-base64": lambda inputs: _vectors('"' + "A" * (48 * MIB) + '"', *['"AAAAAA=="'] * (inputs - 1)),
    "uneven": lambda inputs: _vectors("[1]", *["[1,2]"] * (inputs - 1)),
    "deep": lambda inputs: _vectors("[" * 100_000 + "]" * 100_000),
    "digits": lambda inputs: _vectors(f"[{'9' * 1_000_000}]", *["[1]"] * (inputs - 1)),
    "scattered": lambda inputs: b'{"data":' + b"[ " * 250_000,
    "ones": lambda inputs: b'{"data":[' + b"[1]," * 100_000,
    "blanks": lambda inputs: b'{"data":[' + b" " * (16 * MIB),
    "escapes": lambda inputs: b'{"data":["' + b"\\u0041" * (2 * MIB),
    "words": lambda inputs: _vectors(*["[1,2]"] * inputs),
    "many-numbers": lambda inputs: _vectors(*[f"[{','.join(['0.0123456789'] * 1536)}]"] * inputs),
    "many-letters": lambda inputs: _vectors(*[f'"{"AACAPwAAgD8AAIA/" * 512}"'] * inputs),
}
"""Name to the answer to a request for the embeddings of so many inputs."""


async def _drip_head(writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    """A head that never ends, a header now and then."""
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        await asyncio.sleep(0.2)
        yield b"x-drip: 1\r\n"


async def _early_hints(writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    """Status 103 for ever."""
    while True:
        yield b"HTTP/1.1 103 Early Hints\r\n\r\n"
        await asyncio.sleep(0.1)


async def _comments(writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    """A head, and then comments, which are no event, for ever."""
    yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    while True:
        await asyncio.sleep(0.2)
        yield b"6\r\n: hm\n\n\r\n"


async def _slow(writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    """A word every tenth of a second, for ever."""
    yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    while True:
        data = _chunk({"content": "word "})
        yield b"%x\r\n%b\r\n" % (len(data), data)
        await asyncio.sleep(0.1)


RAW: Final[Mapping[str, Callable[[asyncio.StreamWriter], AsyncIterator[bytes]]]] = {
    "drip-head": _drip_head,
    "early-hints": _early_hints,
    "comments": _comments,
    "slow": _slow,
}
"""Name to all that is sent, head included."""


def _collected(path: str, content: Iterator[bytes]) -> bytes:
    """The document that stands for a stream, where no stream was asked for."""
    events = b"".join(content).split(b"\n\n")
    data = [event.partition(b"data: ")[2] for event in events if event.startswith((b"data: {", b"event: "))]
    if path not in (OPENAI, ANTHROPIC):
        return data[0]
    if path == ANTHROPIC:
        return (
            data[0]
            .partition(b'"message": ')[2][:-1]
            .replace(b'"content": []', b'"content": [{"type":"text","text":"x"}]')
        )
    texts = [json.loads(each.replace(b'"#"', b"0"), parse_int=len)["choices"][0]["delta"] for each in data]
    message = {"role": "assistant", "content": "".join(text.get("content", "") for text in texts)}
    called = [text["tool_calls"] for text in texts if "tool_calls" in text]
    message |= {"tool_calls": called[0]} if called else {}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
    usage = data[-1].partition(b'"usage": ')[2][:-1] or b"{}"
    document = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": "#"}
    return json.dumps(document).encode().replace(b'"#"', usage)


_MARKER: Final = re.compile(rb"attack:([a-z0-9-]+)(?:=([a-z0-9-]+))?")

_STREAM: Final = re.compile(rb'"stream": ?true')


@frozen
class _Request:
    path: str
    headers: Mapping[str, str]
    streamed: bool
    name: str
    parameter: str
    inputs: int
    """Texts to make embeddings of."""

    members: Mapping[str, Any]
    """All that it was sent, where the prompt is `STRICT`."""


async def _read(reader: asyncio.StreamReader) -> _Request:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    found = _MARKER.search(body)
    name, parameter = (found[1].decode(), (found[2] or b"").decode()) if found else ("words", "")
    path = first.split()[1].partition("?")[0]
    streamed = path == KIRO or "streamGenerate" in path or _STREAM.search(body) is not None
    inputs = len(json.loads(body)["input"]) if path.endswith(VECTORS) else 0
    members = json.loads(body) if name == STRICT else {}
    return _Request(path, headers, streamed, name, parameter, inputs, members)


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            request = await _read(reader)
            if request.path == "/token":
                await _echo_secret(request, writer)
            elif request.path.endswith("/models"):
                await _send(writer, 404, b'{"error": {"message": "no list"}}')
            elif request.name == "quotes":
                await _send(writer, 400, json.dumps({"error": {"message": _quoted(request)}}).encode())
            elif request.name == STRICT and (refused := _refused(request.members)):
                await _send(writer, 400, json.dumps({"error": {"message": refused}}).encode())
            elif request.path.endswith(VECTORS) and request.name in EMBEDDINGS:
                await _send(writer, 200, EMBEDDINGS[request.name](request.inputs))
            elif request.name in RAW:
                async for data in RAW[request.name](writer):
                    writer.write(data)
                    await writer.drain()
            elif request.streamed:
                await _body(request, writer)
            else:
                data = await asyncio.to_thread(_collected, request.path, _answer(request))
                await _send(writer, 200, data)
    writer.close()


def _refused(members: Mapping[str, Any]) -> str:
    """What a server that knows few members says of one, in words that quote it; empty where it has nothing to say."""
    if invented := [name for name in members if name.startswith("zzz_")]:
        return f"Unrecognized request argument supplied: {invented[0]}"
    if (tier := members.get("service_tier", TIER)) != TIER:
        return f"Invalid value: '{tier}'. Supported values are: '{TIER}'."
    return ""


def _answer(request: _Request) -> Iterator[bytes]:
    if request.name == STRICT:
        return _said(request.path, [" ".join(f"sent:{name}" for name in request.members)])
    return ANSWERS[request.name](request.path, request.parameter)


async def _body(request: _Request, writer: asyncio.StreamWriter) -> None:
    kind = b"application/vnd.amazon.eventstream" if request.path == KIRO else b"text/event-stream"
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind)
    for data in _answer(request):
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _echo_secret(request: _Request, writer: asyncio.StreamWriter) -> None:
    """Refuse to exchange a key, and quote it."""
    key = request.headers.get("authorization", "").split()[-1]
    quoted = {"message": f"The key {key} ({key[::-1]}) is unknown.", "error": key}
    await _send(writer, 401, json.dumps(quoted).encode())


def _quoted(request: _Request) -> str:
    """The request's key, in forms that a service may make of it."""
    key = request.headers.get("authorization", "").split()[-1]
    data = key.encode()
    escaped = "".join(f"%{byte:02X}" if not chr(byte).isalnum() else chr(byte) for byte in b"<" + data + b">")
    return f"No: {key}, {key[::-1]}, {key.upper()}, {data.hex()}, {b64encode(data).decode()}, {escaped}, {key[3:23]}"


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = b"HTTP/1.1 %d No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
    writer.write(head + body)
    await writer.drain()


async def _serve() -> None:
    server = await asyncio.start_server(_converse, "127.0.0.1", 0, limit=1 << 20, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_AS, (LARGEST, LARGEST))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
    sys.exit()
