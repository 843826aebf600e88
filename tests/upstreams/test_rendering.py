"""Names on the wire."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.notes import Notes
from kiro_asgi.rendering.names import WireNames

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,20}")


def names(notes: Notes | None = None) -> WireNames:
    return WireNames(LEGAL, 20, "tools.renamed", notes or Notes())


@given(st.lists(st.text(max_size=30) | st.sampled_from(["f", "a.b", "a/b", "x" * 30]), max_size=6))
def test_names_fit_differ_and_come_back(given_names: list[str]) -> None:
    """Whatever the client calls its tools, the service takes each name, and an answer leads back to the client's."""
    notes = Notes()
    wired = names(notes)
    sent = {name: wired.wire(name) for name in given_names}

    assert all(LEGAL.fullmatch(wire) for wire in sent.values())
    assert len(set(sent.values())) == len(sent)
    assert all(wired.changed().get(wire, wire) == name for name, wire in sent.items())
    assert bool(wired.changed()) == bool(notes.found())


def test_a_substitute_is_the_same_in_every_request() -> None:
    """What a service has cached stays valid, and a name that fits stays as it is."""
    assert names().wire("mcp.tool") == names().wire("mcp.tool") != "mcp.tool"
    assert names().wire("mcp_tool") == "mcp_tool"


def test_a_name_that_another_ones_substitute_has_is_replaced_too() -> None:
    """Two tools are never one."""
    wired = names()
    first = wired.wire("mcp.tool")

    assert wired.wire(first) != first
