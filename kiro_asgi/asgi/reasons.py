"""Why a request is translated although the service speaks the client's own API.

Bytes go through only where nobody but the service has a part in the request and its answer.  What gives the gateway one
is a row of `REASONS`; a request for which none holds goes on as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import field, frozen

from kiro_asgi.asgi.server_tools import Toolbox
from kiro_asgi.config import StreamSettings
from kiro_asgi.dialects.base import Dialect, RequestPeek
from kiro_asgi.model.features import Ask
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.base import StageFactory
from kiro_asgi.stages.thinking import KEPT
from kiro_asgi.upstreams.base import Forwarding, ModelCard
from kiro_asgi.upstreams.settings import AnswerOptions


@frozen(kw_only=True)
class PassthroughCandidate:
    """A request that might go on as it is, and where it would go."""

    peek: RequestPeek = field(repr=False)
    dialect: Dialect
    forwarding: Forwarding | None
    """Of the upstream."""

    model: ModelCard
    toolbox: Toolbox
    answer_options: AnswerOptions
    stream: StreamSettings
    stages: tuple[StageFactory, ...] = ()
    """The application's own."""

    def asks(self, *kinds: Ask) -> bool:
        """Whether the request asks for any of *kinds*."""
        return not self.peek.asks.isdisjoint(kinds)

    def differs(self, *kinds: Ask) -> bool:
        """Whether the request asks for any of *kinds* in another way than the service is asked for it."""
        asked = self.peek.asks.intersection(kinds)
        return bool(asked) and self.forwarding is not None and self.forwarding.differs(asked, self.model)


@frozen
class Reason:
    """One reason."""

    name: str
    what: str
    """A sentence, for people."""

    holds: Callable[[PassthroughCandidate], bool]


REASONS: Final[tuple[Reason, ...]] = (
    Reason(
        "relay.never",
        "The operator wants it so: ``stream.relay`` is ``never``.",
        lambda c: c.stream.relay == "never",
    ),
    Reason(
        "service.other",
        "The service speaks another API, or speaks this one after somebody else: one of ``custom.*``, as long as "
        "``custom.NAME.relay`` is not ``allow``.",
        lambda c: c.forwarding is None or c.forwarding.dialect != c.dialect.name,
    ),
    Reason(
        "state.kept_here",
        "The gateway has a part in it by what it keeps or makes: a conversation that is named, a compaction, an item "
        "that is not known; or a field is to be refused, such as ``prompt``.",
        lambda c: c.asks(Ask.STATE),
    ),
    Reason(
        "stages.own",
        "The application has stages of its own (``App(..., stages=...)``): they see answers in our words.",
        lambda c: bool(c.stages),
    ),
    Reason(
        "stream.synthetic",
        "Streams are sent in another way than they come: ``stream.synthetic``.",
        lambda c: c.stream.synthetic and c.peek.stream,
    ),
    Reason(
        "stream.usage_chunk",
        "Token counts are told in another chunk than the service tells them in: ``stream.usage_chunk`` is ``finish``.",
        lambda c: c.dialect.traits.alters_streams and c.peek.stream,
    ),
    Reason(
        "signatures.foreign",
        "The client hands back a signature of another service, which this one would refuse.",
        lambda c: c.asks(Ask.FOREIGN_SIGNATURES),
    ),
    Reason(
        "tools.run_here",
        "A tool of the request is one that the gateway runs, and the service does not.",
        lambda c: c.toolbox.runs(Prompt(c.peek.model, tools=c.peek.tools)),
    ),
    Reason(
        "tools.unknown",
        "A tool is declared that the client does not run, and the service has not.",
        lambda c: c.asks(Ask.UNKNOWN_TOOLS),
    ),
    Reason(
        "tools.calls",
        "The client has tools: calls of them are repaired, kept whole and remembered where they are cut.",
        lambda c: c.asks(Ask.TOOLS) and c.stream.relay != "unrepaired" and not c.asks(Ask.SERVED),
    ),
    Reason(
        "tools.choice",
        "A choice of tools other than ``auto``, or one call at a time: the answer is held to it.",
        lambda c: c.asks(Ask.CHOICE) and not c.asks(Ask.SERVED),
    ),
    Reason(
        "output.checked",
        "The answer is to be JSON, with a schema or without: it is checked.",
        lambda c: c.asks(Ask.FORM),
    ),
    Reason(
        "thinking.asked",
        "Thinking is asked for: it is put as the model knows it, and found in the answer between tags, too.",
        lambda c: c.asks(Ask.THINKING) and not c.asks(Ask.SERVED),
    ),
    Reason(
        "thinking.effort",
        "A word says how much to think, and the model knows none, or the service has refused it.",
        lambda c: c.differs(Ask.EFFORT),
    ),
    Reason(
        "thinking.handled",
        "Models of the service write their thinking between tags (``thinking_tags``), or it does not stay thinking.",
        lambda c: c.answer_options.thinking_handling != KEPT or (c.forwarding is not None and c.forwarding.tagged),
    ),
    Reason(
        "thinking.replayed",
        "Earlier thinking is handed back, and the service is to have none: OpenAI, or with ``replay_thinking`` off.",
        lambda c: c.differs(Ask.THOUGHTS),
    ),
    Reason(
        "sampling.differs",
        "Temperature, ``top_p``, ``top_k`` or penalties for a model that refuses them.",
        lambda c: c.differs(Ask.SAMPLING, Ask.SAMPLED_TWICE),
    ),
    Reason(
        "stop.kept_here",
        "Stop sequences that the model refuses, or more than the service takes: the gateway ends the answer at them.",
        lambda c: c.differs(Ask.STOP, Ask.MANY_STOPS),
    ),
    Reason(
        "fields.renamed",
        "The greatest length has another name than the service knows it by: ``max_tokens_field``.",
        lambda c: c.differs(Ask.MAX_TOKENS, Ask.MAX_COMPLETION_TOKENS),
    ),
    Reason(
        "fields.counts",
        "Token counts are asked for, and the service refuses that: ``include_usage`` is off.",
        lambda c: c.differs(Ask.COUNTS),
    ),
)
"""In the order in which they are looked at; the first that holds is told."""


def reason_against(candidate: PassthroughCandidate) -> Reason | None:
    """Why a request does not go on as it is; ``None`` where it does."""
    return next((reason for reason in REASONS if reason.holds(candidate)), None)
