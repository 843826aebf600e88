"""What goes through: of requests only the model's name may change; answers stay untouched, are cut between events only,
and are never taken for whole when they are not.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.passthrough import PassthroughStage, TransparentDialect
from kiro_asgi.errors import KiroAsgiError, RequestError, UpstreamFault, UpstreamProtocolError
from kiro_asgi.model.events import Usage, UsageSource
from kiro_asgi.wire.sse import SseDecoder, encode_sse

ANTHROPIC, CHAT = AnthropicMessages(), OpenAIChat()
HEADING = ResponseMeta("chatcmpl-ours", "asked", 7)
BOTH = pytest.mark.parametrize("dialect", [ANTHROPIC, CHAT], ids=["anthropic", "openai_chat"])


def event(value: object, name: str = "") -> bytes:
    """One event, as services write it."""
    return encode_sse(name, json.dumps(value, separators=(",", ":")).encode())


def named(value: dict[str, object]) -> bytes:
    """One event of the Messages API."""
    return event(value, str(value["type"]))


START = named(
    {
        "type": "message_start",
        "message": {"id": "msg_1", "model": "theirs", "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}},
    }
)
HELLO = named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 'say "model": "x"'}})
STOPPING = named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}})
STOP = named({"type": "message_stop"})
BROKEN = named({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

CHUNK = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "theirs"}
PIECE = event({**CHUNK, "choices": [{"index": 0, "delta": {"content": 'say "model": "x"'}, "finish_reason": None}]})
FINISH = event({**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None})
COUNTS = {"prompt_tokens": 10, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 3}}
USED = event({**CHUNK, "choices": [], "usage": COUNTS})
DONE = b"data: [DONE]\n\n"
FAILED = event({"error": {"message": "Overloaded", "type": "server_error"}})

WHOLE = {"anthropic": START + HELLO + STOPPING + STOP, "openai_chat": PIECE + FINISH + USED + DONE}
ERRORS = {"anthropic": BROKEN, "openai_chat": FAILED}


def fault(data: bytes) -> KiroAsgiError:
    """The error of the service, which remembers its event."""
    return UpstreamFault(data.decode())


def through(stage: PassthroughStage, chunks: list[bytes]) -> list[bytes]:
    """What comes out for every chunk, and at the end."""
    return [b"".join(stage.feed([chunk])) for chunk in chunks] + [b"".join(stage.flush())]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """*data* cut at *places*."""
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


ends = st.sampled_from(["\n", "\r\n", "\r"])
lines = st.sampled_from(
    ["data: x", "data:", ": ping", "event: novel", "id: 7", "data: é世", "data: {", "unknown", "data"]
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Events, comments and unknown fields, with line ends of every kind."""
    events = draw(st.lists(st.tuples(st.lists(lines, min_size=1, max_size=3), ends), max_size=8))
    return "".join(end.join([*fields, "", ""]) for fields, end in events).encode()


@BOTH
@given(stream=streams(), places=st.lists(st.integers(0, 10_000), max_size=12))
def test_bytes_go_through_untouched_however_they_are_cut(
    dialect: TransparentDialect, stream: bytes, places: list[int]
) -> None:
    """F429: every byte arrives, in order, unknown events included; after every piece the client has whole events."""
    stream += WHOLE[dialect.name]
    stage = dialect.passthrough(fault, HEADING)
    out, fed, reader = b"", b"", SseDecoder()
    for chunk in cut(stream, places):
        piece = b"".join(stage.feed([chunk]))
        fed, out = fed + chunk, out + piece
        assert fed.startswith(out)
        whole = list(SseDecoder().feed([fed]))
        assert list(SseDecoder().feed([out])) == whole, "an event that is complete is not held back"
        list(reader.feed([piece]))
        assert [each.data for each in reader.feed([b": ping\n\ndata: ours\n\n"])] == ["ours"]
    out += b"".join(stage.flush())

    assert out == stream
    assert stage.ended


@BOTH
@given(places=st.lists(st.integers(0, 10_000), max_size=12), end=ends)
def test_what_is_learnt_does_not_depend_on_the_cuts(dialect: TransparentDialect, places: list[int], end: str) -> None:
    """Usage and end are found wherever the bytes are cut, with line ends of every kind."""
    stream = WHOLE[dialect.name].replace(b"\n", end.encode())
    stage = dialect.passthrough(fault, HEADING)
    through(stage, cut(stream, places))

    assert stage.ended and stage.begun
    used = stage.usage
    assert used is not None
    assert (used.prompt_tokens, used.output_tokens) == ((7, 9) if dialect is ANTHROPIC else (10, 9))
    assert used.output_source is UsageSource.UPSTREAM


def test_usage_counts_cached_tokens_once() -> None:
    """Chat Completions counts cached tokens among those of the prompt; we do not."""
    stage = CHAT.passthrough(fault, HEADING)
    through(stage, [WHOLE["openai_chat"]])

    assert isinstance(stage.usage, Usage)
    assert (stage.usage.input_tokens, stage.usage.cache_read_tokens) == (7, 3)


@BOTH
@pytest.mark.parametrize("pieces", [1, 7, 10_000])
def test_the_clients_name_for_the_model(dialect: TransparentDialect, pieces: int) -> None:
    """F429: where the client calls the model by another name, that name stands in the answer; nothing else changes."""
    stream = WHOLE[dialect.name]
    chunks = [stream[start : start + pieces] for start in range(0, len(stream), pieces)]
    out = b"".join(through(dialect.passthrough(fault, HEADING, 'mine/"é'), chunks))

    assert out == stream.replace(b'"model":"theirs"', '"model":"mine/\\"é"'.encode())
    assert out != stream


def test_a_chunk_with_other_members_of_that_name() -> None:
    """Only the name of the model is replaced, wherever a service puts its own members."""
    chunk = event({"choices": [{"delta": {"content": "", "model": "inner"}}], "model": "theirs", "x": {"model": "y"}})
    out = b"".join(through(CHAT.passthrough(fault, HEADING, "mine"), [chunk + DONE]))

    assert out == chunk.replace(b'"theirs"', b'"mine"') + DONE


@BOTH
def test_a_cut_answer_is_no_whole_one(dialect: TransparentDialect) -> None:
    """Cut anywhere before its end, what was whole has gone out, half an event never does, and the end is an error."""
    stream = WHOLE[dialect.name]
    last = stream.index(STOP if dialect is ANTHROPIC else FINISH) + 20
    for place in range(0, last, 5):
        stage = dialect.passthrough(fault, HEADING)
        out = b"".join(stage.feed([stream[:place]]))
        with pytest.raises(UpstreamProtocolError) as caught:
            list(stage.flush())

        assert caught.value.code == "stream.cut"
        assert out == b"" or out.endswith(b"\n\n")
        assert stream.startswith(out)
        assert b"".join(stage.error(caught.value))


@pytest.mark.parametrize(
    ("tail", "told"),
    [
        (FINISH, FINISH + DONE),
        (FINISH[:-2], FINISH + DONE),
        (PIECE + b"data: [DONE]", PIECE + DONE),
        (PIECE + b"data: [DONE]\r", PIECE + b"data: [DONE]\r\n\n"),
        (FINISH + b": bye", FINISH + DONE),
        (FINISH + b'data: {"half', FINISH + DONE),
        (FINISH + DONE + DONE, FINISH + DONE),
        (FINISH + DONE + PIECE, FINISH + DONE),
    ],
)
@pytest.mark.parametrize("pieces", [1, 10_000])
def test_the_sentinel_is_the_last_frame_once(tail: bytes, told: bytes, pieces: int) -> None:
    """F014: whatever way a service ends an answer, ``[DONE]`` ends it for the client, with its empty line, once."""
    stream = PIECE + tail
    chunks = [stream[at : at + pieces] for at in range(0, len(stream), pieces)]
    assert b"".join(through(CHAT.passthrough(fault, HEADING), chunks)).replace(b"\r\n", b"\n") == PIECE + told.replace(
        b"\r\n", b"\n"
    )


def test_a_reason_inside_the_text_ends_nothing() -> None:
    """Words in an answer are no signal."""
    text = '"finish_reason":"stop" [DONE] "error" message_stop'
    piece = event({**CHUNK, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})
    stage = CHAT.passthrough(fault, HEADING)
    assert b"".join(stage.feed([piece])) == piece
    assert not stage.ended and stage.failure is None


@BOTH
def test_an_error_at_the_start_is_raised(dialect: TransparentDialect) -> None:
    """An answer that begins with an error has not begun: nothing goes out, and the service's event says what it is."""
    stage = dialect.passthrough(fault, HEADING)
    with pytest.raises(UpstreamFault, match="Overloaded"):
        list(stage.feed([ERRORS[dialect.name] + DONE]))

    assert not stage.begun


@BOTH
@pytest.mark.parametrize("pieces", [1, 10_000])
@pytest.mark.parametrize("behind", [b"", PIECE, DONE])
def test_an_error_later_ends_the_answer(dialect: TransparentDialect, pieces: int, behind: bytes) -> None:
    """F084: what came before the service's error is delivered, then the error is raised; nothing behind it is."""
    begun = START + HELLO if dialect is ANTHROPIC else PIECE
    stream = begun + ERRORS[dialect.name] + behind
    stage, out = dialect.passthrough(fault, HEADING), b""
    with pytest.raises(UpstreamFault, match="Overloaded"):
        for at in range(0, len(stream), pieces):
            for piece in stage.feed([stream[at : at + pieces]]):
                out += piece

    assert out == begun
    assert b"".join(stage.error(UpstreamFault("ours")))


@pytest.mark.parametrize("name", ["", "mine"])
def test_an_error_of_ours_belongs_to_the_stream(name: str) -> None:
    """F085/F256: the error chunk has the id, the time and the model of the chunks before it, and no choices; the error
    itself follows."""
    chunk = event({**CHUNK, "created": 5, "choices": [{"index": 0, "delta": {"content": "x"}}]})
    stage = CHAT.passthrough(fault, HEADING, name)
    list(stage.feed([chunk]))
    told, alone, done = SseDecoder().feed([b"".join(stage.error(UpstreamFault("no")))])
    said = json.loads(told.data)
    assert json.loads(alone.data) == {"error": said["error"]}

    assert done.data == "[DONE]"
    assert (said["id"], said["created"], said["model"]) == ("chatcmpl-1", 5, name or "theirs")
    assert (said["choices"], said["error"]["code"]) == ([], "stream_error")
    assert b"".join(stage.error(UpstreamFault("again"))) == b""


def test_a_failure_behind_the_end_is_none() -> None:
    """F014: where the answer is complete, and only the sentinel is missing, the client gets that, and no error."""
    stage = CHAT.passthrough(fault, HEADING)
    list(stage.feed([PIECE + FINISH]))
    assert b"".join(stage.error(UpstreamFault("reset"))) == DONE


@BOTH
def test_signs_of_life(dialect: TransparentDialect) -> None:
    """Before the first event only a comment may be sent, which no client takes for the start of an answer."""
    stage = dialect.passthrough(fault, HEADING)
    assert list(SseDecoder().feed([stage.heartbeat])) == []
    list(stage.feed([WHOLE[dialect.name]]))
    assert stage.heartbeat == dialect_heartbeat(dialect)


def dialect_heartbeat(dialect: TransparentDialect) -> bytes:
    """Within an answer."""
    return b'event: ping\ndata: {"type":"ping"}\n\n' if dialect is ANTHROPIC else b": ping\n\n"


@pytest.mark.parametrize(
    ("dialect", "told"),
    [
        (ANTHROPIC, b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"no"}}\n\n'),
        (
            CHAT,
            b'data: {"id":"chatcmpl-ours","object":"chat.completion.chunk","created":7,"model":"asked","choices":[],'
            b'"error":{"message":"no","type":"api_error","param":null,"code":"stream_error"}}\n\n'
            b'data: {"error":{"message":"no","type":"api_error","param":null,"code":"stream_error"}}\n\n'
            b"data: [DONE]\n\n",
        ),
    ],
    ids=["anthropic", "openai_chat"],
)
def test_an_error_of_ours(dialect: TransparentDialect, told: bytes) -> None:
    """An answer that cannot go on ends in the words of its API."""
    stage = dialect.passthrough(fault, HEADING)
    list(stage.feed([WHOLE[dialect.name][:30]]))
    assert b"".join(stage.error(UpstreamFault("no"))) == told


def test_an_event_that_never_ends() -> None:
    """What is held back is bounded."""
    stage = PassthroughStage(CHAT.passthrough(fault, HEADING)._format, fault, HEADING, max_event=1000)
    assert list(stage.feed([b"data: " + b"x" * 900])) == []
    with pytest.raises(UpstreamProtocolError) as caught:
        list(stage.feed([b"x" * 200]))

    assert caught.value.code == "sse.too_large"


BODIES = {
    "anthropic": b'{"type": "message", "content": [{"input": {"model": "no"}}], "model": "theirs",'
    b'  "usage": {"input_tokens": 7, "output_tokens": 9}, "new": 1.0}\n',
    "openai_chat": b'{"choices": [{"message": {"model": "no"}, "finish_reason": "stop"}], "model": "theirs",'
    b'  "usage": {"prompt_tokens": 7, "completion_tokens": 9}, "new": 1.0}\n',
}


@BOTH
@pytest.mark.parametrize("name", ["", "mine"])
def test_a_collected_answer(dialect: TransparentDialect, name: str) -> None:
    """A body stays as it is but for the model's name, and tells what it used."""
    stage, body = dialect.passthrough(fault, HEADING, name), BODIES[dialect.name]
    assert stage.whole(body) == (body.replace(b'"theirs"', b'"mine"') if name else body)
    assert stage.usage is not None and (stage.usage.input_tokens, stage.usage.output_tokens) == (7, 9)


@BOTH
def test_a_collected_answer_that_names_no_model(dialect: TransparentDialect) -> None:
    """What is not there is not put there, and the arguments of a call are not taken for it."""
    body = BODIES[dialect.name].replace(b'"model": "theirs",', b"")
    assert dialect.passthrough(fault, HEADING, "mine").whole(body) == body


@BOTH
@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"a":'])
def test_a_body_that_is_no_answer(dialect: TransparentDialect, body: bytes) -> None:
    """Only an object is an answer."""
    with pytest.raises(UpstreamProtocolError) as caught:
        dialect.passthrough(fault, HEADING).whole(body)

    assert caught.value.code == "answer.undecodable"


@BOTH
def test_an_error_with_a_good_status(dialect: TransparentDialect) -> None:
    """Some services answer 200 to say that they could not."""
    with pytest.raises(UpstreamFault, match="Overloaded"):
        dialect.passthrough(fault, HEADING).whole(b'{"type": "error", "error": {"message": "Overloaded"}}')


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
values = st.recursive(
    st.none() | st.integers() | names, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner)
)


@BOTH
@given(
    model=names,
    new=names,
    rest=st.dictionaries(names | st.just("model"), values | st.dictionaries(st.just("model"), names), max_size=5),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_only_the_models_name_is_replaced(
    dialect: TransparentDialect, model: str, new: str, rest: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    """The service reads the client's own bytes, all of them where it calls the model by the same name."""
    document = {**rest, "model": model, "stream": True, "more": [{"model": 1, "a": "model"}]}
    body = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    refusal = RequestError("no")
    head = dialect.head(body, refusal)

    assert (head.prompt.model, head.stream) == (model, True)
    assert dialect.renamed(body, model, model) is body
    assert json.loads(dialect.renamed(body, model, new)) == {**document, "model": new}


@BOTH
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"{", "invalid_json", ""),
        (b"[]", "invalid_value", ""),
        (b"{}", "missing_required_parameter", "model"),
        (b'{"model": 1}', "invalid_value", "model"),
        (b'{"model": "m", "stream": "yes", "max_tokens": 9, "messages": []}', "invalid_value", "stream"),
    ],
)
def test_what_cannot_go_anywhere(dialect: TransparentDialect, body: bytes, code: str, param: str) -> None:
    """A request is refused as the dialect refuses it; what does not decide its way is left to the service."""
    with pytest.raises(RequestError) as parsed:
        dialect.parse(body)
    with pytest.raises(RequestError) as caught:
        dialect.head(body, parsed.value)

    assert (caught.value.code, caught.value.param) == (code, param)
    assert (parsed.value.code, parsed.value.param) == (code, param)
