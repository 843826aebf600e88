"""The laws of a client API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, count
from typing import Any, Final

from kiro_asgi import errors
from kiro_asgi.dialects.base import JSON, Dialect, ParsedRequest, RequestHeaders
from kiro_asgi.dialects.manifest import ANSWER, DialectManifest, DialectOptions, Endpoint, RoutedDialect
from kiro_asgi.errors import KiroAsgiError, RequestError
from kiro_asgi.model.message import RefusalBlock, TextBlock, replay
from kiro_asgi.model.prompt import Part, Prompt, Role
from kiro_asgi.testing.hostile import RUBBISH, nearly
from kiro_asgi.testing.samples import ANSWERS, WORD
from kiro_asgi.wire.json import dumps, loads

_EVENTS: Final = b"text/event-stream"
_CREATED: Final = 1_700_000_000

_EVERY: Final = 3
"""A stream is broken off after the first event, and then after each of so many."""


def check_dialect(
    manifest: DialectManifest,
    request: Any,
    *,
    headers: RequestHeaders = (),
    endpoint: Endpoint | None = None,
    argument: str = "",
    settings: Any = None,
) -> None:
    """Fail unless a client API keeps the laws that `kiro_asgi.dialects.Dialect` states.

    Hostile requests are refused with an error that names the place, and nothing else happens; answers with one of
    everything are written, streamed and collected, however their events come; every error has a reply; a stream can be
    broken off anywhere.

    Args:
        manifest: The API's.
        request: A request that it takes: bytes, or a value that is sent as JSON.
        headers: Those of the request.
        endpoint: Where it is sent, for a `RoutedDialect`; by default the first endpoint for answers.
        argument: Name in that path.
        settings: Those of the API; by default its manifest's class has all.

    Raises:
        AssertionError: A law is broken; the message says which, and by what.
    """
    body = request if isinstance(request, bytes) else dumps(request)
    made = manifest.make(DialectOptions(settings=manifest.settings() if settings is None else settings))
    assert made.name == manifest.name, f"the dialect is named {made.name!r}, and its manifest {manifest.name!r}"
    dialect: Dialect = made
    if isinstance(made, RoutedDialect):
        place = endpoint or next(each for each in manifest.endpoints if each.operation == ANSWER)
        dialect = made.at(place, argument)
    parsed = dialect.parse(body, headers)
    _check_parsed(parsed)
    assert dialect.parse(body, headers) == parsed, "the same request is read as another the second time"
    _check_hostile(dialect, body, headers)
    _check_answers(dialect, parsed)
    _check_errors(dialect)


def _check_parsed(parsed: object) -> None:
    assert isinstance(parsed, ParsedRequest), f"parse gives {type(parsed).__name__}, not a ParsedRequest"
    assert isinstance(parsed.prompt, Prompt), f"its prompt is {type(parsed.prompt).__name__}, not a Prompt"
    assert isinstance(parsed.stream, bool), f"its stream is {parsed.stream!r}, not True or False"
    for at, turn in enumerate(parsed.prompt.turns):
        assert isinstance(turn.role, Role), f"turns[{at}].role is {turn.role!r}, not a Role"
        for part in turn.parts:
            assert isinstance(part, Part), f"turns[{at}].parts has {type(part).__name__}, which is no Part"


def _check_hostile(dialect: Dialect, body: bytes, headers: RequestHeaders) -> None:
    """Whatever the body is, it is read or refused."""
    for what, sent in chain(((f"the body {each[:20]!r}", each) for each in RUBBISH), _nearly(body)):
        try:
            parsed = dialect.parse(sent, headers)
            _check_parsed(parsed)
            dialect.notes(sent, parsed)
            _check_answer(dialect, parsed, 0)
        except RequestError as error:
            assert error.message, f"{what}: it is refused without a message"
            _check_reply(dialect, error, what)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{what}: it is not refused with a RequestError, but {error!r}") from error


def _nearly(body: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        value = loads(body)
    except KiroAsgiError:
        return
    if isinstance(value, dict):
        yield from nearly(body)


def _check_answers(dialect: Dialect, parsed: ParsedRequest) -> None:
    for number in range(len(ANSWERS)):
        _check_answer(dialect, parsed, number)
    numbers = count()
    first, second = (dialect.meta(parsed, lambda: f"{next(numbers):024}", _CREATED) for _ in range(2))
    assert first.id != second.id, f"two answers have the same id {first.id!r}; make it of the token"


def _check_answer(dialect: Dialect, parsed: ParsedRequest, number: int) -> None:
    """Answer *number* of the samples is written, in both ways, with its text."""
    answer = ANSWERS[number]
    meta = dialect.meta(parsed, lambda: "0" * 24, _CREATED)
    body = b"".join(dialect.render(answer, meta))
    if dialect.traits.body_type.partition(b";")[0] == JSON:
        loads(body)
    events = [*replay(answer)]
    whole, single, broken = (dialect.encoder(meta) for _ in range(3))
    stream = b"".join(chain(whole.feed(events), whole.flush()))
    pieces = b"".join(chain(*(single.feed([event]) for event in events), single.flush()))
    assert pieces == stream, f"the stream of sample {number} is another where its events come one by one"
    assert isinstance(single.heartbeat, bytes), f"the heartbeat is {type(single.heartbeat).__name__}, not bytes"
    if any(isinstance(block, TextBlock | RefusalBlock) for block in answer.blocks):
        for what, written in (("body", body), ("stream", stream)):
            assert WORD.encode() in written, f"the text of sample {number} is not in the {what}: {written[:200]!r}"
    for at in range(len(events)):
        _check_pieces(dialect, [*broken.feed([events[at]])], number)
    for at in range(0, len(events) - 1, _EVERY):
        ended = dialect.encoder(meta)
        [*ended.feed(events[: at + 1])]
        last = ended.error(errors.UpstreamFault("it broke", code="broken"))
        assert b"".join(last), f"a stream that breaks off after event {at} of sample {number} ends without a word"


def _check_pieces(dialect: Dialect, pieces: list[bytes], number: int) -> None:
    """Pieces are bytes, and whole server-sent events where the API has these."""
    data = b"".join(pieces)
    if data and dialect.traits.stream_type.partition(b";")[0] == _EVENTS:
        end = data.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))
        assert end, f"an event of sample {number} is not finished by a blank line: {data[-80:]!r}"


def _check_errors(dialect: Dialect) -> None:
    """Every error that there is has a reply."""
    for error in all_errors():
        _check_reply(dialect, error, type(error).__name__)


def all_errors() -> Iterator[KiroAsgiError]:
    """One of each class."""
    special: Mapping[str, KiroAsgiError] = {
        "InternalError": errors.InternalError("req_1"),
        "MethodNotAllowed": errors.MethodNotAllowed("POST only", allow=("POST",), code="method_not_allowed"),
        "UnmetPromise": errors.UnmetPromise("no call", code="tool_choice_failed"),
    }
    for name in errors.__all__:
        yield special.get(name) or getattr(errors, name)("it is so", code="some.code")


def _check_reply(dialect: Dialect, error: KiroAsgiError, what: str) -> None:
    reply = dialect.error(error, "req_1")
    assert 400 <= reply.status <= 599, f"{what}: the status of the reply is {reply.status}"
    client = isinstance(error, RequestError)
    assert client or reply.status not in (401, 403), f"{what}: the client would take {reply.status} for its own key's"
    assert reply.body, f"{what}: the reply has no body"
    if reply.content_type.partition(b";")[0] == JSON:
        loads(reply.body)
    for name, value in reply.headers:
        assert isinstance(name, bytes) and isinstance(value, bytes), f"{what}: a header of the reply is no bytes"
        assert not {*value} & {*b"\r\n\x00"}, f"{what}: the header {name.decode()} of the reply has a line end"
