"""Claude Code works with the gateway as the page on clients tells to set it up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi.tapes import load_tapes
from tests.clients.pages import exported
from tests.clients.surroundings import Gateway, running

MODEL = "claude-sonnet-4-5"


class ClaudeCode:
    """The command, in a project."""

    def __init__(self, gateway: Gateway, packages: Path, home: Path, project: Path) -> None:
        self.gateway = gateway
        self.command = str(packages / "node_modules" / ".bin" / "claude")
        self.places = {"home": home, "folder": project}
        self.environ = exported("Claude Code", gateway.base)

    def ask(self, question: str, *options: str) -> list[Any]:
        """What it reports of one turn, but for how far it is with that."""
        output = self.gateway.run(
            self.command, "-p", question, "--output-format", "stream-json", "--verbose", *options,
            **self.places, **self.environ,
        )  # fmt: skip
        return [it for it in map(json.loads, output.splitlines()) if it["type"] != "system"]

    def fail(self, question: str) -> dict[str, Any]:
        """The end that it reports of a turn that fails."""
        output = self.gateway.run(
            "sh", "-c", '"$@"; test $? = 1', "sh",
            self.command, "-p", question, "--output-format", "stream-json", "--verbose", **self.places, **self.environ,
        )  # fmt: skip
        *_, end = map(json.loads, output.splitlines())
        return dict(end)


@pytest.fixture
def claude(gateway: Gateway, packages: Path, home: Path, project: Path) -> ClaudeCode:
    return ClaudeCode(gateway, packages, home, project)


def blocks(reports: list[Any], kind: str, *kinds: str) -> list[Any]:
    """Content blocks of some *kinds* in what one side said."""
    return [
        block for it in reports if it["type"] == kind for block in it["message"]["content"] if block["type"] in kinds
    ]


def test_text(claude: ClaudeCode) -> None:
    """A question is answered, with thinking, in the model that was asked for."""
    reports = claude.ask("Hello there")

    said = "You said: Hello there"
    assert [it["type"] for it in blocks(reports, "assistant", "thinking", "text")] == ["thinking", "text"]
    assert {it["message"]["model"] for it in reports if it["type"] == "assistant"} == {MODEL}
    assert (reports[-1]["subtype"], reports[-1]["result"], reports[-1]["num_turns"]) == ("success", said, 1)
    assert reports[-1]["usage"]["output_tokens"] > 0


@pytest.mark.parametrize(
    ("model", "told", "window"),
    [
        ("claude-sonnet-4-5", "", 200_000),
        ("claude-sonnet-4.6", "", 200_000),
        ("claude-sonnet-4-6[1m]", "", 1_000_000),
        ("claude-opus-4-8", "", 1_000_000),
        ("claude-sonnet-5", "", 1_000_000),
        ("glm-5", "", 1_000_000),
        ("glm-5", "200000", 200_000),
    ],
)
def test_windows_go_by_names(claude: ClaudeCode, model: str, told: str, window: int) -> None:
    """What the page says of windows: where the name tells too much, ``CLAUDE_CODE_MAX_CONTEXT_TOKENS`` helps."""
    claude.environ |= {"ANTHROPIC_MODEL": model} | ({"CLAUDE_CODE_MAX_CONTEXT_TOKENS": told} if told else {})

    (*_, end) = claude.ask("Hello there")

    assert (end["subtype"], end["is_error"]) == ("success", False)
    assert [it["contextWindow"] for it in end["modelUsage"].values()] == [window]


@pytest.mark.parametrize(
    ("tool", "arguments", "result"),
    [
        pytest.param(
            "Bash", {"command": "echo $((6 * 7)) > answer.txt; cat answer.txt", "description": "Calculates"}, "42"
        ),
        pytest.param("Read", {"file_path": "{project}/notes.txt"}, "Buy bread."),
    ],
)
def test_a_tool_and_its_result(
    claude: ClaudeCode, project: Path, tool: str, arguments: dict[str, str], result: str
) -> None:
    """It runs the tool that the model calls, sends the result, and ends with the text that the model makes of it."""
    given = json.dumps(arguments).replace("{project}", str(project))

    reports = claude.ask(f"sim:tool={tool} {given}", "--allowedTools", tool)

    (call,) = blocks(reports, "assistant", "tool_use")
    (outcome,) = blocks(reports, "user", "tool_result")
    assert (call["name"], call["input"]) == (tool, json.loads(given))
    assert outcome["tool_use_id"] == call["id"]
    assert not outcome.get("is_error")
    assert result in outcome["content"]
    assert reports[-1]["subtype"] == "success"
    assert reports[-1]["num_turns"] == 2
    assert reports[-1]["result"].startswith("The tool says: ")
    assert result in reports[-1]["result"]


def test_two_tools_at_once(claude: ClaudeCode) -> None:
    """Calls of one answer are all run, and all their results come back."""
    reports = claude.ask("sim:parallel=2", "--tools", "Bash", "Read")

    calls = [it["id"] for it in blocks(reports, "assistant", "tool_use")]
    assert len(calls) == 2
    assert sorted(it["tool_use_id"] for it in blocks(reports, "user", "tool_result")) == sorted(calls)
    assert reports[-1]["subtype"] == "success"


def test_a_conversation_goes_on(claude: ClaudeCode) -> None:
    """The history of an earlier turn, with its signed thinking, calls and results, is accepted as it was kept."""
    claude.ask('sim:tool=Bash {"command": "echo one"}', "--allowedTools", "Bash")
    claude.ask("sim:thinking", "--continue")

    (*_, end) = claude.ask('sim:tool=Bash {"command": "echo two"}', "--allowedTools", "Bash", "--continue")

    assert (end["subtype"], end["num_turns"]) == ("success", 2)
    assert "The tool says: two" in end["result"]


def test_web_search(claude: ClaudeCode) -> None:
    """Its search is a request of its own, with a tool that the gateway runs."""
    (*_, end) = claude.ask(
        'sim:tool=WebSearch {"query": "fjords"}', "--tools", "WebSearch", "--allowedTools", "WebSearch"
    )

    assert end["subtype"] == "success"
    assert "https://example.org/simulated" in end["result"]


@pytest.mark.parametrize("marker", ["once-500", "once-429-retry-after=1", "once-fin"])
def test_it_gets_over_faults(claude: ClaudeCode, marker: str) -> None:
    """What the service fails at once does not end the turn."""
    (*_, end) = claude.ask(f"sim:{marker} Hello there")

    assert (end["subtype"], end["is_error"]) == ("success", False)


def test_a_spent_quota_ends_the_turn_at_once(
    packages: Path, home: Path, project: Path, secluded: bool, tmp_path: Path
) -> None:
    """It asks once, and shows what the service has said."""
    with running(tmp_path, "--access-log", secluded=secluded) as gateway:
        end = ClaudeCode(gateway, packages, home, project).fail("sim:quota")
        log = gateway.stop()

    assert end["is_error"] and "402" in end["result"]
    assert log.count("POST /v1/messages 402") == 1, log


def test_discovery(packages: Path, home: Path, project: Path, secluded: bool, tmp_path: Path) -> None:
    """It asks for the models once, has them within its three seconds, and keeps those whose names it knows."""
    with running(tmp_path, "--access-log", secluded=secluded) as gateway:
        claude = ClaudeCode(gateway, packages, home, project)
        del claude.environ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"]
        claude.environ["CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY"] = "1"
        claude.ask("sim:text")
        log = gateway.stop()

    assert log.count("GET /v1/models 200") == 1, log
    kept = json.loads((home / ".claude" / "cache" / "gateway-models.json").read_text("utf-8"))
    names = [it["id"] for it in kept["models"]]
    assert "claude-sonnet-4.5" in names, kept
    assert all("claude" in name or "anthropic" in name for name in names)


ANTHROPIC = "anthropic/claude-sonnet-4-5"


def test_all_of_a_request_reaches_its_own_service(
    packages: Path, home: Path, project: Path, secluded: bool, tmp_path: Path
) -> None:
    """Each beta, the version, every member of the body and of its tools and blocks, but for the model's name."""
    tapes = tmp_path / "tapes"
    recorded = {"PATH": str(tapes), "WHEN": "all", "CONTENT": "full"}
    with running(
        tmp_path, secluded=secluded, **{f"KIRO_ASGI__TAPES__{name}": value for name, value in recorded.items()}
    ) as gateway:
        claude = ClaudeCode(gateway, packages, home, project)
        claude.environ["ANTHROPIC_MODEL"] = ANTHROPIC
        claude.ask('sim:tool=Bash {"command": "echo one"}', "--allowedTools", "Bash")
        gateway.stop()

    asked = [tape for tape in load_tapes(tapes) if tape.request.text("path") == "/v1/messages"]
    sent = {id(tape): next(tape.of("up.request")) for tape in asked}
    assert len(asked) >= 2
    for tape in asked:
        ours, theirs = json.loads(sent[id(tape)].data), json.loads(tape.request.data)
        if theirs["model"] != ANTHROPIC:
            continue
        betas = {it.strip() for it in tape.request.header(b"anthropic-beta").split(b",")}
        assert betas <= {*sent[id(tape)].header(b"anthropic-beta").split(b",")}
        assert sent[id(tape)].header(b"anthropic-version") == tape.request.header(b"anthropic-version")
        assert [*missing(theirs, ours, "")] == []


def missing(given: Any, passed: Any, place: str) -> Iterator[str]:
    """Places of *given* that *passed* has not, or has differently."""
    if isinstance(given, str) and isinstance(passed, list):  # one text is short for one block with it
        given = [{"type": "text", "text": given}]
    if place == ".model" or (given is False and passed is None):  # what is not said is not so
        return
    if isinstance(given, dict) and isinstance(passed, dict):
        for name, value in given.items():
            yield from missing(value, passed.get(name), f"{place}.{name}")
    elif isinstance(given, list) and isinstance(passed, list) and len(given) == len(passed):
        for at, (one, other) in enumerate(zip(given, passed, strict=True)):
            yield from missing(one, other, f"{place}[{at}]")
    elif given != passed:
        yield f"{place}: {json.dumps(given)[:200]} became {json.dumps(passed)[:200]}"
