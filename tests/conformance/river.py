"""River, the service of ``docs/examples/river_upstream.py``, and that example as an installed package."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

__all__ = ["EXAMPLE", "River", "installed", "river"]

EXAMPLE: Final = Path(__file__).parents[2] / "docs" / "examples" / "river_upstream.py"

KEY: Final = "river-key"

WORDS: Final = ("The water ", "is ", "côld.")

SAID: Final[dict[str, list[dict[str, Any]]]] = {
    "hello": [{"thought": "Hm."}, *({"text": word} for word in WORDS), {"end": "done", "read": 11, "wrote": 7}],
    "call": [{"call": {"id": "c1", "name": "measure", "input": {"where": "bridge"}}}, {"end": "call"}],
    "long": [{"text": "On and"}, {"end": "length"}],
    "busy": [{"error": "busy", "message": "too many boats"}],
    "breaks": [{"text": "The wa"}, {"error": "flood", "message": "the pump stopped"}],
    "cut": [{"text": "The wa"}],
}
"""Last word of a question to the lines of the answer."""

REFUSED: Final = {"unpaid": (402, "pay first"), "denied": (403, "not for you"), "faulty": (400, "no such tone")}
"""Last word of a question to a refusal."""


class River(ThreadingHTTPServer):
    """The service; remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: River

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._whole(200, [{"name": "stream"}, {"name": "brook", "window": 9_000}])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["authorization"] != f"Bearer {KEY}":
            return self._whole(401, {"error": {"message": "who are you?"}})
        self.server.asked.append(body)
        word = body["lines"][-1]["text"].split()[-1]
        if word in REFUSED:
            status, message = REFUSED[word]
            return self._whole(status, {"error": {"message": message}})
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for line in SAID.get(word, SAID["hello"]):
            data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
            for piece in (data[:9], data[9:]):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _whole(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def river() -> Iterator[River]:
    """River on a port of its own, until the end of the block."""
    with River() as service:
        thread = Thread(target=service.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()


def installed(folder: Path, value: str = "river_upstream:RIVER") -> Path:
    """The example in *folder* as an installer leaves it there: the module, and metadata with an entry point."""
    shutil.copy(EXAMPLE, folder)
    about = folder / "river_kiro_asgi-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: river-kiro-asgi\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[kiro_asgi.upstreams]\nriver = {value}\n")
    return folder
