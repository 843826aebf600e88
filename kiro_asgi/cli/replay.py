"""Replay the exchange on a tape, and report whether the client would be sent the same.

It sends no requests, and waits for nothing.  The status is 0 where it is the same, 1 where it differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.cli.terminal import Printer, Tone, printer_on
from kiro_asgi.inspector.replays import answer_of, as_value, attempts_of
from kiro_asgi.replay import Difference, Replay, Step, derive, read_setting
from kiro_asgi.tapes import load_tape
from kiro_asgi.visible import visible_lines
from kiro_asgi.wire.json import JsonError, loads

_LANES: Final[Mapping[str, str]] = MappingProxyType({"read": "service", "send": "client"})
"""Kind of a step to the side it is on; all others are the gateway's."""

_WIDTH: Final = 100
"""Characters of a value that are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("tape", type=Path, metavar="TAPE", help="a file, see tapes.path")
    parser.add_argument(
        "--stage",
        metavar="NAME",
        help="show each step: bytes (what was read), sse (what was sent), all, or a stage such as FrameDecoder",
    )
    parser.add_argument(
        "--rechunk", default="recorded", metavar="HOW", help="cut the service's bytes: recorded, a number, random:SEED"
    )
    parser.add_argument("--speed", type=float, default=0.0, metavar="X", help="1 as recorded, 0 at once (default)")
    parser.add_argument(
        "--set",
        dest="changed",
        type=_setting,
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change a setting",
    )
    parser.add_argument("--diff", type=Path, metavar="OTHER", help="compare with the replay of this tape")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the replay as one HTML page, without scripts")


def _setting(text: str) -> tuple[str, Any]:
    path, equals, value = text.partition("=")
    if not path or not equals:
        raise argparse.ArgumentTypeError("must be written as path=value, e.g. stream.heartbeat=5")
    return path, read_setting(value)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the steps that are wanted, and the result."""
    printer = printer_on(sys.stdout, environ)
    options: dict[str, Any] = {
        "rechunk": arguments.rechunk,
        "speed": max(0.0, arguments.speed),
        "changed": dict(arguments.changed),
    }
    played = derive(load_tape(arguments.tape), **options)
    if arguments.stage:
        for line in _lines(played, arguments.stage.lower()):
            printer.line(line)
    other = None if arguments.diff is None else derive(load_tape(arguments.diff), **options)
    difference = played.difference if other is None else Difference.between(other.sent, played.sent)
    _print_result(printer, played, difference)
    if arguments.html is not None:
        arguments.html.write_text(_page_of(played, difference), "utf-8")
    return int(difference is not None)


def _lines(played: Replay, wanted: str) -> Iterator[str]:
    """The steps of one kind, each with the one that led to it."""
    for index, step in enumerate(played.steps):
        names = {"all", {"read": "bytes", "send": "sse"}.get(step.kind, step.stage.lower())}
        if wanted in names:
            yield _line(index, step)
    if played.dropped:
        yield f"and {played.dropped} more steps"


def _line(index: int, step: Step) -> str:
    lane = _LANES.get(step.kind, step.stage)
    cause = f"<- {step.cause}" if step.cause >= 0 else ""
    value = repr(step.value)
    return f"{index:>6} {step.t:>10.6f} {lane:<20} {cause:<9} {value if len(value) <= _WIDTH else value[:_WIDTH] + '…'}"


def _print_result(printer: Printer, played: Replay, difference: Difference | None) -> None:
    size, steps = len(played.sent), len(played.steps) + played.dropped
    printer.line((f"HTTP {played.status}, {size} bytes in {steps} steps", Tone.TEXT))
    if played.missing:
        printer.line((f"{played.missing} requests have no answer on the tape", Tone.TEXT))
    if difference is None:
        printer.line(("the client is sent the same, byte for byte", Tone.TEXT))
        return
    for line in difference.explain():
        printer.line((line, Tone.TEXT))


_STEPS: Final = 5000
"""Steps that are shown; a page with more is slow."""

_LABEL: Final = 120
"""Characters of a step while it is closed."""

_VALUE: Final = 20_000
"""Characters of a value that are shown."""

_STYLE: Final = """
:root{color-scheme:light dark;font:15px/1.45 system-ui,sans-serif}
body{margin:1rem auto;max-width:75rem;padding:0 1rem}
h2{margin-top:2rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.2rem .6rem .2rem 0;border-bottom:1px solid #8884}
pre,td:last-child{overflow-wrap:anywhere}
pre{white-space:pre-wrap;margin:.3rem 0}
svg{width:100%;height:3rem}
.service{fill:#1769aa}.client{fill:#b25600}
tr:target{background:#fc08}
"""

_POLICY: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; "
    f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
)


class _Markup(str):
    """Text that is HTML."""

    __slots__ = ()


def _tag(name: str, *inner: object, **attributes: object) -> _Markup:
    """An element; text in it that is not markup is escaped.  The attribute ``class_`` is rendered as ``class``."""
    given = "".join(f' {key.rstrip("_")}="{_text(value)}"' for key, value in attributes.items())
    return _Markup(f"<{name}{given}>{''.join(map(_text, inner))}</{name}>")


def _text(value: object) -> str:
    return value if isinstance(value, _Markup) else escape("\t".join(map(visible_lines, str(value).split("\t"))))


def _page_of(replay: Replay, difference: Difference | None) -> str:
    """The exchange as one page of HTML: to be mailed, opened anywhere, and kept.

    It loads nothing from other places and has no script, and its own policy forbids both.  Whatever clients and
    services wrote is text.  *difference* is where the client would be sent something else; ``None``: nowhere.
    """
    title = f"Replay of {replay.tape.head.text('id')}"
    head = (
        _Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width">')
        + f'<meta http-equiv="content-security-policy" content="{escape(_POLICY)}">',
        _tag("title", title),
        _tag("style", _Markup(_STYLE)),
    )
    body = _Markup("\n".join(_sections(replay, difference)))
    page = _tag("html", _tag("head", _Markup("".join(head))), _tag("body", _tag("h1", title), body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _sections(replay: Replay, difference: Difference | None) -> Iterator[_Markup]:
    yield _table(_facts(replay))
    if difference is None:
        yield _tag("p", "The client is sent the same, byte for byte.")
    else:
        yield _tag("p", "The client would be sent something else:")
        yield _tag("pre", "\n".join(difference.explain()))
    yield _tag("h2", "Time")
    yield _timeline(replay)
    yield _tag("h2", "Answer")
    yield from _answer(replay)
    yield _tag("h2", "Attempts")
    for attempt in attempts_of(replay.tape):
        yield _table((name, value) for name, value in attempt.items() if value is not None)
    yield _tag("h2", "Request")
    yield _opened("what the client sent", _document(replay.tape.request.data))
    for number, request in enumerate(replay.asked, 1):
        yield _opened(f"what the service was sent, {number}", _document(request.body))
    yield _tag("h2", "Steps")
    yield _steps(replay)


def _facts(replay: Replay) -> Iterator[tuple[str, object]]:
    tape = replay.tape
    yield "received", f"{datetime.fromtimestamp(tape.head.number('at'), UTC):%Y-%m-%d %H:%M:%S} UTC"
    yield "recorded by", f"{tape.head.text('by')}, content {tape.head.text('content')}"
    yield "request", f"{tape.request.text('method')} {tape.request.text('path')}"
    yield "response", f"HTTP {replay.status}, {len(replay.sent)} bytes"
    yield "outcome", "no end" if tape.end is None else tape.end.text("outcome")
    if replay.missing:
        yield "missing", f"{replay.missing} requests have no answer on the tape"


def _table(rows: Iterator[tuple[str, object]]) -> _Markup:
    return _tag("table", *(_tag("tr", _tag("th", name, scope="row"), _tag("td", value)) for name, value in rows))


def _opened(summary: object, value: str) -> _Markup:
    return _tag("details", _tag("summary", summary), _tag("pre", value))


def _timeline(replay: Replay) -> _Markup:
    """A picture of the reads, above, and the sends, below, to scale."""
    marks = [step for step in replay.steps if step.kind in _LANES][:_STEPS]
    last = max((step.t for step in marks), default=0.0)
    drawn = [
        _tag("rect", x=round(990 * step.t / (last or 1), 2), y=2 if step.kind == "read" else 22, width=2, height=16,
             class_=_LANES[step.kind])
        for step in marks
    ]  # fmt: skip
    name = f"reads from the service above, sends to the client below, in {last:.3f} seconds"
    picture = _tag("svg", _tag("title", name), *drawn, viewBox="0 0 1000 40", preserveAspectRatio="none", role="img")
    return _tag("figure", picture, _tag("figcaption", name))


def _answer(replay: Replay) -> Iterator[_Markup]:
    answer = answer_of(replay)
    for block in answer["blocks"]:
        text = block.get("text")
        rest = {name: value for name, value in block.items() if name != "text" and value not in (None, [], False)}
        yield _tag("p", _tag("b", block["kind"]), *([] if text is None else [_tag("pre", text)]))
        yield _opened("details", _json(rest))
    if answer["end"] is not None:
        yield _opened(f"end: {answer['end']['reason']}", _json(answer["end"]))
    if not answer["blocks"]:
        yield _opened("bytes, as they were sent", _shown(replay.sent))


def _steps(replay: Replay) -> _Markup:
    titles = _tag("tr", *(_tag("th", name, scope="col") for name in ("step", "seconds", "cause", "where", "what")))
    rows = [_row(index, step) for index, step in enumerate(replay.steps[:_STEPS])]
    left = len(replay.steps) - len(rows) + replay.dropped
    more = [_tag("p", f"and {left} more steps")] if left else []
    return _tag("div", _tag("table", titles, *rows), *more)


def _row(index: int, step: Step) -> _Markup:
    cause = _tag("a", step.cause, href=f"#s{step.cause}") if step.cause >= 0 else ""
    value = _shown(step.value)
    what = _tag("code", value) if len(value) <= _LABEL else _opened(_tag("code", f"{value[:_LABEL]}…"), value)
    cells = (index, f"{step.t:.6f}", cause, _LANES.get(step.kind, step.stage), what)
    return _tag("tr", *(_tag("td", cell) for cell in cells), id=f"s{index}")


def _shown(value: Any) -> str:
    """A step's value in full; bytes as text where they are text."""
    if not isinstance(value, bytes):
        text = f"{type(value).__name__} {json.dumps(as_value(value), ensure_ascii=False)}"
    else:
        text = value.decode("utf-8", "backslashreplace")
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}… and {len(text) - _VALUE} more characters"


def _document(body: bytes) -> str:
    try:
        return _json(as_value(loads(body)))
    except JsonError:
        return _shown(body)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
