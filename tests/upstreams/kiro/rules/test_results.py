"""Calls and results find each other, whatever ids a client uses and in whatever order things come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.prompt import Image, Prompt, Tool, Turn
from tests.upstreams.kiro.prompts import PNG, ask, assistant, call, current, messages, result, rules, user

Told = tuple[str, list[str], list[str], str]


def told(*turns: Turn, **settings: Any) -> list[Told]:
    """Of each message: side, ids of calls, results as ``id=text``, text."""
    return [_told(side, message) for side, message in messages(ask(*turns), **settings)]


def _told(side: str, message: Any) -> Told:
    results = message.get("userInputMessageContext", {}).get("toolResults", [])
    answers = [f"{one['toolUseId']}={''.join(part['text'] for part in one['content'])}" for one in results]
    return side, [use["toolUseId"] for use in message.get("toolUses", ())], answers, message["content"]


def test_a_late_result_moves_behind_its_call() -> None:
    """The user spoke before the result came: it stands with what was said first, and the rest stays where it was."""
    turns = (user("go"), assistant(call("a")), user("wait"), assistant("ok"), user(result("a", "1"), "now"))

    assert told(*turns) == [
        ("user", [], [], "go"),
        ("assi", ["a"], [], ""),
        ("user", [], ["a=1"], "wait"),
        ("assi", [], [], "ok"),
        ("user", [], [], "now"),
    ]


def test_a_late_result_brings_what_was_lifted_out_of_it() -> None:
    """An image is attached to the message of its result, and to no other."""
    mine, other = Image("image/png", PNG), Image("image/jpeg", "/9j/AAAA")
    late = user(result("a", "1", mine), other, "now")
    found = [message for _, message in messages(ask(user("go"), assistant(call("a")), user("x"), assistant("y"), late))]

    assert [[one["format"] for one in message.get("images", ())] for message in found] == [
        [],
        [],
        ["png"],
        [],
        ["jpeg"],
    ]
    assert found[4]["content"] == "now"


def test_images_are_told_apart() -> None:
    """Images stand in the order of the results; a number says which is whose, the same in every later request."""
    images = [Image("image/png", PNG), Image("image/jpeg", "/9j/AAAA")]
    turns = (
        user("go", images[0]),
        assistant(call("a"), call("b")),
        user(result("b", images[0]), result("a", images[1]), "so?"),
    )
    sent = current(ask(*turns))
    answers = [one["content"][0]["text"] for one in sent["userInputMessageContext"]["toolResults"]]

    assert [one["format"] for one in sent["images"]] == ["jpeg", "png"]
    assert [answer[:7] for answer in answers] == ["Image 2", "Image 3"]
    assert messages(ask(*turns, assistant("y"), user("z", images[0])))[2][1]["userInputMessageContext"] == {
        "toolResults": sent["userInputMessageContext"]["toolResults"]
    }


def test_a_message_that_loses_all_its_results_goes() -> None:
    """What stood around it becomes one message; where it was the last, the user asks to go on."""
    turns = (user("go"), assistant(call("a")), user("wait"), assistant("x"), user(result("a", "1")), assistant("y"))

    assert told(*turns, user("z"))[3:] == [("assi", [], [], "x\n\ny"), ("user", [], [], "z")]
    assert told(*turns[:-1])[3:] == [("assi", [], [], "x"), ("user", [], [], "Continue.")]


def test_an_id_that_is_used_again_becomes_another() -> None:
    """Each result goes to the call before it; ids are unique in the whole request, and the first keeps its own."""
    turns = [user("go")]
    for number in range(3):
        turns += [assistant(call("call_0", x=number)), user(result("call_0", str(number)))]
    found = told(*turns)
    ids = [calls[0] for _, calls, _, _ in found if calls]

    assert len(set(ids)) == 3
    assert ids[0] == "call_0"
    assert [results for side, _, results, _ in found if side == "user"][1:] == [
        [f"{call_id}={number}"] for number, call_id in enumerate(ids)
    ]


def test_two_calls_of_one_id_in_one_message() -> None:
    """Results go to them in their order; only a call that is the same in everything is dropped."""
    turns = (user("go"), assistant(call("", x=1), call("", x=2), call("", x=2)), user(result("", "1"), result("", "2")))
    _, calls, _, _ = told(*turns)[1]

    assert len(set(calls)) == 2
    assert told(*turns)[2][2] == [f"{calls[0]}=1", f"{calls[1]}=2"]
    assert "calls.duplicate_dropped" in rules(ask(*turns))


@given(st.lists(st.text(max_size=80), min_size=1, max_size=6, unique=True))
def test_different_ids_stay_different(ids: list[str]) -> None:
    """However they are changed, no two become one, and each result still answers its call."""
    turns = (
        user("go"),
        assistant(*(call(each, x=each) for each in ids)),
        user(*(result(each, f"r{number}") for number, each in enumerate(ids))),
    )
    _, calls, _, _ = told(*turns)[1]

    assert len(set(calls)) == len(ids)
    assert told(*turns)[2][2] == [f"{each}=r{number}" for number, each in enumerate(calls)]


def test_ids_do_not_change_when_a_conversation_goes_on() -> None:
    """What was sent stays the same bytes, which is what caching and signatures depend on."""
    turns = (
        user("go"),
        assistant(call("a.b")),
        user(result("a.b", "1")),
        assistant(call("a.b")),
        user(result("a.b", "2")),
    )

    assert told(*turns)[:3] == told(*turns[:3])


def test_results_without_calls_and_second_results_become_text() -> None:
    """Nothing that a tool gave is lost; a result that says the same again is."""
    turns = (
        user("go"),
        assistant(call("a")),
        user(result("a", "1"), result("a", "1"), result("a", "2"), result("b", "3")),
    )

    assert told(*turns)[2] == (
        "user",
        [],
        ["a=1"],
        "Result of an earlier tool call:\n2\nResult of an earlier tool call:\n3",
    )


# As text.

ROUND: tuple[Turn, ...] = (
    user("Weather?"),
    assistant("Let me look.", call("a", "weather", city="Oslo"), call("b", "time")),
    user(result("a", "4 C", Image("image/png", PNG)), result("b", "no", is_error=True), "Well?"),
)


def test_history_as_text_has_no_structures() -> None:
    """Calls and results are told where results stood; the assistant's message does not show how to make a call."""
    prompt = ask(*ROUND, tools=(Tool("weather", "w"),))
    found = messages(prompt, tool_history="text")

    assert [(side, message["content"]) for side, message in found] == [
        ("user", "Weather?"),
        ("assi", "Let me look."),
        (
            "user",
            'The tool weather was run with {"city":"Oslo"} and gave this output:\n'
            "4 C\nImage 1 of this conversation is attached to this message.\n\n"
            "The tool time was run with {} and gave an error:\nno\n\n"
            "Well?",
        ),
    ]
    assert "toolUse" not in str(found)
    assert "toolResults" not in str(found)
    assert len(found[-1][1]["images"]) == 1


def test_history_as_text_keeps_the_tools() -> None:
    """Tools are still offered; those of history need no definition any more."""
    tools = current(ask(*ROUND, tools=(Tool("weather", "w"),)), tool_history="text")["userInputMessageContext"]["tools"]

    assert [tool["toolSpecification"]["name"] for tool in tools] == ["weather"]
    assert "tools.stubbed" not in rules(ask(*ROUND), tool_history="text")


@pytest.mark.parametrize("mode", ["native", "auto"])
def test_auto_is_native_at_first(mode: str) -> None:
    """Structures are what works best."""
    assert messages(ask(*ROUND), tool_history=mode)[1][1]["toolUses"]


def test_a_prompt_without_tools_is_the_same_as_text() -> None:
    """There is nothing to tell."""
    prompt: Prompt = ask(user("a"), assistant("b"), user("c"))

    assert messages(prompt, tool_history="text") == messages(prompt, tool_history="native")
