"""A conversation without its oldest turns."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from kiro_asgi.model.prompt import Prompt, Role, ToolResult


def beginnings(prompt: Prompt) -> list[int]:
    """Positions of later turns at which the conversation may begin: the user speaks, and answers no call."""
    return [
        index
        for index, turn in enumerate(prompt.turns)
        if index and turn.role is Role.USER and not any(isinstance(part, ToolResult) for part in turn.parts)
    ]


def shortened(prompt: Prompt, beginning: int) -> Prompt:
    """*prompt* without the turns before *beginning*; its system texts stay."""
    return evolve(prompt, turns=prompt.turns[beginning:])


def longest_that_fits(prompt: Prompt, fits: Callable[[Prompt], bool]) -> Prompt:
    """*prompt* with as few of its oldest turns left out as may be: a client may rather lose those than be refused.

    *fits* is asked as often as the number of turns has bits.  Where not even the user's last turn fits, it is
    sent all the same, and the service refuses it.

    Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-truncation
    """
    if fits(prompt):
        return prompt
    places = beginnings(prompt)
    low, high = 0, len(places) - 1
    while low < high:
        middle = (low + high) // 2
        if fits(shortened(prompt, places[middle])):
            high = middle
        else:
            low = middle + 1
    return shortened(prompt, places[low]) if places else prompt
