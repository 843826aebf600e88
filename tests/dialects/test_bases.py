"""The bases of client APIs: what a subclass need not write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from attrs import frozen

from kiro_asgi.dialects import (
    JSON_LINES,
    AnswerWriter,
    DialectOptions,
    JsonDialect,
    Raw,
    SimpleDialect,
    Tagged,
    dumps,
    loads,
)
from kiro_asgi.dialects.pieces import dump_value
from kiro_asgi.errors import ConfigError, RequestError, UpstreamFault
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    MessageEnd,
    MessageStart,
    RefusalDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
)
from kiro_asgi.model.message import LONG, Message, TextBlock, ToolCallBlock
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.testing import check_dialect


@frozen
class Said:
    kind: str
    text: str


@frozen
class Drawn:
    kind: str
    data: str


@frozen(kw_only=True)
class Body:
    model: str
    parts: tuple[Said | Drawn | Raw, ...]
    stream: bool = False
    limit: int | None = None


class Writing(AnswerWriter):
    def begin(self) -> Iterable[Any]:
        return [{"begin": self.meta.id}]

    def text(self, text: str) -> Iterable[Any]:
        return [{"text": text}]

    def thinking(self, text: str) -> Iterable[Any]:
        return [{"thinking": text}]

    def call(self, call: ToolCallBlock, arguments: Mapping[str, Any]) -> Iterable[Any]:
        return [{"call": call.name, "id": call.call_id, "input": arguments}]

    def end(self, end: MessageEnd) -> Iterable[Any]:
        return [{"end": end.stop_reason.value}, b"data: [DONE]\n\n"]


class Small(JsonDialect[Body]):
    name = "small"
    request = Body
    unions = ((Tagged(Said | Drawn | Raw, {"said": Said, "drawn": Drawn}, tag="kind"), "blocks.unknown"),)

    def prompt(self, request: Body, headers: Any) -> Prompt:
        texts = tuple(Text(part.text) for part in request.parts if isinstance(part, Said))
        return Prompt(request.model, (Turn(Role.USER, texts, "parts"),))

    def writer(self, meta: Any) -> Writing:
        return Writing(meta)

    def whole(self, message: Message, meta: Any) -> Any:
        return {"text": message.shown}


SMALL = Small()


@pytest.mark.parametrize(
    ("body", "place", "words"),
    [
        ({"parts": []}, "model", "model: required field missing"),
        ({"model": 1, "parts": []}, "model", "model: expected a string, got an integer"),
        ({"model": "m", "parts": {}}, "parts", "parts: expected an array, got an object"),
        ({"model": "m", "parts": [{"kind": "said", "text": []}]}, "parts[0].text", "expected a string, got an array"),
        ({"model": "m", "parts": [{"text": "a"}]}, "parts[0].kind", "required field missing"),
        ({"model": "m", "parts": [], "limit": True}, "limit", "limit: expected an integer or null, got a boolean"),
    ],
)
def test_a_wrong_type_is_refused_with_its_place(body: Any, place: str, words: str) -> None:
    """By the declared fields alone."""
    with pytest.raises(RequestError) as caught:
        SMALL.parse(dumps(body))

    assert caught.value.param == place
    assert words in caught.value.message


def test_what_nobody_reads_becomes_a_note() -> None:
    """Members, and objects of other kinds; the request is read all the same."""
    body = dumps({"model": "m", "colour": "red", "parts": [{"kind": "said", "text": "a", "x": 1}, {"kind": "sung"}]})
    parsed = SMALL.parse(body)

    assert {(note.rule, note.place) for note in SMALL.notes(body, parsed)} == {
        ("fields.ignored", "colour"),
        ("blocks.unknown", "parts[1]"),
    }
    assert parsed.prompt.turns[0].parts == (Text("a"),)
    assert parsed.options.parts[1] == Raw({"kind": "sung"})


def frames(*events: Any, dialect: Any = SMALL) -> list[bytes]:
    encoder = dialect.encoder(dialect.meta(dialect.parse(b'{"model":"m","parts":[]}'), lambda: "1", 0))
    return [*encoder.feed(events), *encoder.flush()]


def test_a_stream_is_the_values_of_the_writer() -> None:
    """One frame for each; bytes as they are; a call when it is whole, and not where it was cut."""
    call = (BlockStart(0, BlockKind.TOOL_CALL, "c", "f"), ToolInputDelta('{"a":'), ToolInputDelta("1}"), BlockEnd(0))
    cut = (BlockStart(1, BlockKind.TOOL_CALL, "d", "g"), ToolInputDelta('{"a'), BlockEnd(1))
    bare = (BlockStart(2, BlockKind.TOOL_CALL, "e", "h"), BlockEnd(2))
    told = (MessageStart(), ThinkingDelta("hm"), TextDelta("a\nb"), RefusalDelta("no"), *call, *cut, *bare)

    assert frames(*told, MessageEnd(StopReason.END)) == [
        b'data: {"begin":"small_1"}\n\n',
        b'data: {"thinking":"hm"}\n\n',
        b'data: {"text":"a\\nb"}\n\n',
        b'data: {"text":"no"}\n\n',
        b'data: {"call":"f","id":"c","input":{"a":1}}\n\n',
        b'data: {"call":"h","id":"e","input":{}}\n\n',
        b'data: {"end":"end"}\n\n',
        b"data: [DONE]\n\n",
    ]


def test_lines_in_the_place_of_events() -> None:
    """With the content type, and without signs of life, which no reader of lines would skip."""

    class Lined(Small):
        framing = JSON_LINES

    assert frames(TextDelta("a"), dialect=Lined()) == [b'{"text":"a"}\n']
    assert Lined().traits.stream_type == b"application/x-ndjson"
    assert Lined().encoder(None).heartbeat == b""  # type: ignore[arg-type]


def test_errors_have_one_form() -> None:
    """Before the answer with status and headers, and in the stream."""
    error = UpstreamFault("it broke", code="broken")
    reply, encoder = SMALL.error(error, "r"), SMALL.encoder(None)  # type: ignore[arg-type]
    value = {"error": {"message": "it broke", "code": "broken", "param": None}}

    assert (reply.status, loads(reply.body), reply.content_type) == (502, value, b"application/json")
    assert encoder.error(error) == [b"data: " + dumps(value) + b"\n\n"]


def test_the_laws_hold_for_it() -> None:
    """Those that our own are held to."""
    from kiro_asgi.dialects import DialectManifest, Endpoint

    manifest = DialectManifest(name="small", title="Small", endpoints=(Endpoint("POST", "/small"),), make=Small)

    check_dialect(manifest, {"model": "m", "parts": [{"kind": "said", "text": "Hi"}, {"kind": "drawn", "data": ""}]})


def test_a_subclass_that_lacks_something_is_refused_when_it_is_made() -> None:
    """Not when the first request comes."""

    class Empty(JsonDialect[Body]):
        name = "empty"
        request = Body

    class Nameless(SimpleDialect):
        pass

    with pytest.raises(ConfigError, match="Empty has no prompt and no writer and no whole; define it in the class"):
        Empty(DialectOptions())
    with pytest.raises(ConfigError, match="Nameless has no name and no parse"):
        Nameless(DialectOptions())


def test_a_long_answer_is_written_in_pieces() -> None:
    """None of which takes long; joined they are the value."""
    value = {"a": ["b" * (3 * LONG), 1, None, [], {}], "c": {"d": "e"}}
    pieces = [*dump_value(value)]

    assert loads(b"".join(pieces)) == value
    assert max(map(len, pieces)) <= LONG + 2
    assert [*SMALL.render(Message((TextBlock("x" * LONG * 2),)), None)][1:]  # type: ignore[arg-type]
