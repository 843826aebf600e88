"""``kiro-asgi check`` tells what is in effect, and whether it would do."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.processes import command
from tests.cli.test_readiness import NO_SERVICE

GOOD = {"KIRO_API_KEY": "ksk_canary-51c0", "KIRO_ASGI__CLIENT__API_KEYS": "canary-8b2f,canary-9d3e"}


def test_shows_every_setting_with_its_source_and_no_secret(tmp_path: Path) -> None:
    """R28: keys are masked; everything else is shown with the place it comes from."""
    (tmp_path / "gateway.toml").write_text("[stream]\nheartbeat = 5\n")
    done = command("check", "--all", "--config", "gateway.toml", cwd=tmp_path, **GOOD)
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if "." in line.split(" ")[0]}

    assert (done.returncode, done.stderr) == (0, "")
    assert rows["stream.heartbeat"] == ["5", "gateway.toml:", "stream.heartbeat"]
    assert rows["kiro.region"] == ["us-east-1", "default"]
    assert rows["kiro.api_key"] == ["***", "(15", "characters)", "KIRO_API_KEY"]
    assert "canary" not in done.stdout


def test_shows_what_is_set_and_counts_the_rest(tmp_path: Path) -> None:
    """A reader sees at once what is not as usual; ``--all`` shows the others behind it."""
    done = command("check", cwd=tmp_path, **GOOD)
    rows = [line.split("  ")[0] for line in done.stdout.splitlines()]

    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(rows[:2]) == ["client.api_keys", "kiro.api_key"]
    assert re.fullmatch(r"\d+ settings have their defaults; --all shows them\.", rows[2])
    assert rows[3:] == ["The gateway would start with these settings."]


def test_a_problem_names_the_variables_of_the_settings_that_it_names(tmp_path: Path) -> None:
    """It comes first, with what to write where; those that the sentence has already are not said twice."""
    done = command("check", cwd=tmp_path, KIRO_ASGI__CLIENT__ALLOW_ANONYMOUS="1")

    assert done.stderr.splitlines() == [
        f"problem: {NO_SERVICE}",
        "    -> in the environment: KIRO_ASGI__ANTHROPIC__API_KEY, KIRO_ASGI__OPENAI__API_KEY, "
        "KIRO_ASGI__GEMINI__API_KEY, KIRO_ASGI__BEDROCK__API_KEY, KIRO_ASGI__CUSTOM__NAME__ENDPOINT",
    ]


def test_json_is_for_programs(tmp_path: Path) -> None:
    """The same as one object."""
    done = command("check", "--json", cwd=tmp_path, KIRO_ASGI__LIMITS__QUEUE="7", **GOOD)
    report = json.loads(done.stdout)

    assert (done.returncode, report["ok"], report["problems"]) == (0, True, [])
    assert {
        "path": "limits.queue",
        "value": "7",
        "source": "KIRO_ASGI__LIMITS__QUEUE",
        "env": "KIRO_ASGI__LIMITS__QUEUE",
    } in report["settings"]
    assert "canary" not in done.stdout


def test_says_that_it_is_simulated(tmp_path: Path) -> None:
    """No key and no credential is a problem then, and nobody takes made-up answers for real ones."""
    done = command("check", cwd=tmp_path, KIRO_ASGI__SIMULATE="true")
    outputs = [command("check", "--json", cwd=tmp_path, KIRO_ASGI__SIMULATE=it, **GOOD).stdout for it in "10"]

    assert (done.returncode, done.stderr) == (0, "")
    assert "Simulated: no service would be asked, and all answers would be made up." in done.stdout
    assert [json.loads(output)["simulated"] for output in outputs] == [True, False]


def test_lists_every_problem_and_ends_with_1(tmp_path: Path) -> None:
    """What cannot be read is listed whole, in text and in JSON."""
    bad = {**GOOD, "KIRO_ASGI__LIMITS__QUEUE": "many", "KIRO_ASGI__KIRO__REGOIN": "us-east-1"}
    expected = [
        "KIRO_ASGI__KIRO__REGOIN: no such setting; did you mean KIRO_ASGI__KIRO__REGION?",
        "KIRO_ASGI__LIMITS__QUEUE: must be a whole number, not 'many'",
    ]
    text = command("check", cwd=tmp_path, **bad)
    report = command("check", "--json", cwd=tmp_path, **bad)

    assert (text.returncode, text.stderr.splitlines()) == (1, [f"problem: {line}" for line in expected])
    assert text.stdout == "The gateway would not start: 2 problems, see above.\n"
    assert (report.returncode, json.loads(report.stdout)["problems"]) == (1, expected)


def test_settings_that_could_not_serve_anybody_are_a_problem(tmp_path: Path) -> None:
    """R37: without keys and without an explicit opt-out nothing starts, and so says the check."""
    done = command("check", cwd=tmp_path, KIRO_API_KEY="ksk_1")

    assert done.returncode == 1
    assert "client.api_keys" in done.stderr


def test_a_service_without_a_credential_is_a_problem(tmp_path: Path) -> None:
    """A gateway that cannot ask would fail at its first request; better now."""
    done = command("check", cwd=tmp_path, KIRO_ASGI__CLIENT__ALLOW_ANONYMOUS="1")

    assert done.returncode == 1
    assert "KIRO_API_KEY" in done.stderr or "kiro.api_key" in done.stderr
