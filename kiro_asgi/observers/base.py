"""Facts about the calls that an application serves, and the base classes of observers.

For each call the methods of an observer are called in this order, however the call ends::

    call    = began (planned attempted)* ended
    bytes   = (request_sent head_received received* body_ended)* between planned and attempted,
              request_received, tool_ran*, head_sent, sent* between began and ended

They run in the event loop that serves the call, so an observer must not block, and none of them is async but `aclose`;
what it raises is logged once and does not reach the call.  Two event loops in two threads may call one observer at the
same time.  Facts are frozen, and hold names, counts and times: no prompt, no answer, and no secret but in
`CallFacts.headers`.  What a `ByteObserver` receives holds all three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from attrs import field, frozen

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.extension import ExtensionManifest
from kiro_asgi.model.events import ServerResult, Usage
from kiro_asgi.model.prices import Money


class Outcome(Enum):
    """How a call, or one attempt at its answer, ended."""

    COMPLETE = "complete"
    """All of the response was sent."""

    CUT = "cut"
    """The answer had begun, and an error broke it off."""

    REFUSED = "refused"
    """An error took the answer's place; the status shows whether client, gateway or upstream is at fault."""

    DISCONNECTED = "disconnected"
    """The client left."""

    STALLED = "stalled"
    """The client took nothing for too long, and was dropped."""


@frozen(kw_only=True, eq=False)
class CallFacts:
    """One HTTP request for one of the gateway's own paths, as it came.

    The handshake of a WebSocket is one, with ``GET``, and ends with 101; each request that comes over it is another.
    """

    request_id: str
    """As in headers to the client and in log lines."""

    api: str
    """Name of the client API, e.g. ``anthropic``, in whose format errors are sent."""

    method: str
    path: str
    """As the client wrote it; may be anything."""

    root_path: str = ""
    """The prefix below which a host has the gateway; most hosts leave it in *path*."""

    route: str
    """Template of the path, e.g. ``/v1/models/{model:path}``; empty where there is no such path."""

    principal: str
    """Name of the client; empty where it needed no key, or was refused."""

    group: str = ""
    """Name of the client's group; empty where it is in none."""

    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """The client's; **its key is among them**."""

    time: float
    """When it came, in seconds since the epoch."""

    started: float
    """The same by the application's clock, whose seconds all other facts count."""


@frozen(kw_only=True, eq=False)
class PlanFacts:
    """One attempt at an answer, before it is made."""

    number: int
    """From 1, wherever attempts are made."""

    upstream: str
    """Name in the settings."""

    provider: str
    """The service's vendor, as OpenTelemetry names it, e.g. ``anthropic``."""

    model: str
    """As the upstream is asked for it."""

    listed: bool
    """Whether the upstream lists that model.  If not, *model* may be anything that a client wrote."""

    credential: str
    """Name of the credential, never the credential: a setting, or a file's path."""

    operation: str = "chat"
    """What is asked for, as OpenTelemetry calls it: ``chat``, by whichever API, or ``embeddings``."""

    streamed: bool
    """Whether the client wants the answer as it comes."""

    rules: tuple[str, ...]
    """Names of the rules by which the request was adapted."""

    host: str
    """Of the service's address."""

    port: int
    parameters: Mapping[str, float]
    """Numbers that the client asks with, e.g. ``max_tokens`` and ``temperature``; none where its request goes through
    unread."""

    response_id: str
    """Of the answer, as the client has it; empty where the service's bytes go through."""

    context_window: int
    """Tokens that the model can read and write, as far as that is known."""

    input_estimate: int
    """Tokens of the prompt, estimated; 0 where its bytes go through."""

    output_factor: float
    """Factor for estimates of the answer's tokens, learnt from earlier answers."""

    started: float
    """By the application's clock."""


@frozen(kw_only=True, eq=False)
class AttemptFacts:
    """One attempt at an answer, after it was made."""

    plan: PlanFacts
    outcome: Outcome
    """`Outcome.CUT` if any of an answer came, be it sent or not, else `Outcome.REFUSED`."""

    status: int
    """The upstream's; 0 where it sent none."""

    error: str
    """Class of the error that ended it, e.g. ``UpstreamThrottled``; empty for none."""

    code: str
    """The error's code, for programs."""

    seconds: float
    """From its start to its end."""

    first_content: float | None
    """Seconds from its start to the first text, thinking or call; ``None`` where there was none."""

    usage: Usage | None
    """Tokens that are charged for it, each count with its source; ``None`` where the service made nothing."""

    cost: Money | None = None
    """What they cost by the operator's prices; ``None`` where that is not known."""

    cost_guessed: bool = False
    """Whether that is not known, and *cost* is what was reserved for it, if anything was."""

    finish: str
    """Why the model stopped, as a value of `StopReason`; empty where the answer was not read to its end."""


@frozen(kw_only=True, eq=False)
class EndFacts:
    """The end of a call."""

    status: int
    """Of the response; 0 where none was begun."""

    outcome: Outcome
    error: str
    """Class of the error that took the place of the answer, or of the rest of it; empty for none."""

    code: str
    """The error's code, for programs."""

    model: str
    """As the client wrote it; empty where the request did not get so far."""

    upstream: str
    """The upstream that was asked last, or was to be asked; empty where the request did not get so far."""

    plan: PlanFacts | None
    """The last attempt; ``None`` where no upstream was asked for an answer."""

    usage: Usage | None
    """Tokens that are charged for the last attempt; ``None`` where the service made nothing."""

    cost: Money | None = None
    """What they cost by the operator's prices; ``None`` where that is not known."""

    cost_guessed: bool = False
    """As of `AttemptFacts`."""

    earlier: tuple[AttemptFacts, ...] = ()
    """Attempts before the last one that are charged, too."""

    finish: str
    """Why the model stopped, as a value of `StopReason`; empty where the answer was not read to its end."""

    notices: Mapping[str, int]
    """Codes of what was passed over, corrected or cut in the answer, and how often."""

    preparation: float | None
    """Seconds from the request to the first attempt; ``None`` where there was none."""

    seconds: float
    """From the request to the end of the response."""

    first_content: float | None
    """Seconds from the request to the first text, thinking or call of the last attempt; ``None`` where none came."""

    content_seconds: float
    """Seconds from there to the last event of the answer."""

    @property
    def attempts(self) -> int:
        """Times that an upstream was asked."""
        return 0 if self.plan is None else self.plan.number

    @property
    def seconds_per_token(self) -> float | None:
        """Average time from one token of the answer to the next; ``None`` where there is nothing to average."""
        tokens = 0 if self.usage is None else self.usage.output_tokens
        return self.content_seconds / (tokens - 1) if tokens > 1 and self.content_seconds > 0 else None


class Observer:
    """Base class of observers of calls: every method does nothing, so that a subclass defines those that it needs.

    A class, and no protocol: methods may be added one day, which older observers do not define.
    """

    def began(self, call: CallFacts) -> None:
        """A request has come; its client is known, or was refused."""

    def planned(self, call: CallFacts, plan: PlanFacts) -> None:
        """An upstream is about to be asked."""

    def attempted(self, call: CallFacts, attempt: AttemptFacts) -> None:
        """It has answered, failed, or is not wanted any more."""

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """The response was sent, or the client is gone."""

    async def aclose(self) -> None:
        """Write what is still to be written: the application is closed.

        An observer may be shared, so calls may come afterwards, and this again.
        """


class ByteObserver(Observer):
    """Base class of observers that receive every byte, too: the very objects, as they were read and sent.

    **Keys of clients and of services are among them.**  Each moment *at* is by the application's clock.
    """

    def request_received(self, call: CallFacts, query: bytes, body: bytes, at: float) -> None:
        """The client's whole request is here; *query* is what follows ``?`` in its target."""

    def request_sent(
        self, call: CallFacts, method: str, url: str, headers: tuple[tuple[bytes, bytes], ...], body: bytes, at: float
    ) -> None:
        """This is sent to the upstream, and signed after; where it pauses, again for each part of its answer."""

    def head_received(self, call: CallFacts, status: int, headers: Sequence[tuple[bytes, bytes]], at: float) -> None:
        """The head of the upstream's answer has come."""

    def body_ended(self, call: CallFacts, error: KiroAsgiError | None, at: float) -> None:
        """The upstream's answer was read to its end, or as far as it was needed, or *error* broke it off."""

    def tool_ran(self, call: CallFacts, result: ServerResult, at: float) -> None:
        """A tool that the client does not run has returned *result*."""

    def head_sent(self, call: CallFacts, status: int, headers: Sequence[tuple[bytes, bytes]], at: float) -> None:
        """The head of the response was handed to the server."""

    def received(self, call: CallFacts, data: bytes, at: float) -> None:
        """*data* has come from the upstream *at* this moment, by the application's clock."""

    def sent(self, call: CallFacts, data: bytes, at: float, blocked: float) -> None:
        """*data* was handed to the server *at* this moment, which took it after *blocked* seconds."""


@frozen(kw_only=True)
class ObserverManifest(ExtensionManifest[Observer]):
    """An observer of an installed package, with an entry point in the group ``kiro_asgi.observers``."""
