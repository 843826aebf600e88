"""What clients invent fills no table: names of models are bounded wherever they are kept, and counted all the same."""

from __future__ import annotations

import gc
import types
from typing import Any

import pytest

from kiro_asgi import create_app, simulator
from kiro_asgi.asgi.kept.usage import OTHER
from kiro_asgi.limits import USAGE_MODELS
from kiro_asgi.observers.measures import Measuring
from kiro_asgi.quota.ledger import totals
from kiro_asgi.quota.sqlite import SqliteLedger
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask

pytestmark = pytest.mark.anyio

INVENTED = "invented-by-a-client-"
TIMES = 320
MOST = 260
"""Names in one container: `ADAPTED_MODELS` and `RESTING_MODELS` are 256."""


class Labels(Measuring):
    """Every label that metrics get."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def add(self, measure: Any, value: float, labels: Any) -> None:
        self.seen |= {*labels.values()}


def largest(root: object) -> tuple[int, str]:
    """The most invented names in one dictionary, set or list that *root* leads to, and what it is."""
    seen, waiting, most = {id(root)}, [root], (0, "")
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | set | frozenset | list | tuple):
            texts = [repr(it) for it in one if isinstance(it, str | tuple)]
            most = max(most, (sum(INVENTED in text for text in texts), f"{type(one).__name__} {texts[:1]}"))
        for each in gc.get_referents(one):
            if id(each) not in seen and not isinstance(each, type | types.ModuleType | types.FunctionType):
                seen.add(id(each))
                waiting.append(each)
    return most


async def test_invented_models(anyio_backend, tmp_path):
    """Hundreds of names, by which clients of every API ask: nothing keeps them all, no sum is lost."""
    file = tmp_path / "state.db"
    labels = Labels()
    slices: dict[str, Any] = {
        "state": {"engine": "sqlite", "path": str(file), "usage": True},
        "inspector": {"enabled": True, "secret": "a-secret-of-its-own", "calls": 50},
    }
    async with simulator.serve(port=0, models=None) as sim:
        app = create_app(settings_for(sim.url, slices), observers=(labels,))
        for number in range(TIMES):
            dialect = ("anthropic", "openai", "responses")[number % 3]
            question = ask(dialect, "sim:text", stream=number % 2 == 0, model=f"{INVENTED}{number}")
            assert (await question.run(app)).status == 200
        assert (await ask("anthropic", "sim:text", stream=False).run(app)).status == 200
        size, place = largest(app)
        await app.aclose()
    assert size <= MOST, place
    ledger = SqliteLedger(file)
    rows = {total.group: total.amounts for total in totals(ledger.rows("2000-01-01", "9998-12-31"), ["model"])}
    ledger.close()
    named = [model for (model,) in rows if model.startswith(INVENTED)]
    assert len(named) == USAGE_MODELS
    assert rows[OTHER,]["requests"] == TIMES - USAGE_MODELS
    assert rows["claude-sonnet-4.5",]["requests"] == 1
    assert not any(INVENTED in label for label in labels.seen)
