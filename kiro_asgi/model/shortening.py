"""A conversation without its oldest turns, for clients that would rather lose those than be refused.

Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-truncation
"""

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
    """*prompt* with as few of its oldest turns left out as may be.

    *fits* is asked as often as the number of turns has bits.  Where not even the last that the user says fits, that is
    what is left: the service is asked, and says so.
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
