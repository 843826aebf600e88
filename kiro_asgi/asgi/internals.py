"""Parts of an application that are made differently where it is not to serve, but to show what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import field, frozen

from kiro_asgi.asgi.attachments import AttachmentSource
from kiro_asgi.asgi.providers import Transports, new_fetcher, new_transport
from kiro_asgi.asgi.scheduling import Offload
from kiro_asgi.config import Settings
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.estimate import Calibration


@frozen(kw_only=True)
class Internals:
    """Where the application meets the network, experience and the stages."""

    transports: Transports = new_transport
    """Makes the connections to services."""

    fetcher: Callable[[Settings], AttachmentSource | None] = new_fetcher
    """Makes what fetches addresses named in requests."""

    calibration: Calibration = field(factory=Calibration)
    """What was learnt of estimates; the application goes on learning with it."""

    pipeline: Callable[[Iterable[Stage[Any, Any]], Plan], Answer] = build_pipeline
    """Makes the stages of an answer."""

    offload: Offload = field(factory=Offload)
    """Does what takes long."""

    dates: Callable[[], float] | None = None
    """Seconds since the epoch, for dates in answers; ``None``: by the application's clock."""

    context_windows: Mapping[tuple[str, str], int] = field(factory=dict)
    """Tokens that models can read and write, by upstream and model, as far as that is known without asking."""
