"""An upstream from outside, the example of the pages, as an installed package: like a built-in one everywhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.asgi.driver import post
from tests.cli.processes import command, serving
from tests.conformance import river as service_of
from tests.conformance.asked import EACH_API, EACH_WAY, Seen, ask
from tests.conformance.clients import Clients
from tests.conformance.gateways import KEY, Gateway
from tests.conformance.river import EXAMPLE, River, installed

TEXT = "".join(service_of.WORDS)
TOOLS = {"measure": {"type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]}}
FAILURES = (openai.APIError, anthropic.APIError)


@pytest.fixture(scope="module")
def river() -> Iterator[River]:
    with service_of.river() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("river"))


@pytest.fixture(scope="module")
def known(river: River) -> dict[str, str]:
    """The settings of a gateway that has nothing but River."""
    return {
        "KIRO_ASGI__CLIENT__API_KEYS": KEY,
        "KIRO_ASGI__RIVER__ENDPOINT": river.url,
        "KIRO_ASGI__RIVER__API_KEY": service_of.KEY,
        "KIRO_ASGI__RIVER__TONE": "formal",
        "KIRO_ASGI__RETRY__CAPACITY_BASE": "0.01",
        "KIRO_ASGI__RETRY__BASE": "0.01",
        "KIRO_ASGI__RETRY__REFUSED_BASE": "0",
        "KIRO_ASGI__RETRY__QUOTA_PROBE": "0",
    }


@pytest.fixture(scope="module")
def outside(folder: Path, known: dict[str, str]) -> Iterator[Gateway]:
    with serving("--log-level", "critical", cwd=folder, **known) as server:
        assert "Services:           river" in server.announced
        yield Gateway(server.base)


def asked(clients: Clients, gateway: Gateway, api: str, content: Any, stream: bool, **more: Any) -> Seen:
    return ask(clients, gateway, api, content, stream=stream, model="brook", **more)


@EACH_WAY
@EACH_API
def test_it_answers(clients: Clients, outside: Gateway, river: River, api: str, stream: bool) -> None:
    """Text and thinking arrive through the official clients, and the settings of its own reach the service."""
    seen = asked(clients, outside, api, "Say hello", stream)

    assert seen.text == TEXT
    assert api == "messages" or seen.thinking in ("Hm.", "")
    assert seen.stop in ("end_turn", "stop", "completed")
    assert (river.asked[-1]["model"], river.asked[-1]["tone"]) == ("brook", "formal")
    assert river.asked[-1]["lines"] == [{"who": "user", "text": "Say hello"}]


@EACH_WAY
@EACH_API
def test_it_calls_tools(clients: Clients, outside: Gateway, river: River, api: str, stream: bool) -> None:
    """A call, and an answer that is cut at its length, mean the same as from every other service."""
    seen = asked(clients, outside, api, "Please call", stream, tools=TOOLS)
    long = asked(clients, outside, api, "Be long", stream)

    assert seen.calls == (("measure", {"where": "bridge"}),)
    assert seen.stop in ("tool_use", "tool_calls", "completed")
    assert (long.text, long.stop in ("max_tokens", "length", "max_output_tokens")) == ("On and", True)
    assert river.asked[-2]["tools"] == [{"name": "measure", "about": "d", "input": TOOLS["measure"]}]


@EACH_WAY
@EACH_API
@pytest.mark.parametrize(
    ("word", "status", "words"),
    [
        ("unpaid", 402, "pay first (HTTP 402)"),
        ("denied", 502, "not for you (HTTP 403)"),
        ("faulty", 400, "no such tone (HTTP 400)"),
        ("busy", 503, "too many boats"),
    ],
)
def test_refusals_before_the_answer_have_their_status(
    clients: Clients, outside: Gateway, api: str, stream: bool, word: str, status: int, words: str
) -> None:
    """Also one that comes as the first line of an answer."""
    with pytest.raises(FAILURES) as caught:
        asked(clients, outside, api, f"Be {word}", stream)

    own = {("messages", 503): 529, ("responses", 402): 429}
    assert getattr(caught.value, "status_code", None) == own.get((api, status), status)
    assert words in str(caught.value)


@EACH_API
@pytest.mark.parametrize(("word", "words"), [("breaks", "the pump stopped"), ("cut", "ended in the middle")])
def test_errors_within_the_answer_are_told_in_the_stream(
    clients: Clients, outside: Gateway, api: str, word: str, words: str
) -> None:
    """A failure behind text is the API's own error event."""
    with pytest.raises(FAILURES) as caught:
        asked(clients, outside, api, f"It {word}", True)
    assert words in str(caught.value)


@EACH_API
def test_errors_within_a_collected_answer_are_tried_again_and_told(
    clients: Clients, outside: Gateway, api: str
) -> None:
    """Nothing was sent yet."""
    with pytest.raises(FAILURES) as caught:
        asked(clients, outside, api, "It breaks", False)

    assert getattr(caught.value, "status_code", None) == 502
    assert "the pump stopped" in str(caught.value)


def test_its_models_are_listed(chat: openai.OpenAI, clients: Clients, outside: Gateway) -> None:
    """By its own list, with its name as the owner."""
    assert [(model.id, model.owned_by) for model in clients.openai(outside).models.list()] == [
        ("stream", "river"),
        ("brook", "river"),
    ]


@EACH_API
def test_a_rule_of_its_own_refuses_with_the_place(clients: Clients, outside: Gateway, api: str) -> None:
    """An image is refused before it costs a call."""
    parts = {
        "messages": {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
        "chat": {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
        "responses": {"type": "input_image", "image_url": "https://x.example/a.png"},
    }
    with pytest.raises(FAILURES) as caught:
        asked(clients, outside, api, [{"role": "user", "content": [parts[api]]}], False)

    assert getattr(caught.value, "status_code", None) == 400
    assert "not supported: images and documents" in str(caught.value)
    assert "content[0]" in str(caught.value)


def test_the_command_knows_it(folder: Path, known: dict[str, str], tmp_path: Path) -> None:
    """``check``, ``explain`` and ``doctor`` show it with its settings, rules and models, and no secret."""
    checked = command("check", "--json", cwd=folder, **known)
    rows = {row["path"]: row for row in json.loads(checked.stdout)["settings"]}
    assert (rows["river.tone"]["value"], rows["river.tone"]["source"]) == ("formal", "KIRO_ASGI__RIVER__TONE")
    assert service_of.KEY not in checked.stdout

    request = tmp_path / "request.json"
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]}
    messages = [{"role": "user", "content": "Hi"}, thought, {"role": "user", "content": "Again"}]
    request.write_text(json.dumps({"model": "river/brook", "max_tokens": 9, "messages": messages}))
    explained = json.loads(command("explain", "--json", str(request), cwd=folder, **known).stdout)
    assert (explained["upstream"], explained["payload"]["tone"]) == ("river", "formal")
    assert [(row["rule"], row["place"]) for row in explained["rules"]] == [("thinking.dropped", "messages[1]")]

    examined = json.loads(command("doctor", "--json", cwd=folder, **known).stdout)
    findings = {finding["name"]: finding for finding in examined["findings"]}
    assert findings["river models"]["detail"] == "stream, brook"
    assert findings["river request"]["detail"].startswith("brook: first event after")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"KIRO_ASGI__RIVER__TONE": "rude"}, "KIRO_ASGI__RIVER__TONE: must be one of plain, formal, not 'rude'"),
        (
            {"KIRO_ASGI__RIVER__TONNE": "plain"},
            "KIRO_ASGI__RIVER__TONNE: no such setting; did you mean KIRO_ASGI__RIVER__TONE?",
        ),
        ({"KIRO_ASGI__RIVER__MODEL_ALIASES": "a=b,a=c"}, "river.model_aliases"),
        ({"KIRO_ASGI__ROUTING__DEFAULT": "gemini"}, "no upstream is set up by the name of gemini"),
    ],
)
def test_mistakes_in_its_settings_are_told_like_others(
    folder: Path, known: dict[str, str], more: dict[str, str], words: str
) -> None:
    """By ``check``, with the name of the variable."""
    checked = command("check", cwd=folder, **{**known, **more})

    assert checked.returncode == 1
    assert f"problem: {words}" in checked.stderr or words in checked.stderr


def test_a_broken_package_stops_only_who_uses_it(tmp_path: Path) -> None:
    """``check`` names the table, the entry point and the package; without the table all is well."""
    folder = installed(tmp_path, "absent_module:RIVER")
    well = {"KIRO_ASGI__CLIENT__API_KEYS": "k", "KIRO_API_KEY": "ksk_x"}

    broken = command("check", cwd=folder, **well, KIRO_ASGI__RIVER__TONE="plain")
    assert broken.returncode == 1
    assert "problem: river: the entry point absent_module:RIVER of river-kiro-asgi 1.0 cannot be" in broken.stderr
    assert command("check", cwd=folder, **well).returncode == 0


SIGN_IN = """
from attrs import evolve
from river_upstream import RIVER

def add_arguments(parser):
    parser.add_argument("--who")

def run(arguments, environ):
    print(arguments.who, "is signed in", arguments.config)
    return 0

RIVER = evolve(RIVER, login="river_sign_in")
"""

MISNAMED = """
from attrs import evolve
from river_upstream import RIVER

RIVER = evolve(RIVER, login="river_sign_in:NOWHERE", doctor="river_doctor:Doctor")
"""


def test_who_has_a_sign_in_is_signed_in_to_by_name(folder: Path, tmp_path: Path) -> None:
    """``login NAME`` has the options of the upstream's own module; without one, it says so."""
    signing = installed(tmp_path, "river_sign_in:RIVER")
    (signing / "river_sign_in.py").write_text(SIGN_IN)

    done = command("login", "river", "--who", "Ann", "--config", "c.toml", cwd=signing)
    assert (done.returncode, done.stdout) == (0, "Ann is signed in c.toml\n")
    refused = command("login", "river", cwd=folder)
    assert refused.returncode == 2
    assert refused.stderr.endswith("error: River has no sign-in; set its key instead\n")


def test_a_command_that_its_manifest_misnames_is_told_with_both_names(known: dict[str, str], tmp_path: Path) -> None:
    """``login`` refuses to run; ``doctor`` has a finding, and goes on."""
    folder = installed(tmp_path, "river_sign_in:RIVER")
    (folder / "river_sign_in.py").write_text(MISNAMED)

    refused = command("login", "river", cwd=folder)
    assert refused.returncode == 2
    words = "the manifest of the upstream 'river' has login = 'river_sign_in:NOWHERE', which cannot be imported: "
    assert f"error: {words}AttributeError: " in refused.stderr

    examined = command("doctor", "--json", cwd=folder, **known)
    findings = {finding["name"]: finding for finding in json.loads(examined.stdout)["findings"]}
    assert (examined.returncode, findings["river doctor"]["verdict"]) == (1, "fail")
    assert findings["river doctor"]["detail"].startswith(
        "the manifest of the upstream 'river' has doctor = 'river_doctor:Doctor', which cannot be imported: "
    )


@pytest.mark.anyio
async def test_a_program_hands_it_over(
    river: River, anyio_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On both loops, with settings from a mapping, and without anything installed."""
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    monkeypatch.delitem(sys.modules, "river_upstream", raising=False)
    from river_upstream import RIVER  # type: ignore[import-not-found]

    from kiro_asgi import create_app

    settings = {
        "client": {"allow_anonymous": True},
        "river": {"endpoint": river.url, "api_key": service_of.KEY},
    }
    app = create_app(settings, upstreams=[RIVER])
    body = {"model": "stream", "messages": [{"role": "user", "content": "Say hello"}]}
    answer = await post("/v1/chat/completions", body).run(app)
    await app.aclose()

    assert answer.json()["choices"][0]["message"]["content"] == TEXT
    assert river.asked[-1]["tone"] == "plain"
