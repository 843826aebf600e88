"""One client request and all decided facts about it."""

from __future__ import annotations

from attrs import frozen

from kiro_asgi.dialects.base import Dialect, Heading, Inquiry
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.base import ModelCard, Rendered, Upstream

__all__ = ["Exchange"]


@frozen(kw_only=True)
class Exchange:
    """Everything that is settled before the upstream is asked."""

    request_id: str
    principal: str
    dialect: Dialect
    inquiry: Inquiry
    heading: Heading
    upstream: Upstream
    model: ModelCard
    rendered: Rendered
    estimator: Estimator
    input_tokens: int
    """The prompt's size, estimated."""
