"""Has the resolver of a process take as long for some names as it does where their server is silent."""

from __future__ import annotations

import socket
import time
from typing import Any

_look_up = socket.getaddrinfo


def _look_up_slowly(host: Any, *arguments: Any, **more: Any) -> Any:
    name = host.decode() if isinstance(host, bytes) else str(host)  # anyio gives bytes
    if name.endswith(".slow.test"):
        time.sleep(30)
    return _look_up(host, *arguments, **more)


socket.getaddrinfo = _look_up_slowly
