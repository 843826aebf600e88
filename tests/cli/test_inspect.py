"""``kiro-asgi serve --inspect``: a link that opens the inspector, for one process."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

from kiro_asgi.cli import main
from tests.cli.processes import serving


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


def test_several_processes_have_no_inspector(capsys):
    """Each would show its own calls alone, and the page would ask now this one, now that."""
    assert main(["serve", "--simulate", "--inspect", "--workers", "2", "--port", "0"]) == 1
    assert "--workers 1" in capsys.readouterr().err
