"""The page's own modules, in a browser: what belongs together, what a filter lets through, what is drawn to scale."""

from __future__ import annotations

from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

from tests.browser import inspected
from tests.browser.inspected import PREFIX, Site
from tests.browser.looking import log_in, screen, until
from tests.tapes.recording import PATHS, question

pytest.importorskip("selenium.webdriver", reason="needs selenium, as tox -e browser has it")

CALL: Final = {
    "id": "req_1",
    "api": "anthropic",
    "path": "/v1/messages",
    "principal": "key:alice",
    "asked": "sonnet",
    "model": "claude-sonnet-4.5",
    "upstream": "kiro",
    "state": "ended",
    "outcome": "cut",
    "status": 502,
    "error": "UpstreamThrottled",
    "code": "frame.truncated",
    "finish": "tool_call",
    "rules": ["turns.merged"],
    "notices": {"call.mended": 1},
    "remarks": [
        {"kind": "error", "code": "UpstreamThrottled", "mark": "✗", "words": "service's rate limit", "times": 1},
        {"kind": "notice", "code": "call.mended", "mark": "⚠", "words": "changed on the way", "times": 1},
    ],
    "usage": {"input": 90_000, "cache_read": 20_000, "cache_write": 0, "output": 12, "thinking": 3},
    "seconds": 5.25,
    "first": 0.25,
    "gap": 2.0,
    "attempts": 3,
    "cost": 0.75,
    "agent": "claude-cli/2.1",
    "pinned": True,
}

FITTING: Final = (
    "",
    "sonnet cut",
    "status:5xx outcome:cut",
    "status:502 status:>500 status:<=502",
    "error:throttled code:truncated",
    "model:SONNET up:kiro api:anthropic",
    "key:alice agent:claude-cli",
    "slow:>5s slow:<6 first:250ms first:<=0.25 gap:>=2s",
    "tries:>1 rule:turns notice:call",
    "has:tool has:thinking has:pin has:rule has:notice has:error",
    'problem:"rate limit" problem:mended',
    "needle text:haystack -text:pin",
    'text:"two words"',
    "input:>100k output:<13 cost:>0.5",
    "-bob -status:2xx -has:image",
    'outcome:"cut" "key:alice"',
    'agent:"claude-cli/2.1',
)

UNFITTING: Final = (
    "sonnet bob",
    "status:4xx",
    "status:>502",
    "slow:<5s",
    "first:>250ms",
    "tries:one",
    "-model:sonnet",
    "key:bob",
    "input:>1000k",
    "nothing:here",
    "has:slow",
    "text:sonnet",
    "-needle",
    '"sonnet cut"',
)

TIMED: Final[dict[str, Any]] = {
    **CALL,
    "seconds": 4.0,
    "first": 2.0,
    "tries": [
        {
            "number": 1,
            "at": 0.0,
            "seconds": 1.0,
            "upstream": "away",
            "outcome": "refused",
            "error": "X",
            "said": "no way",
        },
        {"number": 2, "at": 1.0, "seconds": 3.0, "upstream": "kiro", "outcome": "complete"},
    ],
    "received": [[2.0, 100], [2.1, 100], [3.1, 100], [3.2, 5000]],
    "sent": [[1.5, 20], [2.0, 100], [3.2, 5000]],
    "beats": [1.5],
    "received_bytes": 5300,
    "sent_bytes": 5120,
}


@pytest.fixture(scope="module")
def page(driver, site):
    """The page, signed in."""
    log_in(driver, site, "alice")
    until(lambda: driver.find_element("id", "live").text == "● live")
    screen(driver, 1400, 900)
    return driver


def run(page: Any, body: str, *told: Any) -> Any:
    """What *body*, of an asynchronous function, returns; it has ``told``, and ``module`` to import one of the page."""
    script = """
        const [...told] = arguments, done = told.pop(), module = (name) => import(new URL(name, location.href));
        (async () => { %s })().then((found) => done([found, null]), (error) => done([null, String(error.stack)]));
    """
    found, error = page.execute_async_script(script % body, *told)
    assert error is None, error
    return found


def ask(site: Site, api: str) -> str:
    """Ask a question through an API, and read all of the answer; its id."""
    asked = question(api, "sim:text")
    query = asked.scope["query_string"].decode()
    headers = {"content-type": "application/json", "authorization": "Bearer k", "x-goog-api-key": "k"}
    with urlopen(
        Request(f"{site.url}{PREFIX}{asked.scope['path']}?{query}", asked.body[0], headers), timeout=20
    ) as answer:
        answer.read()
        return str(answer.headers["x-request-id"])


@pytest.mark.parametrize("api", PATHS)
def test_a_text_is_tied_to_its_frame_and_its_lines(api, page, site):
    """Each piece of text to one read, one frame in it and one send, which has that text; other pieces to others."""
    body = """
        const [call] = told, {Links} = await module("links.js"), {ask} = await module("api.js");
        const found = await ask(`steps?call=${call}`), links = new Links(found);
        const texts = found.steps.flatMap((row, at) => row[7].startsWith("TextDelta ") ? [at] : []);
        return Promise.all(texts.map(async (at) => {
            const tied = [...links.of(at)].map((each) => [each, found.steps[each]]);
            const [[send]] = tied.filter(([, row]) => row[0] === "s");
            return {
                text: found.steps[at][7].slice("TextDelta ".length),
                reads: tied.filter(([, row]) => row[0] === "r").length,
                frames: tied.filter(([, row]) => row[7].startsWith("Frame ")).map(([each]) => each),
                sends: tied.filter(([, row]) => row[0] === "s").map(([each]) => each),
                sent: (await ask(`step?call=${call}&index=${send}`)).text,
                back: links.of(send).has(at),
            };
        }));
    """
    pieces = run(page, body, until(lambda: ask(site, api)))
    assert len(pieces) > 3
    for piece in pieces:
        assert (piece["reads"], len(piece["frames"]), len(piece["sends"])) == (1, 1, 1), piece
        assert piece["text"].strip() in piece["sent"] and piece["back"], piece
    assert len({piece["frames"][0] for piece in pieces}) == len(pieces)


def test_a_frame_is_tied_to_all_its_reads(page):
    """Also to those before the one that made it whole; each read to all frames that have bytes in it."""
    body = """
        const [found] = told, {Links} = await module("links.js"), links = new Links(found);
        return [0, 1, 2, 3, 4].map((step) => [...links.of(step)].sort());
    """
    reads = [["r", 0, -1, 0, 1, 0, 50, "", ""], ["r", 1, -1, 0, 1, 50, 50, "", ""]]
    frames = [["i", 1, 1, 1, 1, 10, 80, "Frame a", ""], ["i", 1, 1, 1, 1, 90, 10, "Frame b", ""]]
    found = {"steps": [*reads, *frames, ["s", 1, 3, 0, 1, 0, 9, "", ""]], "stages": ["", "D"], "events": [3]}
    tied = [[0, 2], [1, 2, 3, 4], [0, 1, 2], [1, 3, 4], [1, 3, 4]]
    assert run(page, body, found) == tied


def test_what_a_filter_lets_through(page):
    """Each name with what it is compared to; nothing that is typed breaks it."""
    body = """
        const [call, words] = told, {filter} = await module("filter.js");
        return words.map((each) => filter(each, (word) => ["needle", "haystack", "two words"].includes(word))(call));
    """
    words = [*FITTING, *UNFITTING]
    assert dict(zip(words, run(page, body, CALL, words), strict=True)) == {each: each in FITTING for each in words}
    script = 'const {searched} = await module("filter.js"); return told.map((each) => searched(each));'
    looked = run(page, script, "a b:cde -fgh key:x", "text:i")
    assert looked == [["b:cde", "fgh"], []]
    typed = ["-", '"', ":", "status:", "status:>", "-:", "slow:>..5", "\\", "(", "[a", "has:", "💥", "constructor:x"]
    assert {*map(type, run(page, body, CALL, typed))} == {bool}


def test_the_strip_is_to_scale(page):
    """Attempts, silences of a quarter of a second with their length, each read and send, signs of life, marks."""
    body = """
        const [call] = told, {timeline, summary} = await module("timeline.js"), figure = timeline(call);
        const strip = figure.querySelector("svg"), place = document.createElement("div");
        place.style.width = "800px";
        place.append(figure);
        document.body.append(place);
        await new Promise((next) => setTimeout(next, 300));
        const width = strip.clientWidth, told_of = (kind) => [...strip.querySelectorAll(kind)];
        const attribute = (it, name) => it.getAttribute(name);
        const at = (x) => Math.round((Number(x) / width) * 4000) / 1000;
        const bar = (it) => [at(attribute(it, "x")), at(attribute(it, "width")), it.textContent];
        const bars = (kind) => told_of(kind).map(bar);
        const drawn = (kind) => attribute(strip.querySelector(kind), "d").matchAll(/M([0-9.]+) /g);
        const ticks = (kind) => [...drawn(kind)].map(([, x]) => at(x));
        const seen = {
            tries: bars("rect.try"), failed: told_of("rect.try.failed").length, gaps: bars("rect.gap"),
            read: ticks("path.read"), send: ticks("path.send"),
            beats: told_of("circle.beat").map((it) => at(attribute(it, "cx"))),
            marks: told_of("line.mark").map((it) => at(attribute(it, "x1"))), words: summary(call),
            labels: told_of("text").map((it) => it.textContent),
        };
        place.remove();
        return seen;
    """
    seen = run(page, body, TIMED)
    assert [(at, size) for at, size, _ in seen["tries"]] == [(0, 1), (1, 3)] and seen["failed"] == 1
    gaps = [(at, size) for at, size, _ in seen["gaps"]]
    assert gaps == [(0, 2), (2.1, 1), (3.2, 0.8)] and "nothing for 2" in seen["gaps"][0][2]
    assert seen["read"] == pytest.approx([2, 2.1, 3.1, 3.2], abs=0.003)
    assert seen["send"] == pytest.approx([1.5, 2, 3.2], abs=0.003)
    assert (seen["beats"], seen["marks"]) == ([1.5], [2, 4])
    assert (
        "2 attempts" in seen["words"]
        and "1 of them only to keep the connection open" in seen["words"]
        and "longest pause 2" in seen["words"]
    )
    assert "1: away ✗ no way" in seen["labels"]


REPORTED: Final = {
    "sim:cut-tool": (
        "✂ **tool call cut** `call.cut`: The service stopped in the middle of a tool call.",
        "What came of the call of `get_weather`, ",
        "It was left out, because braces of its JSON are not closed.",
        "- Outcome: `200 tool call cut`",
    ),
    "Told in a report: sim:once-503": (
        "↻ **tried again** `call.retried`: 2 requests were sent to services.",
        "What `kiro` said in attempt 1, with status 503:",
        "MODEL_TEMPORARILY_UNAVAILABLE",
    ),
    "sim:reset": (
        "✂ **connection broke** `UpstreamUnreachable connection_broken`: The connection to the service broke off",
        "Attempt 1, at `kiro`: Stream connection failed: the connection broke off",
        "- Outcome: `200 connection broke`",
    ),
    "Hello": ("✓ **200 complete**", "- Outcome: `200 complete`", "Attempts:"),
}
"""Question to what its report begins with, and to what else stands in it."""


@pytest.mark.parametrize("asked", REPORTED)
def test_a_report_begins_with_the_cause(page, site, asked):
    """What happened and what to do come first, then what came of it, the service's words, and facts that agree."""
    body = """
        const [id] = told, {ask} = await module("api.js"), {failureOf} = await module("problem.js");
        const {reportOf} = await module("report.js"), call = await ask(`calls/${id}`);
        return call.state === "ended" && reportOf(call, await failureOf(call));
    """
    call = inspected.ask(site, asked)
    text = until(lambda: run(page, body, call))

    first, *others = REPORTED[asked]
    assert text.startswith(first)
    assert [each for each in others if each not in text] == [] and "``\n" not in text.replace("```", "")


def test_what_others_wrote_ends_no_block_of_a_report(page):
    """Whatever back-ticks and lines are in it."""
    call = {**CALL, "method": "POST", "tries": [], "remarks": [{**CALL["remarks"][0], "cause": "It.", "advice": ""}]}
    failure = {
        "partial": [{"name": "a`b\n# c", "bytes": 9, "arguments": "x\n````\n# no heading", "why": ""}],
        "attempts": [{"number": 1, "upstream": "k", "status": 500, "words": "```\n<img src=x>\n```"}],
    }
    body = 'const {reportOf} = await module("report.js"); return reportOf(...told);'
    text = run(page, body, call, failure)

    assert "`a b # c`" in text and "\n`````\nx\n````\n# no heading\n`````\n" in text
    assert "\n````\n```\n<img src=x>\n```\n````\n" in text
