"""One client's refusals, which must change nothing about the requests of others."""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve

from tests.attack.hostile import STRICT, TIER
from tests.attack.rows import HOSTILE, Attack, row

_TOOL: Final = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}

WISHES: Final[dict[str, Any]] = {
    "provider": {"data_collection": "deny", "zdr": True},
    "service_tier": TIER,
    "guided_json": {"type": "object"},
    "user": "bob",
}
"""Members that only the client and the service know, or that steer what becomes of the request."""

SPITE: Final[tuple[dict[str, Any], ...]] = (
    {"zzz_a": 1},
    {"zzz_b": 1},
    {"service_tier": "unsupported service_tier"},
    {"service_tier": "Unrecognized request argument supplied: provider"},
    {"service_tier": "guided_json: Extra inputs are not permitted"},
    {**{f"zzz_{number}": 1 for number in range(40)}},
)
"""Members that are refused, and values that refusals quote."""


@row("refused members and quoting values of another client", "what one's own requests say, as before", seconds=30)
async def refusals_of_others(attack: Attack) -> None:
    other = evolve(attack.client, key="second")
    for more in ({}, {"tools": [_TOOL]}):
        wishes = {**WISHES, **more}
        before = await attack.client.ask("chat", f"attack:{STRICT}", model=HOSTILE, **wishes)
        attack.want(all(f"sent:{name}" in before.text for name in WISHES), f"sent from the start: {before.text[-300:]}")
        for refused in SPITE:
            for _ in range(2):
                await other.ask("chat", f"attack:{STRICT}", model=HOSTILE, **more, **refused)
        after = await attack.client.ask("chat", f"attack:{STRICT}", model=HOSTILE, **wishes)
        lost = [name for name in WISHES if f"sent:{name}" not in after.text]
        attack.note(f"{before.status} {after.status} {' '.join(lost)}")
        attack.want(after.status == 200 and not lost, f"{after.status}, no longer sent: {lost}")
