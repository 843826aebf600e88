"""AWS's own client and the simulated Bedrock: whether what we take for that service is one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from kiro_asgi.simulator.answers import SENTENCE
from kiro_asgi.simulator.server import running
from tests.clients.conftest import ROOM
from tests.installing import installed, room

SCRIPTS = Path(__file__).with_name("aws")
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


def test_boto3(tmp_path: Path) -> None:
    """Each call is signed and verified; each event is parsed; what fails is the exception that AWS's users know."""
    python = installed(SCRIPTS / "requirements.txt", room(ROOM)) / "python"
    with running() as service:
        given = {"url": service.url, "model": MODEL, "text": "sim:text", "broken": "sim:exception"}
        done = subprocess.run(
            [python, SCRIPTS / "with_boto3.py"],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=90,
            env={"HOME": str(tmp_path)},
            check=False,
        )
    assert done.returncode == 0, done.stderr
    seen = {line.pop("name"): line for line in map(json.loads, done.stdout.splitlines())}
    assert seen == {
        "streamed": {"value": [SENTENCE, "end_turn"]},
        "collected": {"value": [SENTENCE, "end_turn"]},
        "invoked": {"value": [SENTENCE, "message_stop"]},
        "broken": {"thrown": "internalServerException"},
        "listed": {"value": True},
        "forged": {"thrown": "InvalidSignatureException"},
    }
