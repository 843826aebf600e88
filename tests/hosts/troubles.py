"""What goes wrong in some cells for reasons that are not the gateway's."""

from __future__ import annotations

from typing import Final

from attrs import frozen

__all__ = ["TROUBLES", "Trouble"]


@frozen
class Trouble:
    """Something that fails in some cells."""

    check: str
    """Name of the test, without ``test_``."""

    reason: str
    hosts: frozenset[str] = frozenset()
    """Names; none: all."""

    servers: frozenset[str] = frozenset()
    """Names; none: all."""

    certain: bool = True
    """Whether it fails each time; else it may."""

    def concerns(self, host: str, server: str, check: str) -> bool:
        """Whether it is about *check* where *host* is under *server*."""
        return (
            check == self.check
            and (not self.hosts or host in self.hosts)
            and (not self.servers or server in self.servers)
        )


TROUBLES: Final = (
    Trouble(
        "drain",
        "Daphne closes every connection at SIGTERM, whatever is under way: the client sees that the stream was cut.",
        servers=frozenset({"Daphne"}),
    ),
    Trouble(
        "drain",
        "Hypercorn on trio may close an HTTP/2 connection, at SIGTERM, in front of the END_STREAM of its last stream: "
        "every byte of the answer has come, but the client's library may say that the connection was closed.",
        servers=frozenset({"Hypercorn on trio, HTTP/2"}),
        certain=False,
    ),
    Trouble(
        "quiet",
        'After a client left, Litestar\'s compression may write "Exception ignored in: <gzip …>", as it closes its '
        "buffer in front of its compressor.",
        hosts=frozenset({"Litestar in middlewares"}),
        certain=False,
    ),
)
