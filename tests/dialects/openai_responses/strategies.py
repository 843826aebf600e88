"""Random answers to random requests: those of `tests.dialects.strategies`, with searches that are answered."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import strategies as st

from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.model.events import BlockKind, BlockStart, Event, ServerCall, ServerResult
from tests.dialects.strategies import TEXT, answers

KINDS = ("local_shell_call", "shell_call", "apply_patch_call", "tool_search_call")


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Whole answers; every result is of a call before it that has none yet, or of none."""
    pending: list[ServerCall] = []
    events: list[Event] = []
    for number, event in enumerate(draw(answers())):
        if isinstance(event, BlockStart) and isinstance(event.value, ServerCall):
            pending.append(evolve(event.value, call_id=f"tooluse_{number}"))
            events.append(evolve(event, value=pending[-1]))
        elif isinstance(event, BlockStart) and isinstance(event.value, ServerResult) and pending:
            events.append(evolve(event, value=evolve(event.value, call=pending.pop(0))))
        else:
            events.append(event)
    return events


@st.composite
def requests(draw: st.DrawFn, events: list[Event]) -> ResponsesOptions:
    """What was asked, where *events* are the answer."""
    names = sorted({it.name for it in events if isinstance(it, BlockStart) and it.kind is BlockKind.TOOL_CALL})
    kinds: dict[str, Any] = {name: draw(st.sampled_from(("function", "custom", *KINDS))) for name in names}
    return ResponsesOptions(
        instructions=draw(st.none() | TEXT),
        reasoning=draw(st.sampled_from(({}, {"summary": "auto"}))),
        include=draw(st.sampled_from(((), ("reasoning.encrypted_content",)))),
        custom_tools=frozenset(name for name, kind in kinds.items() if kind == "custom"),
        client_tools={name: kind for name, kind in kinds.items() if kind in KINDS},
        namespaces={
            name: ("space", "inner") for name, kind in kinds.items() if kind not in KINDS and draw(st.booleans())
        },
    )
