"""``kiro-asgi explain`` shows what becomes of a request."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi.cli import explain
from kiro_asgi.cli.explain import guess
from tests.cli.processes import PREFIX, clean_environment, command

DOCS = Path(__file__).parent.parent.parent / "docs"
REQUEST = DOCS / "examples" / "request.json"
PNG = "iVBORw0KGgo" + "A" * 1000
ASKED = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}


def shown(page: str, arguments: str) -> list[str]:
    """The lines that a page shows for the command."""
    lines = (DOCS / page).read_text("utf-8").splitlines()
    start = lines.index(f"   $ kiro-asgi explain {arguments}") + 1
    end = next(index for index, line in enumerate(lines) if index > start and line and not line.startswith("   "))
    return [line[3:] for line in lines[start:end]]


@pytest.fixture
def explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command on a body: status and what it printed."""

    def run(body: bytes, *arguments: str, **environ: str) -> tuple[int, str]:
        (tmp_path / "request.json").write_bytes(body)
        parser = argparse.ArgumentParser()
        explain.add_arguments(parser)
        status = explain.run(parser.parse_args([*arguments, str(tmp_path / "request.json")]), environ)
        return status, capsys.readouterr().out

    return run


def test_the_page_shows_what_the_command_prints(explained: Any) -> None:
    """Real output: the table, what was lost and the sizes stand in the page as they are printed."""
    status, output = explained(REQUEST.read_bytes())
    expected = shown("how-to/explain.rst", "request.json")

    assert status == 0
    assert output.splitlines()[: len(expected)] == expected
    payload = json.loads(output[output.index("\n{") :])
    assert payload["conversationState"]["currentMessage"]["userInputMessage"]["modelId"] == "claude-sonnet-4.5"


def test_a_refusal_ends_with_1_and_names_rule_and_place(explained: Any) -> None:
    """What the page shows for a request that is too large."""
    status, output = explained(REQUEST.read_bytes(), "--model-window", "20")
    expected = [line for line in shown("how-to/explain.rst", "--model-window 20 request.json") if line]

    assert (status, output.splitlines()) == (1, expected)


def test_standard_input_and_a_missing_file(tmp_path: Path) -> None:
    """As a user runs it: ``-`` is a pipe, and a wrong path is a line on standard error, not a traceback."""
    piped = subprocess.run(
        [*PREFIX, "explain", "--json", "-"],
        input=REQUEST.read_text("utf-8"),
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    missing = command("explain", "none.json", cwd=tmp_path)

    assert (piped.returncode, piped.stderr, json.loads(piped.stdout)["ok"]) == (0, "", True)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "none.json: No such file" in missing.stderr


def test_json_is_for_programs_and_settings_count(explained: Any) -> None:
    """The settings of the environment, images elided, names that changed."""
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}A"}}
    tool = {"type": "function", "function": {"name": "a.b", "parameters": {"pattern": "x"}}}
    body = {"model": "kiro", "messages": [{"role": "user", "content": [image]}], "tools": [tool]}
    off = {"KIRO_ASGI__KIRO__RULES_OFF": "schema.keywords"}
    status, output = explained(json.dumps(body).encode(), "--json", **off)
    report = json.loads(output)
    rules = ["tools.renamed", "schema.root", "tools.undescribed", "content.filled"]

    assert (status, report["ok"], report["api"], report["model"]) == (0, True, "openai_chat", "kiro")
    assert [row["rule"] for row in report["rules"]] == rules
    assert list(report["tool_names"].values()) == ["a.b"]
    assert report["sizes"]["images"] == 1
    assert "AAAA" not in output


@pytest.mark.parametrize(
    ("name", "model", "built_in", "fields"),
    [
        ("claude-opus-4-8-high", "claude-opus-4.8", True, {"effort": "high"}),
        ("Best", "claude-opus-4.8", True, {"effort": "low"}),
        ("gpt-4o", "gpt-4o", False, None),
    ],
)
def test_the_name_of_the_model_is_read_as_the_gateway_reads_it(
    name: str, model: str, built_in: bool, fields: Any, explained: Any
) -> None:
    """An alias stands for its model, an effort in a name is asked for, and a model that nobody knows is told of."""
    body = json.dumps({**ASKED, "model": name}).encode()
    aliases = {"KIRO_ASGI__KIRO__MODEL_ALIASES": "best=claude-opus-4.8-low"}
    report = json.loads(explained(body, "--json", **aliases)[1])

    assert (report["model"], report["built_in"]) == (model, built_in)
    assert report["payload"].get("additionalModelRequestFields", {}).get("output_config") == fields
    assert ("This model is not built in" in explained(body, **aliases)[1]) is not built_in


@pytest.mark.parametrize("body", [b'{"model": "m"}', b"[]", b'"x"', b"{"])
def test_what_no_api_takes_is_refused(body: bytes, explained: Any) -> None:
    """A body that the API itself refuses is told like any other refusal."""
    status, output = explained(body, "--json")

    assert (status, json.loads(output)["ok"]) == (1, False)
    assert json.loads(output)["error"]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param({}, "anthropic", id="max-tokens"),
        pytest.param({"max_tokens": 1, "tools": [{"name": "f", "input_schema": {}}]}, "anthropic", id="input-schema"),
        pytest.param({"tools": [{"type": "function", "function": {"name": "f"}}]}, "openai_chat", id="function"),
        pytest.param({"stream_options": {}}, "openai_chat", id="member"),
        pytest.param({"messages": [{"role": "system", "content": "x"}]}, "openai_chat", id="system-message"),
        pytest.param({"messages": [{"role": "system", "content": "x"}], "system": "y"}, "anthropic", id="both"),
        pytest.param({"messages": [{"role": "assistant", "tool_calls": []}]}, "openai_chat", id="calls"),
        pytest.param({"messages": "x", "tools": 3}, "anthropic", id="malformed"),
    ],
)
def test_the_api_is_guessed(members: dict[str, Any], expected: str) -> None:
    """A Chat Completions request shows itself; what does not, and has ``max_tokens``, is a Messages request."""
    assert guess(json.dumps({**ASKED, **members}).encode()) == expected


def test_a_request_with_input_is_a_responses_request(explained: Any) -> None:
    """It has no messages, and is shown like the others."""
    body = b'{"model": "claude-sonnet-4.5", "input": "hi"}'
    assert guess(body) == "openai_responses"
    status, told = explained(body)
    assert (status, "openai_responses" in told) == (0, True)


def test_without_max_tokens_it_is_no_messages_request() -> None:
    """The member is required there."""
    assert guess(b'{"model": "m", "messages": []}') == "openai_chat"
