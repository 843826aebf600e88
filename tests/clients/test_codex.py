"""Codex works with the gateway as the page on clients tells to set it up."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.clients.pages import ADDRESS, EXAMPLES, exported
from tests.clients.surroundings import Gateway, running

CLAUDE = "claude-sonnet-4.5"
GPT = "gpt-5.6-sol"
"""A model that Codex knows, and which it gives its tools in a namespace, in an item of the input."""

PATCH = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-Buy bread.\n+Buy milk.\n*** End Patch\n"


class Codex:
    """The command, in a project, with a home that its reader has set up."""

    def __init__(self, gateway: Gateway, packages: Path, home: Path, project: Path) -> None:
        self.gateway = gateway
        self.command = str(packages / "node_modules" / ".bin" / "codex")
        self.home, self.project = home, project
        self.settings = home / ".codex"
        self.environ = exported("Codex", gateway.base)

    def set_up(self, more: str = "") -> None:
        """Write its two files, *more* at the end of the first."""
        self.settings.mkdir()
        config = (EXAMPLES / "codex.toml").read_text("utf-8").replace(ADDRESS, self.gateway.base) + more
        (self.settings / "config.toml").write_text(config.replace('model_catalog_json = "models.json"\n', ""))
        known = self._run(self.command, "debug", "models", "--bundled")
        models = self._run(sys.executable, str(EXAMPLES / "codex_models.py"), CLAUDE, given=known)
        (self.settings / "models.json").write_text(models)
        (self.settings / "config.toml").write_text(config)

    def ask(self, question: str, *options: str, model: str = CLAUDE) -> list[Any]:
        """The items of one turn, and what it took."""
        output = self._run(
            self.command, "exec", "--json", "--strict-config", "--skip-git-repo-check", "--sandbox", "workspace-write",
            "--model", model, *options, question,
        )  # fmt: skip
        reports = [json.loads(line) for line in output.splitlines()]
        assert [it["type"] for it in reports if it["type"].startswith("turn.")] == ["turn.started", "turn.completed"]
        return [it["item"] for it in reports if it["type"] == "item.completed"]

    def fail(self, question: str) -> str:
        """What it says of a turn that fails."""
        output = self._run(
            "sh", "-c", '"$@"; test $? = 1', "sh",
            self.command, "exec", "--json", "--strict-config", "--skip-git-repo-check", "--model", CLAUDE, question,
        )  # fmt: skip
        *_, end = map(json.loads, output.splitlines())
        assert end["type"] == "turn.failed"
        return str(end["error"]["message"])

    def _run(self, *command: str, given: str = "") -> str:
        return self.gateway.run(*command, folder=self.project, home=self.home, given=given, **self.environ)


@pytest.fixture
def codex(gateway: Gateway, packages: Path, home: Path, project: Path) -> Codex:
    made = Codex(gateway, packages, home, project)
    made.set_up()
    return made


def called(tool: str, **arguments: Any) -> str:
    """A question that makes the model call *tool*."""
    return f"sim:tool={tool} {json.dumps(arguments)}"


def test_text(codex: Codex) -> None:
    """A question is answered; Codex knows the model, and has nothing to warn about."""
    (item,) = codex.ask("sim:text")

    assert item["type"] == "agent_message"
    assert item["text"] == "This is a simulated answer, and it is streamed in small pieces."


def test_a_shell_command(codex: Codex, project: Path) -> None:
    """The shell tool runs what the model wants, its output goes back, and text ends the turn."""
    first, command, last = codex.ask(called("exec_command", cmd="echo $((6 * 7)) > answer.txt; cat answer.txt"))

    assert first["text"] == "Let me check."
    assert (command["type"], command["exit_code"], command["aggregated_output"]) == ("command_execution", 0, "42\n")
    assert last["text"].startswith("The tool says: ")
    assert last["text"].rstrip().endswith("42")
    assert (project / "answer.txt").read_text() == "42\n"


def test_a_patch(codex: Codex, project: Path) -> None:
    """The freeform tool gets the patch as the model wrote it: it applies."""
    _, change, last = codex.ask(called("apply_patch", input=PATCH))

    assert (change["type"], change["status"]) == ("file_change", "completed")
    assert [(Path(it["path"]).name, it["kind"]) for it in change["changes"]] == [("notes.txt", "update")]
    assert "Success" in last["text"]
    assert (project / "notes.txt").read_text() == "Buy milk.\n"


def test_tools_in_an_item_of_the_input(codex: Codex, project: Path) -> None:
    """A model that runs its tools from a script gets it, and through it the other tools."""
    script = f"text((await tools.exec_command({{cmd: 'pwd'}})).output); await tools.apply_patch({json.dumps(PATCH)});"

    items = codex.ask(called("functions__exec", input=script), model=GPT)

    assert [it["type"] for it in items] == ["agent_message", "command_execution", "file_change", "agent_message"]
    assert str(project) in items[-1]["text"]
    assert (project / "notes.txt").read_text() == "Buy milk.\n"


def test_a_tool_of_a_namespace(codex: Codex) -> None:
    """Tools that Codex finds on demand come back under the names it gave them: it refuses the agent, not the tool."""
    codex.ask(called("tool_search", query="close agent", limit=3))

    *_, last = codex.ask(called("multi_agent_v1__close_agent", target="nobody"), "resume", "--last")

    assert "invalid agent id nobody" in last["text"]


def test_a_conversation_goes_on(codex: Codex) -> None:
    """The history of an earlier turn, with its thinking, calls and results, is accepted as Codex keeps it."""
    codex.ask(called("exec_command", cmd="echo one"))
    codex.ask("sim:thinking", "resume", "--last")

    *_, last = codex.ask(called("exec_command", cmd="echo two"), "resume", "--last")

    assert last["text"].rstrip().endswith("two")


def test_a_schema(codex: Codex, tmp_path: Path) -> None:
    """An answer that has to fit a schema does."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    (tmp_path / "schema.json").write_text(json.dumps({**schema, "additionalProperties": False}))

    *_, last = codex.ask("Who lives there?", "--output-schema", str(tmp_path / "schema.json"))

    assert list(json.loads(last["text"])) == ["name"]


def test_compaction(codex: Codex) -> None:
    """A history that has grown too long is summed up without a route of its own, and the conversation goes on."""
    short = ("--config", "model_auto_compact_token_limit=50")
    codex.ask("sim:text", *short)

    (last,) = codex.ask("sim:text", *short, "resume", "--last")

    assert last["text"] == "This is a simulated answer, and it is streamed in small pieces."
    (kept,) = codex.settings.glob("sessions/**/*.jsonl")
    assert "compacted" in [json.loads(line)["type"] for line in kept.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("marker", ["once-500", "once-fin"])
def test_it_gets_over_faults(codex: Codex, marker: str) -> None:
    """What the service fails at once does not end the turn, even in the middle of an answer."""
    *_, last = codex.ask(f"sim:{marker} Sing.")

    assert last["type"] == "agent_message"


WEBSOCKET = "supports_websockets = true\n"


@pytest.mark.parametrize(
    ("takes", "calls"),
    [
        pytest.param("true", {"GET /v1/responses 101": 2, "POST /v1/responses 200": 5}, id="taken"),
        pytest.param("false", {"GET /v1/responses 426": 2, "POST /v1/responses 200": 3}, id="refused"),
    ],
)
def test_over_websocket(
    takes: str, calls: dict[str, int], packages: Path, home: Path, project: Path, secluded: bool, tmp_path: Path
) -> None:
    """A tool loop, and a session that goes on; where the gateway takes no WebSocket, all of it over HTTP, at once."""
    with running(tmp_path, "--access-log", secluded=secluded, KIRO_ASGI__RESPONSES__WEBSOCKET=takes) as gateway:
        codex = Codex(gateway, packages, home, project)
        codex.set_up(WEBSOCKET)
        _, command, last = codex.ask(called("exec_command", cmd="echo $((6 * 7))"))
        *_, resumed = codex.ask("sim:text", "resume", "--last")
        log = gateway.stop()

    assert (command["exit_code"], last["text"].rstrip()[-2:]) == (0, "42")
    assert resumed["text"] == "This is a simulated answer, and it is streamed in small pieces."
    lines = [
        line[line.index(verb) :].split()[:3] for line in log.splitlines() for verb in ("GET ", "POST ") if verb in line
    ]
    assert Counter(" ".join(words) for words in lines) == calls, log


@pytest.mark.parametrize("provider", ["", WEBSOCKET], ids=["http", "websocket"])
def test_a_spent_quota_ends_the_turn_at_once(
    provider: str, packages: Path, home: Path, project: Path, secluded: bool, tmp_path: Path
) -> None:
    """It asks once, and says what is the matter in its own words; after a 402 it waited, and asked five times more."""
    with running(tmp_path, "--access-log", secluded=secluded) as gateway:
        codex = Codex(gateway, packages, home, project)
        codex.set_up(provider)
        told = codex.fail("sim:quota")
        log = gateway.stop()

    assert told == "Quota exceeded. Check your plan and billing details."
    assert log.count("POST /v1/responses 429") == 1, log


@pytest.mark.parametrize("provider", ["", WEBSOCKET], ids=["http", "websocket"])
def test_a_silence_that_is_longer_than_its_patience(
    provider: str, packages: Path, home: Path, project: Path, secluded: bool, tmp_path: Path
) -> None:
    """Signs of life are events, on which its idle timer begins anew: it asks once."""
    impatient = f"stream_idle_timeout_ms = 1500\nstream_max_retries = 0\n{provider}"
    lively = {"KIRO_ASGI__STREAM__HEARTBEAT": "0.5", "KIRO_ASGI__STREAM__EARLY_COMMIT_AFTER": "0.5"}
    with running(tmp_path, secluded=secluded, **lively) as gateway:
        codex = Codex(gateway, packages, home, project)
        codex.set_up(impatient)
        (item,) = codex.ask("sim:late=4")

    assert item["text"] == "This is a simulated answer,"


@pytest.mark.parametrize("provider", ["", WEBSOCKET], ids=["http", "websocket"])
def test_compaction_at_the_server(
    provider: str, packages: Path, home: Path, project: Path, secluded: bool, tmp_path: Path
) -> None:
    """A provider that says that it compacts is asked for it, and the conversation goes on from what it has sealed."""
    short = ("--config", "model_auto_compact_token_limit=50")
    with running(tmp_path, "--access-log", secluded=secluded) as gateway:
        codex = Codex(gateway, packages, home, project)
        codex.set_up(f'{provider}capabilities = {{ remote_compaction = "v2" }}\n')
        codex.ask("sim:text", *short)
        (last,) = codex.ask("sim:text", *short, "resume", "--last")
        log = gateway.stop()

    assert last["text"] == "This is a simulated answer, and it is streamed in small pieces."
    (kept,) = codex.settings.glob("sessions/**/*.jsonl")
    records = kept.read_text("utf-8")
    assert "compacted" in [json.loads(line)["type"] for line in records.splitlines()], log
    assert "kac1." in records, log
