"""``kiro-asgi demo``: one command, both ends, every API."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from kiro_asgi.cli.demo import APIS, RESULT
from tests.cli.processes import command

PART = re.compile(r"^ *(\d+ ms|sent)  (thinking|text|tool call|result|end|error) +(.*?)(?:  (\d+×.*))?$")
CONVERSATION = [
    ("thinking", "The user says: What is the weather in Bergen? I should answer that."),
    ("text", "Let me use get_weather."),
    ("tool call", 'get_weather {"city": "Bergen"}'),
    ("end", ""),
    ("result", RESULT),
    ("thinking", "The tool has answered. I should tell the user."),
    ("text", f"The tool says: {RESULT}"),
    ("end", ""),
]
ENDS = {
    "OpenAI Chat Completions": ["tool_calls", "stop"],
    "OpenAI Responses": ["completed", "completed"],
    "Anthropic Messages": ["tool_use", "end_turn"],
}
"""API to the words with which its answers end."""


def sections(output: str) -> dict[str, list[re.Match[str]]]:
    """Title of an API to the lines below it."""
    found: dict[str, list[re.Match[str]]] = {}
    for line in output.splitlines():
        if "  POST /" in line:
            found[line.partition("  POST ")[0]] = rows = []
        elif part := PART.match(line):
            rows.append(part)
    return found


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_shows_thinking_a_call_and_the_answer_in_each_api(loop: str, tmp_path: Path) -> None:
    """It needs no settings, shows every part with its time and its events in order, and ends with 0."""
    done = command("demo", "--loop", loop, cwd=tmp_path)
    found = sections(done.stdout)
    expected = {
        title: [(kind, text or ends[at > 3]) for at, (kind, text) in enumerate(CONVERSATION)]
        for title, ends in ENDS.items()
    }

    assert (done.returncode, done.stderr) == (0, "")
    assert {title: [(row[2], row[3]) for row in rows] for title, rows in found.items()} == expected
    for rows in found.values():
        times = [int(row[1].split()[0]) for row in rows if row[1] != "sent"]
        assert all(a <= b for half in (times[:4], times[4:]) for a, b in pairwise(half))
    assert [row[4] for row in found["Anthropic Messages"][:4]] == [
        "13×content_block_delta",
        "4×content_block_delta",
        "1×content_block_start, 1×content_block_delta",
        "1×message_delta",
    ]
    assert [bool(re.search(rf"^{api.title} +\d+ ms +\d+ ms +\d+$", done.stdout, re.M)) for api in APIS] == [True] * 3


@pytest.mark.parametrize("model", ["gemini/gemini-2.5-flash", "anthropic/claude-sonnet-4-5", "openai/gpt-5"])
def test_every_upstream_is_simulated(model: str, tmp_path: Path) -> None:
    """A model of another upstream calls the tool, and is told what it gave, through the same APIs."""
    done = command("demo", "--model", model, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    for rows in sections(done.stdout).values():
        assert [row[2] for row in rows if row[2] in ("tool call", "result")] == ["tool call", "result"]
        assert rows[-2][2] == "text" and RESULT in rows[-2][3]


@pytest.mark.parametrize(
    ("marker", "expected", "status"),
    [
        ("sim:bad-request", ["error: status 400: Improperly formed request. (HTTP 400)"], 1),
        ("sim:count=3", ["text: 1 2 3 ", "end: "], 0),
        ("sim:parallel", ["text: Let me check.", "tool call: ", "tool call: ", "end: "], 0),
        ("sim:exception", ["text: This is a simulated answer,", "error: Encountered an unexpected error"], 1),
    ],
)
def test_a_marker_changes_the_answer(marker: str, expected: list[str], status: int, tmp_path: Path) -> None:
    """An answer that does not come to its end is a failure, said once and without a log line."""
    done = command("demo", "--question", marker, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (status, "")
    for rows in sections(done.stdout).values():
        assert len(rows) == len(expected)
        assert all(f"{row[2]}: {row[3]} ".startswith(words) for row, words in zip(rows, expected, strict=True))


def test_settings_of_the_environment_do_not_matter(tmp_path: Path) -> None:
    """A demonstration never asks the real service."""
    done = command("demo", cwd=tmp_path, KIRO_API_KEY="ksk_canary", KIRO_ASGI__KIRO__REGION="nowhere")

    assert done.returncode == 0
    assert "canary" not in done.stdout
