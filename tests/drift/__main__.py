"""Compare the installed SDKs with what is recorded: ``python -m tests.drift [--record]``.

Prints the table.  Fails where a member of a request has no effect and no note, an endpoint has no reason, a model no
family, or anything is not as it was recorded.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence

from tests.drift.answers import FAMILIES
from tests.drift.endpoints import unexplained
from tests.drift.models import strangers
from tests.drift.requests import APIS
from tests.drift.table import PAGE, Table, differences, found_in_answers, found_in_requests, recorded, silent, written


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 where something has drifted."""
    parser = ArgumentParser(prog="python -m tests.drift")
    parser.add_argument("--record", action="store_true", help=f"write what was found to {PAGE.name}")
    options = parser.parse_args(arguments)
    requests = {api: found_in_requests(api) for api in APIS}
    answers = {family: found_in_answers(family) for family in FAMILIES}
    for kind, tables in (("requests", requests), ("answers", answers)):
        for api, table in tables.items():
            print(*_shown(f"{kind} of {api}", table), sep="\n")
    if options.record:
        PAGE.write_text(written(requests, answers), encoding="utf-8")
    wrong = [*_wrong(requests, answers)]
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


def _shown(title: str, table: Table) -> Iterator[str]:
    yield f"== {title}"
    for place, row in table.items():
        uses = (f"{use}: {' '.join(names)}" for use, names in row.items())
        yield f"{place}: {'; '.join(uses)}"


def _wrong(requests: Mapping[str, Table], answers: Mapping[str, Table]) -> Iterator[str]:
    for api, table in requests.items():
        yield from (f"{api}: {name} has no effect, and no note says so" for name in silent(table))
    yield from (f"{path}: neither served nor in kiro_asgi/dialects/unserved.py" for path in unexplained())
    yield from (f"{name}: a model that no pattern knows" for name in strangers())
    then = recorded()
    for kind, tables in (("requests", requests), ("answers", answers)):
        for api, table in tables.items():
            known = then.get(kind, {}).get(api, {})
            yield from (f"{kind} of {api}: {line}" for line in differences(table, known))


if __name__ == "__main__":
    sys.exit(main())
