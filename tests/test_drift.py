"""The names of the vendors' SDKs: what becomes of each is known, and the page says it.

``tox -e drift`` does the same with the newest SDKs.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Literal, Required

import pytest
from attrs import evolve
from typing_extensions import TypedDict

from tests.drift.answers import FAMILIES
from tests.drift.endpoints import unexplained
from tests.drift.models import strangers
from tests.drift.requests import APIS, Fate, fates
from tests.drift.table import SDKS, differences, found_in_answers, found_in_requests, recorded, silent
from tests.drift.types import Types

RECORDED = recorded()
AS_RECORDED = all(version(name) == RECORDED["versions"][name] for name in SDKS)

pinned = pytest.mark.skipif(not AS_RECORDED, reason="the table is of other versions of the SDKs; see tox -e drift")


@pinned
@pytest.mark.parametrize("api", APIS)
def test_every_member_of_a_request_has_its_fate(api: str) -> None:
    """It is read, passed, noted or refused, as the page has it; none is left out without a word."""
    found = found_in_requests(api)

    assert [*silent(found)] == []
    assert [*differences(found, RECORDED["requests"][api])] == []


@pinned
@pytest.mark.parametrize("family", FAMILIES)
def test_every_member_of_an_answer_has_its_use(family: str) -> None:
    """It is read, sent, or only passed on, as the page has it."""
    assert [*differences(found_in_answers(family), RECORDED["answers"][family])] == []


def test_every_endpoint_is_served_or_has_a_reason() -> None:
    """Whatever an SDK can ask for."""
    assert [*unexplained()] == []


def test_every_model_has_a_family() -> None:
    """Names follow a pattern."""
    assert [*strangers()] == []


class _Block(TypedDict, total=False):
    type: Required[Literal["text"]]
    text: Required[str]
    invented: str


class _Message(TypedDict, total=False):
    role: Required[Literal["user"]]
    content: Required[list[_Block]]


class _Request(TypedDict, total=False):
    model: Required[str]
    max_tokens: Required[int]
    messages: Required[list[_Message]]
    temperature: float
    thread: str
    invented: dict[str, str]
    stream: Literal[True]


def test_what_becomes_of_each_member_is_told_apart() -> None:
    """A member that the SDK gains is found: read, noted, or refused; and one that a dialect did not note is silent."""
    api = evolve(APIS["messages"], roots=(Types().object(_Request),))

    assert {(place.name, name): fate for place, name, fate in fates(api)} == {
        ("", "model"): Fate.READ,
        ("", "max_tokens"): Fate.READ,
        ("", "messages"): Fate.READ,
        ("", "temperature"): Fate.READ,
        ("", "thread"): Fate.REFUSED,
        ("", "invented"): Fate.PASSED,
        ("messages[]", "content"): Fate.READ,
        ("messages[].content[](text)", "text"): Fate.READ,
        ("messages[].content[](text)", "invented"): Fate.PASSED,
    }


class _Deaf:
    """A dialect that notes nothing."""

    def __init__(self, dialect: Any) -> None:
        self.parse = dialect.parse

    def notes(self, *_: Any) -> tuple[()]:
        return ()


def test_silence_is_found() -> None:
    """Of what nobody is told, the run reports each name; a member that only a note tells of is no longer passed on or
    noted where the dialect says nothing."""
    api = evolve(APIS["messages"], roots=(Types().object(_Request),), dialect=_Deaf(APIS["messages"].dialect))
    found = {(place.name, name): fate for place, name, fate in fates(api)}

    assert found["", "invented"] not in (Fate.PASSED, Fate.NOTED)
    assert [*silent({"tools[]": {"read": ["name"], "silent": ["fresh"]}})] == ["tools[].fresh"]


def test_differences_are_told_by_name() -> None:
    """New, gone, and changed."""
    then = {"tools[]": {"read": ["name", "old"], "noted": ["strict"]}}
    now = {"tools[]": {"read": ["name", "strict"], "silent": ["fresh"]}}

    assert [*differences(now, then)] == [
        "tools[].fresh: silent, and was not there",
        "tools[].old: gone, and was read",
        "tools[].strict: read, and was noted",
    ]
