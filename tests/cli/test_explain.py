"""``kiro-asgi explain`` shows what becomes of a request."""

from __future__ import annotations

import argparse
import json
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from kiro_asgi import ConfigError, simulator
from kiro_asgi.asgi.exchange.providers import keyed, new_providers
from kiro_asgi.cli import explain
from kiro_asgi.config import Settings
from kiro_asgi.net.clocks import Clocks
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
    return [line[3:] for line in lines[start:end] if line.strip() != "…"]


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


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_service_is_asked(explained: Any) -> None:
    """Not for its models either: the command says that it sends nothing, and has no real key to send."""
    async with simulator.serve() as service:
        environ = {"KIRO_ASGI__KIRO__ENDPOINT": service.url, "KIRO_ASGI__KIRO__API_KEY": "ksk_real"}
        status, _ = await anyio.to_thread.run_sync(partial(explained, REQUEST.read_bytes(), **environ))
        asking = [each for each in threading.enumerate() if "asking" in each.name]
        for each in asking:
            await anyio.to_thread.run_sync(each.join)

        assert (status, asking, [*service.requests]) == (0, [], [])


@pytest.mark.parametrize("upstream", ["gemini", "anthropic"])
def test_the_page_shows_other_upstreams(upstream: str, explained: Any) -> None:
    """One that needs rules, and one whose API the request is for."""
    status, output = explained(REQUEST.read_bytes(), "--upstream", upstream)
    expected = shown("how-to/explain.rst", f"--upstream {upstream} request.json")

    assert (status, output.splitlines()[: len(expected)]) == (0, expected)


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


def test_a_request_with_input_is_a_responses_request(explained: Any) -> None:
    """It has no messages, and is shown like the others."""
    body = b'{"model": "claude-sonnet-4.5", "input": "hi"}'
    status, told = explained(body)
    assert (status, "openai_responses" in told) == (0, True)


UPSTREAMS = ("kiro", "anthropic", "openai", "gemini")
LONG = "QUJD" * 300
"""Base64."""

ATTACHING = {
    "anthropic": [
        {"type": "text", "text": "x"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG + "A"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x" + LONG}},
    ],
    "openai_chat": [
        {"type": "text", "text": "x"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}A"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,JVBERi0x{LONG}"}},
    ],
}
"""The same in the words of each API."""


def asked(model: str, api: str = "openai_chat", **more: Any) -> bytes:
    """A request with attachments."""
    limit = {"max_tokens": 9} if api == "anthropic" else {}
    return json.dumps(
        {"model": model, "messages": [{"role": "user", "content": ATTACHING[api]}], **limit, **more}
    ).encode()


@pytest.mark.parametrize("api", ATTACHING)
@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("relay", ["auto", "never"])
def test_every_api_is_explained_for_every_upstream(relay: str, upstream: str, api: str, explained: Any) -> None:
    """Without credential and settings; no attachment is shown, and every rule is one of that upstream's."""
    body = asked("m", api, top_k=4) if api == "anthropic" else asked("m", api)
    output = explained(body, "--json", "--upstream", upstream, "--api", api, KIRO_ASGI__STREAM__RELAY=relay)[1]
    report = json.loads(output)
    spoken = {"anthropic": "anthropic", "openai": "openai_chat"}.get(upstream)
    known = {rule.name for rule in new_providers(keyed(Settings(), "k"), Clocks(), ())[upstream].setup.rules}

    assert (report["ok"], report["upstream"]) == (True, upstream)
    assert report["as_it_is"] == (relay == "auto" and api == spoken)
    assert {row["rule"] for row in report["rules"]} <= known
    assert "AAAA" not in output
    assert "QUJDQUJD" not in output
    assert output.count("characters of base64") == 2


def test_a_request_that_goes_through_has_another_model_at_most(explained: Any) -> None:
    """Its own members are there, those that no upstream knows as well."""
    body = asked("openai/GPT-4o", surprise={"x": None})
    settings = {"KIRO_ASGI__OPENAI__API_KEY": "sk-x"}
    report = json.loads(explained(body, "--json", **settings)[1])

    assert (report["as_it_is"], report["upstream"], report["hint"]) == (True, "openai", "")
    assert (report["rules"], report["tool_names"]) == ([], {})
    assert report["payload"]["model"] == report["model"] == "gpt-4o"
    assert report["payload"]["surprise"] == {"x": None}
    assert [*report["payload"]] == [*json.loads(body)]


EVERYTHING = {
    "KIRO_API_KEY": "ksk_x",
    "KIRO_ASGI__GEMINI__API_KEY": "goo",
    "KIRO_ASGI__OPENAI__API_KEY": "sk-x",
    "KIRO_ASGI__CUSTOM__LOCAL__ENDPOINT": "http://127.0.0.1:9/v1",
    "KIRO_ASGI__ROUTING__MODELS": "fast=local/qwen3>gemini/gemini-2.5-flash,gpt-5*=gemini/gemini-2.5-pro",
}


@pytest.mark.parametrize(
    ("name", "upstream", "model", "built_in"),
    [
        pytest.param("gemini/gemini-2.5-flash", "gemini", "gemini-2.5-flash", True, id="prefix"),
        pytest.param("local/qwen3", "local", "qwen3", False, id="custom-prefix"),
        pytest.param("fast", "local", "qwen3", False, id="table"),
        pytest.param("gpt-5.1", "gemini", "gemini-2.5-pro", True, id="pattern"),
        pytest.param("gpt-4o", "openai", "gpt-4o", True, id="list"),
        pytest.param("claude-sonnet-4-5", "kiro", "claude-sonnet-4.5", True, id="first-list"),
        pytest.param("nobody-knows", "openai", "nobody-knows", False, id="default"),
        pytest.param("anthropic/claude-x", "openai", "anthropic/claude-x", False, id="prefix-of-none"),
    ],
)
def test_the_upstream_is_the_one_that_would_be_asked(
    name: str, upstream: str, model: str, built_in: bool, explained: Any
) -> None:
    """By prefix, by the table, by what is built in, else the default; nobody is asked for a list."""
    settings = {**EVERYTHING, "KIRO_ASGI__ROUTING__DEFAULT": "openai"}
    report = json.loads(explained(asked(name), "--json", **settings)[1])

    assert (report["upstream"], report["model"], report["built_in"]) == (upstream, model, built_in)


def test_a_credential_is_not_looked_at(explained: Any) -> None:
    """A file that is missing is the doctor's business."""
    settings = {"KIRO_ASGI__KIRO__CREDENTIALS_FILE": "/nowhere/token.json", "KIRO_ASGI__GEMINI__API_KEY": "goo"}

    assert explained(asked("claude-sonnet-4.5"), **settings)[0] == 0


def test_an_upstream_that_is_not_set_up(explained: Any) -> None:
    """Whoever writes its prefix is told so, and how to see what it would be asked; the prefix is no part of a name."""
    plain = explained(asked("gemini/gemini-2.5-flash"))[1]
    named = explained(asked("gemini/gemini-2.5-flash"), "--upstream", "gemini")[1]

    assert "The upstream gemini is not set up. To see what it would be asked: --upstream gemini" in plain
    assert "upstream: gemini   model: gemini-2.5-flash" in named
    assert "The upstream gemini is not set up: the gateway would not ask it." in named


def test_an_upstream_that_nobody_has(explained: Any) -> None:
    """A mistake on the command line, not a refusal of the request."""
    with pytest.raises(ConfigError, match="by the name of nobody; there are kiro, anthropic, openai, gemini"):
        explained(REQUEST.read_bytes(), "--upstream", "nobody")


def test_what_is_not_base64_is_shown(explained: Any) -> None:
    """Addresses and texts are no attachments, however long."""
    text = "x" * 300
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": f"https://example.org/{text}"}}]
    body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": parts}]}).encode()
    output = explained(body, "--upstream", "openai")[1]

    assert output.count(text) == 2
