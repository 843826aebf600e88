"""``kiro-asgi serve --inspect``: a link that opens the inspector, for one process."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import pytest

from tests.cli.processes import PATIENCE, serving


def test_the_link_opens_the_inspector(tmp_path):
    """With a secret of this start, which stands where browsers send it to nobody."""
    with serving("--simulate", "--inspect", cwd=tmp_path) as server:
        page, _, secret = server.told("Inspector").partition("#token=")
        with urlopen(page, timeout=10) as answer:
            assert b"inspector" in answer.read()
        body = json.dumps({"secret": secret}).encode()
        with urlopen(Request(f"{page}api/session", body, {"content-type": "application/json"}), timeout=10) as answer:
            cookie = answer.headers["set-cookie"].partition(";")[0]
        with urlopen(Request(f"{page}api/calls", headers={"cookie": cookie}), timeout=10) as answer:
            assert json.load(answer) == {"calls": []}


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_each_of_several_processes_has_its_own(loop, tmp_path):
    """At an address of its own, which says which process it shows and where the others are; the port that they share
    leads to one of these, since the next request there may meet another process."""
    with serving("--simulate", "--inspect", "--workers", "2", "--loop", loop, cwd=tmp_path) as server:
        pages = [server.told(f"Inspector {number}").partition("#token=") for number in (1, 2)]
        cookies = []
        for page, _, secret in pages:
            body = json.dumps({"secret": secret}).encode()
            with urlopen(
                Request(f"{page}api/session", body, {"content-type": "application/json"}), timeout=PATIENCE
            ) as told:
                cookies.append(told.headers["set-cookie"].partition(";")[0])
        page = pages[1][0]
        urlopen(f"{page.removesuffix('/inspector/')}/v1/models", timeout=PATIENCE).read()
        listed = [calls(page, cookies[0]) for page, _, _ in pages]
        with urlopen(Request(f"{page}api/events", headers={"cookie": cookies[1]}), timeout=PATIENCE) as events:
            told = json.loads(next(line for line in events if line.startswith(b"data:"))[5:])
        with urlopen(f"{server.base}/inspector/", timeout=PATIENCE) as answer:
            led = answer.url
        errors = server.stop()

    assert [[call["path"] for call in each] for each in listed] == [[], ["/v1/models"]], "one cookie opens all"
    assert (told["worker"], told["workers"]) == (2, [page for page, _, _ in pages])
    assert led in [page for page, _, _ in pages]
    assert errors == ""


def calls(page, cookie):
    with urlopen(Request(f"{page}api/calls", headers={"cookie": cookie}), timeout=PATIENCE) as answer:
        return json.load(answer)["calls"]
