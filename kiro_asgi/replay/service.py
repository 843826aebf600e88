"""Tapes as a service: a request that is on a tape gets the answer that is on it."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from attrs import define, evolve, field

from kiro_asgi.asgi.exchange.providers import simulated_at
from kiro_asgi.config import ClientSettings, Settings
from kiro_asgi.replay.run import settings_of
from kiro_asgi.simulator.formats import find_endpoint
from kiro_asgi.simulator.kiro.hosts import CHAT
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import CloseEarly, Head, Pause, RawBytes, Reset, Script, Stall, Step, refusal
from kiro_asgi.tapes.format import Line, Tape, TapeAnswer
from kiro_asgi.tapes.masking import SHOWN_HEADERS, mask
from kiro_asgi.wire.json import JsonError, dumps, loads

_PLACE: Final = re.compile(r"v\d\w*|[a-z]{2}(?:-[a-z]+)+-\d")
"""A version of an API, or a region: up to there a path is the service's address, and the rest names the operation."""

_ID: Final = re.compile(rb"\b\w{8}-\w{4}-\w{4}-\w{4}-\w{12}\b")
"""An id, which differs each time; also a masked one."""

_FRAMING: Final = frozenset(b"content-type content-length transfer-encoding connection x-amzn-requestid".split())
"""Headers that the simulator makes itself."""

_ANSWERS: Final = range(200, 600)

_Request = tuple[str, bytes]
"""An operation's path, and the part of a body that is compared."""


_CONVERSATION: Final = ("conversationState", "messages", "contents", "input")
"""Members of a service's request that hold the conversation; the others are options."""


def _without_ids(body: bytes) -> bytes:
    return _ID.sub(b"", body)


def _conversation_in(body: bytes) -> bytes:
    try:
        document = loads(body)
    except JsonError:
        return _without_ids(body)
    found = [document[name] for name in _CONVERSATION if name in document] if isinstance(document, dict) else []
    return _without_ids(dumps(found) if found else body)


def _shape_of(body: bytes) -> bytes:
    return _conversation_in(mask(body))


_WAYS: Final[tuple[Callable[[bytes], bytes], ...]] = (_without_ids, _conversation_in, _shape_of)
"""Parts of a body to compare, in this order: all but ids; the conversation, as options depend on what is known of a
model at the time; its shape, so that dates may differ and masked tapes fit."""


@define(eq=False)
class TapeService:
    """Answers requests from tapes; an `Answerer` of `kiro_asgi.simulator`.

    A request matches where a tape has the same but for ids, else where one has the same conversation, or one of the
    same shape.  Where several match, they take turns, in the order of the tapes and of the attempts on them.  A request
    without a match is refused with 400.
    """

    count: int
    """Tapes."""

    _answers: dict[_Request, deque[Script]] = field(repr=False)

    @classmethod
    def of(cls, tapes: Iterable[Tape], speed: float = 0.0) -> TapeService:
        """The service that answered on *tapes*.

        Args:
            tapes: The exchanges.
            speed: Factor by which it answers faster than then; 0 for at once.
        """
        known = [*tapes]
        answers: dict[_Request, deque[Script]] = defaultdict(deque)
        for tape in known:
            for attempt in tape.attempts:
                for answer in attempt.answers:
                    script = (*_script(answer, speed),)
                    for key in dict.fromkeys(_keys(urlsplit(answer.request.text("url")).path, answer.request.data)):
                        answers[key].append(script)
        return cls(len(known), dict(answers))

    def __call__(self, request: RecordedRequest) -> Script | None:
        """The answer to *request*; ``None`` where it asks for a list of models or a token instead."""
        if not request.operation.endswith((CHAT, ".chat")):
            return None
        for key in _keys(request.path, request.body):
            if fitting := self._answers.get(key):
                fitting.rotate(-1)
                return fitting[-1]
        message = (
            f'None of {self.count} tapes has this request. Record it with tapes.when = "all", on the real service.'
        )
        found = find_endpoint(request)
        return refusal(400, message) if found is None else found[0].bad_request(message)


def settings_at(url: str, tapes: Sequence[Tape]) -> Settings:
    """Settings of an application whose services are a simulator at *url* that answers from *tapes*.

    They are those of the first tape.  Clients need no key, and a credential that is refused is tried again at once.

    Raises:
        ConfigError: They cannot work.
    """
    there = simulated_at(settings_of(tapes[0], {}), url)
    return evolve(there, client=ClientSettings(allow_anonymous=True), raise_unexpected=False)


def _keys(path: str, body: bytes) -> Iterator[_Request]:
    parts = path.strip("/").split("/")
    start = max((place for place, part in enumerate(parts, 1) if _PLACE.fullmatch(part)), default=0)
    return (("/".join(parts[start:]), way(body)) for way in _WAYS)


def _script(answer: TapeAnswer, speed: float) -> Iterator[Step]:
    at = answer.request.t
    if answer.head is not None:
        yield from _pause(answer.head.t - at, speed)
        at = answer.head.t
        yield _head(answer.head)
    for _, read in answer.reads:
        yield from _pause(read.t - at, speed)
        at = read.t
        yield RawBytes(read.data)
    if answer.end is None:  # the tape ends here, or the gateway wanted no more
        yield CloseEarly()
    elif error := answer.end.text("error"):
        yield Stall() if error == "UpstreamTimeout" else Reset()


def _pause(seconds: float, speed: float) -> Iterator[Step]:
    if speed and seconds > 0:
        yield Pause(seconds / speed)


def _head(line: Line) -> Head:
    """The head, with harmless headers only: a tape may come from an untrusted source."""
    status = int(line.number("status"))
    headers = {name.lower(): value for name, value in line.headers if value.decode("latin-1").isprintable()}
    shown = (
        (name.decode("ascii"), value.decode("latin-1").strip())
        for name, value in headers.items()
        if SHOWN_HEADERS.fullmatch(name) and name not in _FRAMING
    )
    kind = headers.get(b"content-type", b"application/octet-stream").decode("latin-1").strip()
    return Head(status if status in _ANSWERS else 502, kind, tuple(shown))
