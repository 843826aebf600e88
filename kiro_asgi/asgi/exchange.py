"""One client request and all decided facts about it."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.models import Route
from kiro_asgi.asgi.recovery import Recovered
from kiro_asgi.asgi.server_tools import Toolbox
from kiro_asgi.dialects.base import Dialect, Glance, Heading, Inquiry, TransparentDialect
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.base import StageFactory
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.base import Credential, ModelCard, Rendered, Upstream
from kiro_asgi.upstreams.setup import Manner

__all__ = ["Asked", "Exchange", "Passed"]


@frozen(kw_only=True)
class Passed:
    """A request that goes on as it is, to a service of the client's own API."""

    dialect: TransparentDialect
    glance: Glance
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """The client's, its key among them."""


@define(kw_only=True)
class Asked:
    """What a client asks, whoever is going to answer; read no further than the answer needs it."""

    request_id: str
    principal: str
    dialect: Dialect
    size: int
    """Bytes of the request, with all that it builds on: how long work on it takes."""

    passed: Passed | None = None
    """The request as it came, where an upstream may take it like that.  Taken away where it must be translated."""

    stages: tuple[StageFactory, ...] = ()
    """The application's own."""

    _hold: Callable[[int], None]
    _read: Callable[[], Inquiry] = field(repr=False)
    _head: Callable[[Inquiry], Heading]
    _inquiry: Inquiry | None = field(init=False, default=None)
    _heading: Heading | None = field(init=False, default=None)

    @property
    def model(self) -> str:
        """As the client wrote it."""
        return self.inquiry.prompt.model if self.passed is None else self.passed.glance.model

    @property
    def inquiry(self) -> Inquiry:
        """All of it.

        Raises:
            RequestError: It is not a legal request.
        """
        if self._inquiry is None:
            self._inquiry = self._read()
        return self._inquiry

    def hold(self, size: int) -> None:
        """Make room for *size* more bytes until the answer has ended.

        Raises:
            TooBusy: There is none now.
        """
        self._hold(size)
        self.size += size

    def replace(self, prompt: Prompt) -> None:
        """Go on with *prompt*, which asks the same and needs less."""
        self._inquiry = evolve(self.inquiry, prompt=prompt)

    def head(self, inquiry: Inquiry) -> Heading:
        """What every part of an answer to *inquiry* repeats, with an id that no other answer has."""
        return self._head(inquiry)

    @property
    def heading(self) -> Heading:
        """What every part of a translated answer repeats."""
        if self._heading is None:
            self._heading = self._head(self.inquiry)
        return self._heading


@frozen(kw_only=True)
class Exchange:
    """Everything that is settled before an upstream is asked.

    What a failed try makes different about the next one is another exchange.
    """

    asked: Asked
    route: Route
    inquiry: Inquiry
    """What the client asks, as this upstream is to be asked it."""

    upstream: Upstream
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

    recovered: Recovered
    """The prompt, and what was told to the model about answers that were cut."""

    passed: Passed | None = None
    """What goes on as it is; ``None`` where the answer is translated."""

    @property
    def request_id(self) -> str:
        """What clients and log lines call it."""
        return self.asked.request_id

    @property
    def model(self) -> ModelCard:
        """Who is asked."""
        return self.route.model

    @property
    def manner(self) -> Manner:
        """How the answer is waited for and read."""
        return self.route.provider.manner

    @property
    def toolbox(self) -> Toolbox:
        """The tools that the gateway runs."""
        return self.route.provider.toolbox

    @property
    def notes(self) -> tuple[Note, ...]:
        """Everything that was adapted."""
        return (*self.inquiry.notes, *self.recovered.notes, *self.rendered.notes)
