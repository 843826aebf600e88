"""Operations at the paths of a client API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, cast

from attrs import define, evolve, frozen

from kiro_asgi.asgi.door.door import Handler
from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.exchange.embeddings import EmbeddingRequest
from kiro_asgi.asgi.exchange.factory import ExchangeFactory
from kiro_asgi.asgi.exchange.facts import ClientRequest, PassthroughRequest
from kiro_asgi.asgi.exchange.reports import wants_notes
from kiro_asgi.asgi.protocol import Receive, Scope, Send
from kiro_asgi.asgi.scheduling import Background, Offload, Pace
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import (
    ApiOperation,
    ApiReply,
    ApiRequest,
    CountingDialect,
    Dialect,
    EmbeddingDialect,
    ListingDialect,
    OperatingDialect,
    ParsedRequest,
    RecallingDialect,
)
from kiro_asgi.dialects.known import Recalled
from kiro_asgi.dialects.manifest import CONSTANT, DialectManifest, Endpoint, RoutedDialect
from kiro_asgi.dialects.passthrough import TransparentDialect
from kiro_asgi.errors import ConfigError, RequestError
from kiro_asgi.interface import call_lacks
from kiro_asgi.limits import KNOWN_BODY
from kiro_asgi.loops import PerLoop
from kiro_asgi.named import imported
from kiro_asgi.stages.own import OwnStage
from kiro_asgi.state.base import Store


@frozen(kw_only=True)
class Gateway:
    """Parts of the application that operations use."""

    settings: Settings
    store: Store
    is_forgetful: bool
    """Whether the store is the memory of this process, and the operator has not chosen that."""

    offload: Offload
    pace: PerLoop[Pace]
    exchanges: ExchangeFactory
    reply: Callable[[Call, ClientRequest, Send], Awaitable[None]]
    """Ask an upstream, and send the answer by the last argument."""

    count: Callable[[Call], Awaitable[None]]
    """Count a request that asks no upstream, and stores something here."""

    embed: Callable[[Call, EmbeddingRequest, Send], Awaitable[None]]
    """Ask an upstream for embeddings, and send them by the last argument."""

    answer_within: Callable[[Scope, Receive, Send, Handler], Awaitable[Call]]
    """Answer one request of a connection by the handler, as if it had come on its own; the scope is the connection's,
    as one of HTTP.  Gives the call, when it has ended."""

    recalled: Callable[[str, str], Recalled | None]
    """Gives what is known of a principal's earlier requests in the API of this name; ``None`` for nothing."""

    background: Background
    """Runs work that goes on without its request."""

    _stages: tuple[OwnStage, ...]
    _transparent: frozenset[str]
    """Client APIs that an upstream has itself."""

    _token: Callable[[], str]
    wall: Callable[[], float]
    """Seconds since the epoch."""

    def request(
        self,
        call: Call,
        dialect: Dialect,
        size: int,
        parsed: ParsedRequest,
        passthrough: PassthroughRequest | None = None,
        refusal: RequestError | None = None,
    ) -> ClientRequest:
        """The request of *call*, of *size* bytes."""
        return ClientRequest(
            request_id=call.request_id,
            principal=call.principal,
            permit=call.client.permits,
            hold=call.hold,
            dialect=dialect,
            size=size,
            parsed=parsed,
            passthrough=passthrough,
            refusal=refusal,
            stages=self._stages,
            head=lambda parsed: dialect.meta(parsed, self._token, int(self.wall())),
        )

    def known(self, dialect: Dialect, principal: str, size: int) -> Recalled | None:
        """What is known for a request of *size* bytes; ``None`` where its dialect has no use for that, or there is none
        worth the time."""
        recalls = dialect.traits.recalls and size >= KNOWN_BODY
        return self.recalled(principal, dialect.name) if recalls else None

    def passes(self, dialect: Dialect) -> bool:
        """Whether requests of *dialect* may go on as they are."""
        return dialect.traits.transparent and dialect.name in self._transparent


@define
class Operations:
    """The operations of an API that has none of its own."""

    _gateway: Gateway
    _dialect: Dialect

    async def answer(self, call: Call, argument: str) -> None:
        """Answer a request."""
        gateway = self._gateway
        request = await self._request(call, await call.body(gateway.settings.limits))
        await gateway.reply(call, request, call.send)

    async def _request(self, call: Call, body: bytes) -> ClientRequest:
        """The request.

        Raises:
            RequestError: It is not a legal request, and no upstream may take it as it came.
        """
        gateway, dialect, size = self._gateway, self._dialect, len(body)
        headers = tuple(call.scope.get("headers") or ())
        parse: Callable[[], ParsedRequest] = partial(dialect.parse, body, headers)
        if (recalled := gateway.known(dialect, call.principal, size)) is not None:
            parse = partial(cast(RecallingDialect, dialect).parse_recalled, body, headers, recalled)
        if wants_notes(call.scope):
            parse = partial(_with_notes, dialect, parse, body)
        if not gateway.passes(dialect):
            return gateway.request(call, dialect, size, await gateway.offload.run(size, parse))
        transparent = cast(TransparentDialect, dialect)
        parsed, refusal = await gateway.offload.run(size, partial(_read_or_refused, transparent, parse, body))
        passed = await gateway.offload.run(size, partial(transparent.passed, body))
        source = PassthroughRequest.of(transparent, passed, headers)
        return gateway.request(call, dialect, size, parsed, source, refusal)

    async def count(self, call: Call, argument: str) -> None:
        """Count the tokens of a prompt."""
        dialect, gateway = cast(CountingDialect, self._dialect), self._gateway
        body = await call.body(gateway.settings.limits)
        prompt = await gateway.offload.run(len(body), partial(dialect.parse_count, body))
        tokens = await gateway.exchanges.count(prompt, len(body), call.hold)
        await call.respond(200, dialect.render_count(tokens), [(b"content-type", dialect.traits.body_type)])

    async def embed(self, call: Call, argument: str) -> None:
        """Make embeddings of texts."""
        dialect, gateway = cast(EmbeddingDialect, self._dialect), self._gateway
        body = await call.body(gateway.settings.limits)
        await gateway.pace.here().wait()
        parsed = await gateway.offload.run(len(body), partial(dialect.parse_embeddings, body))
        request = EmbeddingRequest(
            request_id=call.request_id,
            permit=call.client.permits,
            dialect=dialect,
            size=len(body),
            parsed=parsed,
            hold=call.hold,
        )
        await gateway.embed(call, request, call.send)

    async def models(self, call: Call, argument: str) -> None:
        """List the models that the client may ask for."""
        dialect, gateway = cast(ListingDialect, self._dialect), self._gateway
        body = dialect.render_models(await gateway.exchanges.models.listings(call.client.permits))
        await call.respond(200, body, [(b"content-type", dialect.traits.body_type)])

    async def model(self, call: Call, argument: str) -> None:
        """Describe the model that the path names."""
        call.model, dialect, gateway = argument, cast(ListingDialect, self._dialect), self._gateway
        body = dialect.render_model(await gateway.exchanges.models.listing(argument, call.client.permits))
        await call.respond(200, body, [(b"content-type", dialect.traits.body_type)])


def _read_or_refused(
    dialect: TransparentDialect, parse: Callable[[], ParsedRequest], body: bytes
) -> tuple[ParsedRequest, RequestError | None]:
    """The request, or what has to be known of one that is refused, so that a service of its API may judge it."""
    try:
        return parse(), None
    except RequestError as refusal:
        return dialect.head(body, refusal), refusal


def _with_notes(dialect: Dialect, parse: Callable[[], ParsedRequest], body: bytes) -> ParsedRequest:
    parsed = parse()
    return evolve(parsed, notes=dialect.notes(body, parsed))


def handlers_of(api: DialectManifest, dialect: Dialect, gateway: Gateway) -> dict[Endpoint, Handler]:
    """Make the handler of each route of *api*.

    Raises:
        ConfigError: Its operations are not where it says, or one of its endpoints names an unknown one.
    """
    place = f"the manifest of the client API {api.name!r} has operations"
    make = imported(api.operations, place, code="config.manifest")
    if words := call_lacks(make, _make_operations):
        raise ConfigError(f"{place} = {api.operations!r}, which {words}", code="config.manifest")
    own = dialect.operations if isinstance(dialect, OperatingDialect) else {}
    made, handlers = make(gateway, dialect), dict[Endpoint, Handler]()
    known = tuple(_operations_of(made))
    for endpoint, route in zip(api.endpoints, api.routes, strict=True):
        name = endpoint.operation
        if name == CONSTANT:
            handlers[route] = partial(_answer_constant, endpoint)
        elif name in own:
            handlers[route] = partial(_operate, gateway, name, own[name])
        elif name not in known:
            raise _no_operation(api, name, route, (*own, *known))
        elif isinstance(dialect, RoutedDialect):
            handlers[route] = partial(_answer_at, partial(make, gateway), dialect, endpoint)
        else:
            handlers[route] = getattr(made, name)
    return handlers


def _make_operations(gateway: Gateway, dialect: Dialect, /) -> Any:
    raise NotImplementedError


def _operations_of(made: object) -> Iterator[str]:
    return (name for name in dir(made) if not name.startswith("_") and iscoroutinefunction(getattr(made, name)))


def _no_operation(api: DialectManifest, name: str, route: Endpoint, known: Iterable[str]) -> ConfigError:
    message = f"dialects: {api.name} has no operation {name!r} for {route.path}; there are {', '.join(known)}"
    return ConfigError(message, code="dialects")


async def _answer_constant(endpoint: Endpoint, call: Call, argument: str) -> None:
    await call.respond(200, endpoint.content, [(b"content-type", endpoint.content_type)])


async def _answer_at(
    make: Callable[[Dialect], Any], dialect: RoutedDialect, endpoint: Endpoint, call: Call, argument: str
) -> None:
    """Run the operation with the dialect of this endpoint."""
    await getattr(make(dialect.at(endpoint, argument)), endpoint.operation)(call, argument)


async def _operate(gateway: Gateway, name: str, operation: ApiOperation, call: Call, argument: str) -> None:
    """Run an operation of the API's own.

    Raises:
        TypeError: It gave no reply.
    """
    request = ApiRequest(
        body=await call.body(gateway.settings.limits),
        headers=tuple(call.scope.get("headers") or ()),
        argument=argument,
        principal=call.principal,
        models=partial(gateway.exchanges.models.listings, call.client.permits),
    )
    reply = await operation(request)
    if not isinstance(reply, ApiReply):
        raise TypeError(f"the operation {name!r} gave {type(reply).__name__}; return a kiro_asgi.dialects.ApiReply")
    await call.respond(reply.status, reply.body, [(b"content-type", reply.content_type), *reply.headers])
