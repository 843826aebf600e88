"""What tests need of people who test gateways, agents and parts of their own: the same as our own tests use.

A gateway on a port (`serving`) or in process (`ask`, `asgi_transport`); a service that needs no account, which is
`kiro_asgi.simulator`; what streams may look like (`check_stream`, `check_events`); and the laws that parts are held to
(`check_cuts`, `check_dialect`, `check_store`, `check_upstream`).

A check fails with an `AssertionError` that says what is wrong, and with what it was found.
"""

from __future__ import annotations

from kiro_asgi.testing.asking import Answer, ask
from kiro_asgi.testing.cuts import check_cuts
from kiro_asgi.testing.dialects import check_dialect
from kiro_asgi.testing.grammar.events import check_events
from kiro_asgi.testing.serving import SIMULATED, serving
from kiro_asgi.testing.stores import Clock, check_store
from kiro_asgi.testing.streams import check_broken_stream, check_stream
from kiro_asgi.testing.transport import AsgiTransport, asgi_transport
from kiro_asgi.testing.upstreams import check_upstream

__all__ = [
    "SIMULATED",
    "Answer",
    "AsgiTransport",
    "Clock",
    "asgi_transport",
    "ask",
    "check_broken_stream",
    "check_cuts",
    "check_dialect",
    "check_events",
    "check_store",
    "check_stream",
    "check_upstream",
    "serving",
]
