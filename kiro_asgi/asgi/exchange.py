"""One client request and all decided facts about it."""

from __future__ import annotations

from attrs import frozen

from kiro_asgi.asgi.recovery import Recovered
from kiro_asgi.asgi.server_tools import Toolbox
from kiro_asgi.dialects.base import Dialect, Heading, Inquiry
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.base import Credential, ModelCard, Note, Rendered, Upstream

__all__ = ["Exchange"]


@frozen(kw_only=True)
class Exchange:
    """Everything that is settled before the upstream is asked.

    What a failed try makes different about the next one is another exchange.
    """

    request_id: str
    principal: str
    dialect: Dialect
    inquiry: Inquiry
    heading: Heading
    upstream: Upstream
    model: ModelCard
    credential: Credential
    conversation: str
    """The UUID that the upstream knows the conversation by."""

    rendered: Rendered
    estimator: Estimator
    input_tokens: int
    """The prompt's size, estimated."""

    weight: float
    """The same before experience corrected it."""

    output_factor: float
    """What experience multiplies estimates of the answer by."""

    toolbox: Toolbox
    """The tools that the gateway runs."""

    recovered: Recovered
    """The prompt, and what was told to the model about answers that were cut."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """Everything that was adapted."""
        return (*self.recovered.notes, *self.rendered.notes)
