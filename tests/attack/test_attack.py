"""The attack as a script runs, and its judge can say no."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.__main__ import Result, Runner, main
from tests.attack.gateway import GATEWAYS, services
from tests.attack.healthy import Noticed
from tests.attack.rows import ROWS, Row


async def _nothing(_: object) -> None:
    """A row that does no harm."""


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_cheap_rows_run_and_hold(loop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Gateway, services and healthy clients start, rows are attacked and judged; how long others waited is not looked
    at, since other tests run beside."""
    with services() as behind:
        runner = Runner(loop, behind, tmp_path)
        runner.run([row for row in ROWS if row.name in ("torn-frame", "quoted-secret")])

    assert [result.complaints for result in runner.results] == [(), ()]
    assert not any(result.stopped for result in runner.results)
    assert any(result.noticed.streamed or result.noticed.health for result in runner.results)
    assert capsys.readouterr().out.count("\n    ") == 2


@pytest.mark.parametrize(
    ("stream", "health", "beside", "complaints"),
    [
        pytest.param(0.02, 0.001, True, 0, id="nothing-noticed"),
        pytest.param(0.3, 0.001, True, 1, id="stream"),
        pytest.param(0.02, 0.06, True, 1, id="health"),
        pytest.param(0.3, 0.06, True, 2, id="both"),
        pytest.param(0.3, 0.06, False, 0, id="not-looked-at"),
    ],
)
def test_what_healthy_clients_notice_counts(stream: float, health: float, beside: bool, complaints: int) -> None:
    """A stream that stands still for 250 ms, or 50 ms for ``/health``, and the row has not held."""
    row = Row("x", "", "", _nothing, beside=beside)
    result = Result(row, "", Noticed(stream, health, 0, 0, 1, ()), 0, 0, (), stopped=False)

    assert len(result.wrong) == complaints


def test_rows_are_named_and_have_gateways(capsys: pytest.CaptureFixture[str]) -> None:
    """Every row is listed, by a name of its own, and its gateway is one that there is."""
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.count("\n") == len(ROWS) == len({row.name for row in ROWS})
    assert {row.gateway for row in ROWS} == {*GATEWAYS}
