"""Every rule has a case in which it has something to do, says so and where, and leaves things alone when it is off."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve, field, frozen

from kiro_asgi.errors import ConfigError, ContextTooLong, RequestError
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Prompt,
    Role,
    Sampling,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolChoiceMode,
    Turn,
)
from kiro_asgi.model.rules import Loss
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro.rules import RULES, TABLE
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.upstreams.kiro.prompts import GPT, NATIVE, PLAIN, PNG, ask, assistant, call, current, rendered, result, user

DARK = ModelCard("glm-5", images=False)
PDF = Document("application/pdf", "JVBERi0=", title="A title", place="messages[0].content[1]")
IMAGE = Image("image/png", PNG, place="messages[0].content[1]")
OBJECT = {"type": "object", "properties": {"x": {"type": "string"}}}
F = Tool("f", "Does f.", OBJECT, place="tools[0]")
NONE = ToolChoice(ToolChoiceMode.NONE)
ROUND = (user("x"), assistant(call()), user(result("c1", "r")))
TOOL_CHOICE = ToolChoice(ToolChoiceMode.REQUIRED)


@frozen
class Case:
    """A prompt that a rule has something to do with."""

    prompt: Prompt
    place: str = ""
    model: ModelCard = PLAIN
    settings: dict[str, Any] = field(factory=dict)
    times: int = 1


def schema(**members: Any) -> Prompt:
    return ask(user("x"), tools=(evolve(F, schema={**OBJECT, **members}),))


def deep(levels: int) -> dict[str, Any]:
    return {"items": deep(levels - 1)} if levels else {"type": "string"}


REFUSED = {
    "tools.choice_unknown": Case(ask(user("x"), tool_choice=ToolChoice(ToolChoiceMode.NAMED, "g")), "tool_choice"),
    "images.model": Case(ask(user("x", IMAGE)), IMAGE.place, DARK),
    "images.address": Case(ask(user("x", evolve(IMAGE, data="", url="http://169.254.169.254/"))), IMAGE.place),
    "images.size": Case(ask(user("x", evolve(IMAGE, data="iVBORw0KGgoA" + "A" * 14_000_000))), IMAGE.place),
    "images.format": Case(ask(user("x", evolve(IMAGE, media_type="image/tiff", data="SUkqAA=="))), IMAGE.place),
    "documents.address": Case(ask(user("x", evolve(PDF, data="", url="http://127.0.0.1/"))), PDF.place),
    "documents.format": Case(ask(user("x", evolve(PDF, media_type="application/zip"))), PDF.place),
    "size.message": Case(ask(user("x"), assistant("y"), user("x" * 600_001)), "messages[2]", NATIVE),
    "size.result": Case(ask(user("x"), assistant(call()), user(result("c1", "x" * 800_001))), "messages[2]", NATIVE),
    "size.payload": Case(
        ask(user("x" * 100), assistant("y"), user("z")), "messages[0]", settings={"payload_bytes": 90}
    ),
}
"""Rules that refuse, with the place that they name."""

NOTED = {
    "tools.duplicate_dropped": Case(
        ask(user("x"), tools=(F, evolve(F, description="2", place="tools[1]"))), "tools[1]"
    ),
    "tools.withheld": Case(ask(user("x"), tools=(F,), tool_choice=NONE), "tools[0]"),
    "tools.stubbed": Case(ask(*ROUND), "messages[1]"),
    "tools.renamed": Case(ask(user("x"), tools=(F, evolve(F, name="F", place="tools[1]"))), "tools[1]"),
    "tools.undescribed": Case(ask(user("x"), tools=(evolve(F, description=" "),)), "tools[0]"),
    "tools.description_moved": Case(ask(user("x"), tools=(F,)), "tools[0]", settings={"description_limit": 3}),
    "schema.depth": Case(schema(items=deep(40)), "tools[0]"),
    "schema.keywords": Case(schema(additionalProperties=False, minProperties=1), "tools[0]"),
    "schema.malformed": Case(schema(properties={"x": True, "y": None}), "tools[0]"),
    "schema.required": Case(schema(required=["x", "y"]), "tools[0]"),
    "schema.reference": Case(
        ask(user("x"), tools=(evolve(F, schema={"$ref": "#/$defs/f", "$defs": {"f": OBJECT}}),)), "tools[0]"
    ),
    "schema.renamed": Case(schema(properties={"$x": {}}), "tools[0]"),
    "schema.combinators": Case(schema(anyOf=[{"properties": {"y": {}}}, {}]), "tools[0]"),
    "schema.root": Case(schema(type="string"), "tools[0]"),
    "text.unencodable": Case(ask(user("a\ud800b", "\udfff")), "messages[0]", times=2),
    "text.sanitized": Case(ask(user("a\x1b[1mb")), "messages[0]", settings={"sanitize_text": True}),
    "text.reminders_stripped": Case(
        ask(user("a<system-reminder>b</system-reminder>")), "messages[0]", settings={"strip_system_reminders": True}
    ),
    "images.limit": Case(ask(user("x", IMAGE, IMAGE, IMAGE)), IMAGE.place, settings={"max_images": 1}, times=2),
    "images.placed": Case(ask(user("x", IMAGE, "y", IMAGE)), IMAGE.place, times=2),
    "attachments.base64": Case(ask(user("x", evolve(IMAGE, data=f"{PNG[:12]}\n{PNG[12:]}"))), IMAGE.place),
    "images.mismatch": Case(ask(user("x", evolve(IMAGE, media_type="image/gif"))), IMAGE.place),
    "documents.inlined": Case(ask(user("x", evolve(PDF, media_type="text/plain", data="", text="words"))), PDF.place),
    "documents.renamed": Case(ask(user("x", PDF, PDF)), PDF.place, times=2),
    "turns.part_moved": Case(ask(user("x"), assistant("y", IMAGE), user("z")), "messages[1]"),
    "results.attachment_lifted": Case(ask(*ROUND[:2], user(result("c1", IMAGE))), IMAGE.place),
    "results.no_output": Case(ask(*ROUND[:2], user(result("c1", ""))), "messages[2]"),
    "calls.input_wrapped": Case(ask(user("x"), assistant(ToolCallPart("c1", "f", [1])), ROUND[2]), "messages[1]"),  # type: ignore[arg-type]
    "calls.empty_keys": Case(
        ask(user("x"), assistant(ToolCallPart("c1", "f", {"a": [{"": 1}]})), ROUND[2]), "messages[1]"
    ),
    "thinking.dropped": Case(
        ask(user("x"), assistant(ThinkingPart("hm", "sig"), "y"), user("z")),
        "messages[1]",
        settings={"replay_thinking": False},
    ),
    "thinking.unsigned_dropped": Case(ask(user("x"), assistant(ThinkingPart("hm"), "y"), user("z")), "messages[1]"),
    "thinking.malformed_dropped": Case(
        ask(user("x"), assistant(ThinkingPart(redacted="?"), ThinkingPart("", "sig"), "y"), user("z")),
        "messages[1]",
        times=2,
    ),
    "thinking.tags_dropped": Case(
        ask(user("x"), assistant("<thinking>\nhm</thinking>\n\ny"), user("z")), "messages[1]"
    ),
    "thinking.second_dropped": Case(
        ask(user("x"), assistant(ThinkingPart("a", "s"), ThinkingPart("b", "s"), "y"), user("z")), "messages[1]"
    ),
    "calls.duplicate_dropped": Case(ask(user("x"), assistant(call(), call()), ROUND[2]), "messages[1]"),
    "calls.id_changed": Case(ask(user("x"), assistant(call("a.b")), user(result("a.b", "r"))), "messages[1]"),
    "calls.id_repeated": Case(ask(*ROUND, *ROUND[1:]), "messages[3]"),
    "calls.unanswered": Case(ask(*ROUND[:2], user("never mind")), "messages[1]"),
    "results.orphan_to_text": Case(ask(user("x"), assistant("y"), user(result("c9", "r"))), "messages[2]"),
    "results.duplicate_dropped": Case(ask(*ROUND, assistant("y"), ROUND[2]), "messages[4]"),
    "results.duplicate_to_text": Case(ask(*ROUND, assistant("y"), user(result("c1", "s"))), "messages[4]"),
    "results.relocated": Case(ask(*ROUND[:2], user("wait"), assistant("y"), ROUND[2]), "messages[4]"),
    "results.ordered": Case(
        ask(user("x"), assistant(call("a"), call("b")), user(result("b", "2"), result("a", "1"))), "messages[2]"
    ),
    "turns.empty": Case(ask()),
    "turns.prefill": Case(ask(user("x"), assistant("y")), "messages[1]"),
    "turns.user_first": Case(ask(assistant("y"), user("x")), "messages[0]"),
    "turns.merged": Case(ask(user("x"), user("y"), user("z")), "messages[1]", times=2),
    "history.as_text": Case(ask(*ROUND), "messages[1]", settings={"tool_history": "text"}),
    "content.filled": Case(ask(user("x"), assistant(" "), user("z")), "messages[1]"),
    "thinking.tags": Case(ask(user("x"), thinking=Thinking(ThinkingMode.ENABLED))),
    "thinking.unavailable": Case(ask(user("x"), thinking=Thinking(effort="high"))),
    "thinking.effort": Case(ask(user("x"), thinking=Thinking(effort="minimal")), "", GPT),
    "sampling.max_tokens": Case(
        ask(user("x"), sampling=Sampling(1)),
        "max_tokens",
        evolve(PLAIN, options_schema={"properties": {"max_tokens": {}}}),
    ),
    "sampling.ignored": Case(ask(user("x"), sampling=Sampling(temperature=0.5)), "temperature"),
    "tools.choice_told": Case(ask(user("x"), tools=(F,), tool_choice=TOOL_CHOICE), "tool_choice"),
    "output.schema_instruction": Case(ask(user("x"), schema=OBJECT)),
    "system.exchange": Case(ask(user("x"), system=("Be brief.",)), "system"),
    "size.trimmed": Case(
        ask(user("x" * 500), assistant("y"), user("z"), assistant("y"), user("z")),
        "messages[0]",
        settings={"payload_bytes": 900, "trim_history": True},
    ),
}
"""Rules that adapt, with what they note."""

ADAPTATIONS = {"adapted.signatures", "adapted.stubs", "adapted.untagged", "adapted.as_text"}
UNSEEN = {"thinking.unavailable", "sampling.ignored", "turns.empty"}
"""Rules that say that nothing can be done, and one whose work another does where it is off."""


def test_every_rule_has_a_case() -> None:
    """A rule that no test sees is not there; names are unique and cannot be mistaken for another setting's."""
    assert {*REFUSED, *NOTED, *ADAPTATIONS} == {name for name in TABLE if not name.startswith("contract.")}
    assert len(TABLE) == len(RULES)


@pytest.mark.parametrize("name", NOTED)
def test_a_rule_notes_what_it_does_and_where(name: str) -> None:
    """The note has the name, how often, and the first place; what the rule is off for, it neither does nor notes."""
    case = NOTED[name]
    found = rendered(case.prompt, case.model, **case.settings)
    without = rendered(case.prompt, case.model, **_lenient(case.settings), rules_off=[name])

    assert [(note.times, note.place) for note in found.notes if note.rule == name] == [(case.times, case.place)]
    assert name not in [note.rule for note in without.notes]
    assert (found.document == without.document) == (name in UNSEEN)


def _lenient(settings: dict[str, Any]) -> dict[str, Any]:
    """*settings* under which nothing is refused for its size once it is not trimmed."""
    return {**settings, "payload_bytes": 0} if settings.get("trim_history") else settings


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_rule_and_place(name: str) -> None:
    """A client learns what to change; with the rule off the request is put together as it is."""
    case = REFUSED[name]
    with pytest.raises(RequestError) as caught:
        rendered(case.prompt, case.model, **case.settings)

    assert caught.value.param == case.place
    assert caught.value.code == ("context_too_long" if name.startswith("size.") else "unsupported_value")
    assert f"(rule {name})" in caught.value.message
    assert isinstance(caught.value, ContextTooLong) == name.startswith("size.")
    others = {"images.format", "images.size", "documents.format", "size.payload"} - {name}
    assert rendered(case.prompt, case.model, **case.settings, rules_off=(name, *others)).request.body


@pytest.mark.parametrize("data", ["", "no base64!", "QQ==QQ==", "Q", "ü"])
def test_what_is_no_base64_is_refused(data: str) -> None:
    """The service would only say that the request is improperly formed."""
    for part in (evolve(IMAGE, data=data), evolve(PDF, data=data or "=")):
        with pytest.raises(RequestError, match=r"rule attachments\.base64") as caught:
            rendered(ask(user("x", part)))
        assert caught.value.param == part.place


@pytest.mark.parametrize("data", ["iVBORw0KGgoA\niVBO\r\n", "iVBORw0KGgoAiVBO ", " iVBORw0KGgoAiVBO"])
def test_base64_is_written_plainly(data: str) -> None:
    """Line breaks go; the URL-safe alphabet and missing padding become what every decoder reads."""
    assert current(ask(user("x", evolve(IMAGE, data=data))))["images"][0]["source"]["bytes"] == "iVBORw0KGgoAiVBO"
    assert current(ask(user("x", evolve(IMAGE, data="_-8"))))["images"][0]["source"]["bytes"] == "/+8="


def test_unknown_names_are_refused_with_near_ones() -> None:
    """R27: a misspelt name is a mistake of the settings, not a rule that silently stays on."""
    with pytest.raises(ConfigError, match=r"'turns.merge'.*did you mean turns.merged"):
        KiroUpstream(settings=KiroSettings(rules_off=("turns.merge", "calls.unanswered")))


def test_rules_say_what_is_lost() -> None:
    """Refusing loses nothing, as nothing is sent."""
    assert {TABLE[name].loss for name in REFUSED} == {Loss.NONE}


def test_turns_know_their_places() -> None:
    """A place is told of a turn, and is no part of what makes turns equal."""
    assert Turn(Role.USER, (), "messages[1]") == Turn(Role.USER, ())
