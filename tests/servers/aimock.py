"""aimock from npm: a server of scripted answers that speaks the three formats in its own implementation of each."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any, Final

from tests.conformance import node

__all__ = ["LONG", "SAID", "installed", "running"]

SAID: Final = "One, two, three. Grüße 🙂, and a little more."
LONG: Final = "It goes on and on and on, until somebody pulls the plug."

_CALLS: Final = [{"name": "get_weather", "arguments": json.dumps({"city": city})} for city in ("Oslo", "Ulm")]
_LIMITED: Final = {"error": {"message": "Rate limit reached", "type": "rate_limit_error"}, "status": 429}

_ANSWERS: Final[tuple[tuple[dict[str, Any], dict[str, Any]], ...]] = (
    ({"hasToolResult": True}, {"content": "It snows."}),
    ({"userMessage": "text"}, {"content": SAID}),
    ({"userMessage": "thought"}, {"content": "So it is.", "reasoning": "A thought that takes some time."}),
    ({"userMessage": "calls"}, {"content": "Let me check.", "toolCalls": _CALLS}),
    ({"userMessage": "length"}, {"content": SAID, "finishReason": "length"}),
    ({"userMessage": "limited"}, _LIMITED),
)
"""What is matched, to the answer."""

START: Final = 30.0
"""Seconds that it has to start."""

_SIGN: Final = "listening on "


def installed(room: Path | None) -> Path:
    """The folder with its package."""
    return node.install(Path(__file__).parent, room)


@contextmanager
def running(packages: Path, folder: Path) -> Iterator[str]:
    """Run it until the end of the block; its base URL, without ``/v1``."""
    fixtures = [{"match": match, "response": response} for match, response in _ANSWERS]
    cut = {"match": {"userMessage": "cut"}, "response": {"content": LONG}, "truncateAfterChunks": 2}
    (folder / "answers.json").write_text(json.dumps({"fixtures": [*fixtures, cut]}))
    script = packages / "node_modules" / ".bin" / "llmock"
    process = subprocess.Popen(
        ["node", str(script), "--port", "0", "--fixtures", "answers.json", "--latency", "20"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield _address(process)
    finally:
        process.kill()
        process.communicate()


def _address(process: subprocess.Popen[str]) -> str:
    """Where it listens, once it does."""
    found: Queue[str] = Queue()
    assert process.stdout is not None
    lines = process.stdout

    def read() -> None:
        for line in lines:
            if _SIGN in line:
                found.put(line.partition(_SIGN)[2].strip())

    threading.Thread(target=read, daemon=True).start()
    return found.get(timeout=START)
