"""What was written of a turn is written once, and is the same behind and before whatever turns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.prompt import Image, Prompt, Role, Text, ThinkingPart, Tool, ToolCallPart, ToolResult, Turn
from kiro_asgi.stages.estimate import TokenEstimator
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream

KEY = Credential(CredentialKind.API_KEY, "ksk_test")
MODELS = ModelCard("claude-sonnet-4.5", images=True), ModelCard("other", images=False)
ESTIMATOR = TokenEstimator()
PIXEL = "iVBORw0KGgo="


def kiro(**settings: Any) -> KiroUpstream:
    """The service, asked by these *settings*."""
    return KiroUpstream(settings=KiroSettings(**settings), new_id=lambda: "7f3c2a4e-0000-4000-8000-000000000000")


UPSTREAMS = (
    kiro(),
    kiro(tool_history="text", strip_system_reminders=True),
    kiro(cache_points="prefix", max_images=1, replay_thinking=False),
    kiro(rules_off=("turns.merged", "content.filled"), description_limit=8),
    kiro(payload_bytes=900, trim_history=True),
)


def user(*parts: Any) -> Turn:
    """A turn of the user."""
    return Turn(Role.USER, parts, "messages[7]")


def assistant(*parts: Any) -> Turn:
    """One of the model."""
    return Turn(Role.ASSISTANT, parts, "messages[8]")


TURNS = (
    user(Text("Hi")),
    user(Text("")),
    user(Text("one"), Text("two <system-reminder>no</system-reminder>")),
    user(Image("image/png", data=PIXEL)),
    user(ToolResult("a", (Text("Sunny"),)), Text("and?")),
    user(ToolResult("b", ()), ToolResult("a", (Text("again"), Image("image/png", data=PIXEL)))),
    user(ToolResult("c", (Text("orphan \ud800"),))),
    assistant(Text("Yes")),
    assistant(Text(" ")),
    assistant(ThinkingPart("Hm"), Text("thought")),
    assistant(ThinkingPart("Hm", signature="sig"), ThinkingPart("Hm", signature="gis")),
    assistant(Text("calling"), ToolCallPart("a", "look", {"x": [1, {"": 2}]})),
    assistant(ToolCallPart("a", "look", {}), ToolCallPart("b", "look at this", {"y": "é"})),
    assistant(ToolCallPart("b", "LOOK", {})),
)
TOOLS = (
    Tool("look", "Look, and look again", {"type": "object", "properties": {"x": {"type": "string", "format": "z"}}}),
    Tool("look at this", "", {"type": "string"}),
)


def fresh(prompt: Prompt) -> Prompt:
    """*prompt*, of which nothing has been kept."""
    return evolve(prompt, turns=tuple(map(evolve, prompt.turns)), tools=tuple(map(evolve, prompt.tools)))


def sent(prompt: Prompt, upstream: KiroUpstream, model: ModelCard) -> Any:
    """What *model* is asked."""
    try:
        rendered = upstream.render(prompt, model, KEY)
    except KiroAsgiError as error:
        return error.code, error.message
    body = json.loads(rendered.request.body)
    assert body == json.loads(json.dumps(rendered.document))
    estimates = upstream.estimate_tokens(rendered, ESTIMATOR), upstream.statistics(rendered)
    return body, rendered.notes, rendered.tool_names, estimates


@given(st.data())
def test_turns_become_the_same_among_whatever_others(data: st.DataObject):
    """Turns that were sent in one order by one client, and in another order for another model, are written alike."""
    turns, tools = tuple(map(evolve, TURNS)), tuple(map(evolve, TOOLS))
    for each in (*turns, *tools):
        each.kept.lasts = True
    for _ in range(4):
        chosen = data.draw(st.lists(st.sampled_from(turns), min_size=1, max_size=9))
        given_tools = data.draw(st.sampled_from([(), tools, tools[::-1], tools[:1]]))
        upstream, model = data.draw(st.sampled_from(UPSTREAMS)), data.draw(st.sampled_from(MODELS))
        prompt = Prompt(model.id, tuple(chosen), system=("Be brief.",), tools=given_tools)
        expected = sent(fresh(prompt), upstream, model)
        assert sent(prompt, upstream, model) == expected
        assert sent(prompt, upstream, model) == expected


@pytest.mark.parametrize("upstream", UPSTREAMS[:1])
def test_nothing_is_kept_of_turns_that_do_not_come_again(upstream: KiroUpstream):
    """Nor of what depends on the images before it."""
    turns = tuple(map(evolve, TURNS))
    prompt = Prompt("m", (*turns, user(Text("now"))))
    upstream.render(prompt, MODELS[0], KEY)
    assert [turn.kept.made for turn in turns] == [None] * len(turns)
    for turn in turns:
        turn.kept.lasts = True
    upstream.render(prompt, MODELS[0], KEY)
    assert turns[0].kept.made is not None
    assert turns[3].kept.made is None


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_what_is_done_to_a_message_because_of_another_is_not_kept(upstream: KiroUpstream):
    """A result of one call, and then of another with its id; a text behind one that it is joined to, and alone."""
    first, text, result, one, other, yes, last = map(
        evolve, (TURNS[0], TURNS[2], TURNS[4], TURNS[11], assistant(ToolCallPart("a", "LOOK", {})), TURNS[7], TURNS[1])
    )
    for turns in (
        (one, result),
        (other, result),
        (text, yes),
        (yes, text, result),
        (text, last),
        (last, text),
        (last,),
    ):
        prompt = Prompt("m", (first, *turns, yes, text))
        for each in prompt.turns:
            each.kept.lasts = True
        expected = sent(fresh(prompt), upstream, MODELS[0])
        assert sent(prompt, upstream, MODELS[0]) == expected
        assert sent(prompt, upstream, MODELS[0]) == expected
