"""Operations on stored responses: continue, retrieve, delete and cancel them, and list their input."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from functools import partial
from logging import getLogger
from types import MappingProxyType
from typing import Any, Final

import anyio
from attrs import define, evolve, field, frozen

from kiro_asgi.apis.responses.background import BackgroundJob, BackgroundResponses
from kiro_asgi.apis.responses.connection import Connection, OpenConnections
from kiro_asgi.apis.responses.conversations import ConversationOperations, Conversations, Page
from kiro_asgi.apis.responses.owners import Owner
from kiro_asgi.apis.responses.stored import (
    Compacting,
    CompactingAlone,
    ConnectionResponses,
    Keep,
    Keeping,
    Recorded,
    Responses,
    not_built_on,
)
from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.exchange.facts import ClientRequest, PassthroughRequest
from kiro_asgi.asgi.exchange.reports import wants_notes
from kiro_asgi.asgi.protocol import JSON, Disconnected, Message, Scope, Send, query_values, respond_in_pieces
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.dialects.errors import invalid, unsupported
from kiro_asgi.dialects.known import ArrayDecoder
from kiro_asgi.dialects.openai_responses.compaction import compaction_request, halves, untriggered
from kiro_asgi.dialects.openai_responses.compaction_encoder import EncoderStyles
from kiro_asgi.dialects.openai_responses.frames import Create
from kiro_asgi.dialects.openai_responses.kept import deleted
from kiro_asgi.dialects.openai_responses.parsing import (
    SUPPLIED,
    ResponsesOptions,
    conversation_named,
    parse_value,
    read_recalled,
    recalling_decoder,
)
from kiro_asgi.dialects.openai_responses.passthrough import passed_options, passed_value
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.dialects.passthrough import head_of
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.errors import KiroAsgiError, NoWebSocket, RequestError
from kiro_asgi.model.notes import Notes
from kiro_asgi.observers.base import Outcome
from kiro_asgi.state.base import Store
from kiro_asgi.state.memory import ENTRY_BYTES, MemoryStore
from kiro_asgi.wire.json import dumps, loads

_log = getLogger("kiro_asgi")

_SECOND_LOOK: Final = 0.1
"""Seconds after which a response that is not there is looked for again, where another process may be writing it."""

_ENCODERS: Final = MappingProxyType({"auto": EncoderStyles(), "comment": EncoderStyles.commenting()})
"""Style of heartbeats to its encoders."""

_COMPACTING: Final = MappingProxyType({"messages": Compacting, "item": CompactingAlone})
"""Word of ``responses.compact_output`` to the dialect of a request to compact."""

_INPUT: Final = re.compile(r"\binput\[(\d{1,9})\]")


@frozen
class _Request:
    """A request with everything that it builds on."""

    dialect: Recorded
    own: Any
    """As it came."""

    value: Any
    """With all of that in its input."""

    earlier: int
    """Items at the beginning of the input that are not the request's own."""

    size: int
    """Bytes of all."""

    noted: bool
    """Whether notes on what no service receives are wanted."""

    decoder: ArrayDecoder | None = None
    """What has read it, if it is as it came; ``None`` where no earlier requests are looked at."""


@define
class ResponsesOperations(ConversationOperations):
    """The operations on responses, and on the conversations that they belong to, of one app.

    Each request has a dialect of its own, with the client's seal; of the one that it is made with only the name counts.
    """

    _held: Store = field(init=False)
    """Responses that connections hold."""

    _connections: OpenConnections = field(init=False)
    _key: bytes = field(init=False, repr=False)
    _background: BackgroundResponses = field(init=False)
    _styles: EncoderStyles = field(init=False)
    _compacting: type[Compacting] = field(init=False)
    _lasting: bool = field(init=False)
    """Whether the key is known to other processes and to later ones, or the log has a warning that it is not."""

    _has_explained: bool = field(init=False, default=False)
    """Whether the log says why a response may be missing."""

    def __attrs_post_init__(self) -> None:
        settings, store = self._gateway.settings, self._gateway.store
        state = settings.state
        second_look = _SECOND_LOOK if state.is_shared else 0.0
        most, offload = settings.limits.body_bytes, self._gateway.offload
        self._apart = offload.apart()
        self._responses = Responses(store, state.ttl, most, second_look, self._missed, offload)
        self._conversations = Conversations(self._responses, _largest_conversation(settings), offload, self._apart)
        heartbeat = settings.stream.heartbeat
        self._background = BackgroundResponses(self._responses, self._gateway.wall, heartbeat, self._apart)
        self._styles = _ENCODERS[settings.stream.heartbeat_style]
        self._compacting = _COMPACTING[settings.responses.compact_output]
        self._connections = OpenConnections(settings.responses.websockets)
        self._held = MemoryStore(state.entries, state.bytes)
        self._key, self._lasting = state.seal_key.encode() or secrets.token_bytes(32), bool(state.seal_key)

    async def answer(self, call: Call, argument: str) -> None:
        """Answer, and keep the answer unless the client does not want that."""
        body, gateway = await call.body(self._gateway.settings.limits), self._gateway
        recalled = gateway.known(self._dialect, call.principal, len(body))
        decoder = None if recalled is None else recalling_decoder(recalled)
        read = partial(read_json, body) if decoder is None else partial(read_recalled, body, decoder)
        value, size = await gateway.offload.run(len(body), read), len(body)
        if isinstance(value, dict) and value.get("background") is True:
            await self._answer_later(call, value, size)
            return
        request, _, send = await self._request(call, value, size, self._responses, decoder)
        await self._gateway.reply(call, request, send)

    async def _answer_later(self, call: Call, value: Any, size: int) -> None:
        """Have the answer made in the background, and report its state, or stream it."""
        gateway = self._gateway
        dialect, parsed, earlier, size = await self._read(call, value, size, self._responses)
        if not gateway.settings.responses.background:
            raise unsupported("background", "switched off here (responses.background)")
        self._warn_of(parsed.options)
        request = gateway.request(call, dialect, size, parsed)
        call.model = request.model
        await gateway.exchanges.models.targets(request.model)
        dialect, streamed = evolve(dialect, settled=request.meta), evolve(parsed, stream=True)
        keep: Keep = partial(self._responses.replace, call.principal)
        if parsed.options.conversation is not None:
            keep = partial(self._conversations.extend, call.principal, parsed.options.conversation, keep)

        async def answer(job: BackgroundJob) -> Call:
            async def handle(own: Call, argument: str) -> None:
                own.hold(size)
                shorter = await self._shortened(own, value, streamed, size)
                recorded = evolve(dialect, settled=evolve(request.meta, options=shorter.options))
                inner = gateway.request(own, recorded, size, shorter)
                keeping = Keeping(keep, recorded, earlier, size, self._apart, own.send)
                await gateway.reply(own, inner, keeping.send)

            return await gateway.answer_within(call.scope, job.receive, job.send, handle)

        items = untriggered(parsed.options.input_items[earlier:])
        job = BackgroundJob(
            self._responses,
            gateway.settings,
            gateway.wall,
            call.principal,
            dialect,
            request.meta,
            items,
            self._apart,
            size,
            answer,
        )
        queued = await job.begin()
        try:
            gateway.background.start(job.run, call.principal)
        except KiroAsgiError:
            await job.discard()
            raise
        if parsed.stream:
            await self._background.stream(call, job.id, -1)
        else:
            await call.respond(200, queued, [JSON])

    async def converse(self, call: Call, argument: str) -> None:
        """Answer the requests of a WebSocket, one after the other."""
        if not self._gateway.settings.responses.websocket:
            raise NoWebSocket("WebSocket is switched off here; use HTTP", code="websocket_not_supported")
        known = self._responses.of_connection(self._held, call.request_id)
        try:
            with self._connections.another(call.principal):
                await Connection(call, self._gateway, known, partial(self._answer_frame, known)).run()
        finally:
            with anyio.CancelScope(shield=True):
                await known.let_go_all()

    async def _answer_frame(self, known: ConnectionResponses, create: Create, call: Call, argument: str) -> None:
        """Answer one request of a WebSocket, which may go on with a response that is not stored."""
        call.hold(create.size)
        if create.generates and call.observation is not None:
            call.observation.take_frame(create.value)
        value = create.value if create.generates else {**create.value, "context_management": None}  # nothing is asked
        request, dialect, send = await self._request(call, value, create.size, known)
        if create.generates:
            await self._gateway.reply(call, request, send)
            return
        call.model = request.model
        await self._gateway.exchanges.models.targets(request.model)  # which there are, or nothing can follow
        events = dialect.encoder(request.meta).without_answer()
        await respond_in_pieces(call.in_time(send), 200, events, [(b"content-type", dialect.traits.stream_type)])

    async def _request(
        self, call: Call, value: Any, size: int, known: Responses, decoder: ArrayDecoder | None = None
    ) -> tuple[ClientRequest, Recorded, Send]:
        """The request of *value*, of *size* bytes, which the *decoder* has read, its dialect, and the way out, on which
        the answer is kept."""
        completed = await self._completed(call, value, size, known)
        if completed.value is value:  # nothing stands before its input, or within it
            completed = evolve(completed, decoder=decoder)
        source, dialect = await self._passing(call, completed), completed.dialect
        parsed, refusal = await self._gateway.offload.run(completed.size, partial(_read_or_refused, completed))
        if source is None:
            if refusal is not None:
                raise refusal
            parsed = await self._shortened(call, value, parsed, completed.size)
        options = parsed.options
        self._warn_of(options)
        keep = partial(known.keep, call.principal) if options.store else known.unstored
        refer = partial(known.refer, call.principal) if options.store else None
        if options.conversation is not None:
            keep = partial(self._conversations.extend, call.principal, options.conversation, keep)
        request = self._gateway.request(call, dialect, completed.size, parsed, source, refusal)
        if keep is None:
            return request, dialect, call.send
        keeping = Keeping(keep, dialect, completed.earlier, completed.size, self._apart, call.send, refer)
        return request, dialect, keeping.send

    async def _passing(self, call: Call, completed: _Request) -> PassthroughRequest | None:
        """The request as it may go on to a service of this API; ``None`` where there is none, or a part of it is the
        gateway's."""
        if not self._gateway.passes(self._dialect):
            return None
        passed = await self._gateway.offload.run(completed.size, partial(passed_value, completed.value))
        return PassthroughRequest.of(completed.dialect, passed, tuple(call.scope.get("headers") or ()))

    async def _shortened(self, call: Call, value: Any, parsed: ParsedRequest, size: int) -> ParsedRequest:
        """The request *value*, read as *parsed*, with a compaction in its input where that is longer than it wants.

        The compaction is a request of its own, for quotas and observers, too.
        """
        threshold = parsed.options.compact_threshold
        old, new = halves(parsed.options.input_items)
        if threshold is None or not old or parsed.options.compacts:
            return parsed
        if await self._gateway.exchanges.count(parsed.prompt, size, call.hold) <= threshold:
            return parsed
        compaction = await self._summary(call, {**value, "input": old, **dict.fromkeys(SUPPLIED)}, size)
        item = {"type": "compaction", "encrypted_content": compaction["encrypted_content"]}
        shortened = {**value, "input": [*old, item, *new]}
        shorter = await self._gateway.offload.run(size, partial(self._parsed, shortened, call.principal))
        options = evolve(shorter.options, input_items=parsed.options.input_items, compaction=compaction)
        return evolve(parsed, prompt=shorter.prompt, options=options)

    async def _summary(self, call: Call, value: Any, size: int) -> Mapping[str, Any]:
        """``encrypted_content`` and ``usage`` of the compaction of *value*, made by a call of its own.

        Raises:
            KiroAsgiError: There is none.
        """
        body = bytearray()

        async def take(message: Message) -> None:
            body.extend(message.get("body", b""))

        async def compact(own: Call, argument: str) -> None:
            own.hold(size)
            dialect, parsed, _, _ = await self._read(
                own, compaction_request(value), size, self._responses, CompactingAlone
            )
            await self._gateway.reply(own, self._gateway.request(own, dialect, size, parsed), own.send)

        own = await self._gateway.answer_within(call.scope, call.receive, take, compact)
        if own.failure is not None:
            raise own.failure
        if own.outcome is not Outcome.COMPLETE:
            raise Disconnected
        made = loads(bytes(body))
        return {"encrypted_content": made["output"][-1]["encrypted_content"], "usage": made["usage"]}

    def _parsed(self, value: Any, principal: str) -> ParsedRequest:
        sealer = Sealer.create(self._key, principal)
        return parse_value(value, open_thinking=sealer.open, open_summary=sealer.open_summary)

    async def compact(self, call: Call, argument: str) -> None:
        """Answer with a compaction of the conversation."""
        body, size = await self._body(call)
        value = compaction_request(body)
        dialect, parsed, _, size = await self._read(call, value, size, self._responses, self._compacting)
        self._warn()
        await self._gateway.reply(call, self._gateway.request(call, dialect, size, parsed), call.send)

    async def _body(self, call: Call) -> tuple[Any, int]:
        """The value of a request's body, and the bytes of that."""
        body = await call.body(self._gateway.settings.limits)
        return await self._gateway.offload.run(len(body), partial(read_json, body)), len(body)

    async def count(self, call: Call, argument: str) -> None:
        """Report how large the input of a request is."""
        _, parsed, _, size = await self._read(call, *await self._body(call), self._responses)
        tokens = await self._gateway.exchanges.count(parsed.prompt, size, call.hold)
        await call.respond(200, dumps({"object": "response.input_tokens", "input_tokens": tokens}), [JSON])

    async def retrieve(self, call: Call, argument: str) -> None:
        """Send a response again, as it stands; or the events of one that was made in the background."""
        query = _query(call.scope)
        if query.get("stream", "false") not in ("true", "false"):
            raise invalid("stream", "expected true or false")
        if query.get("stream") == "true":
            after = query.get("starting_after", "-1")
            if not re.fullmatch("-1|[0-9]{1,15}", after):
                raise invalid("starting_after", "expected the number of an event")
            await self._background.stream(call, argument, int(after))
            return
        await self._send(call, (await self._background.get(Owner.of(call), argument)).response)

    async def delete(self, call: Call, argument: str) -> None:
        """Forget a response."""
        await self._background.forget(call.principal, argument)
        await call.respond(200, deleted(argument), [JSON])

    async def cancel(self, call: Call, argument: str) -> None:
        """Cancel a response that is made in the background; of one that has ended nothing changes."""
        kept = await self._responses.get(Owner.of(call), argument)
        if not kept.background:
            raise RequestError("only a response that is made in the background can be cancelled", code="")
        await self._send(call, (await self._background.cancel(Owner(call.principal), argument)).response)

    async def list_input(self, call: Call, argument: str) -> None:
        """List a response's own input, a page at a time."""
        page = Page.read(call.scope)
        kept = await self._responses.get(Owner.of(call), argument)
        await self._send(call, await self._stored(kept.size, lambda: page.of(kept.inputs, kept.listed)))

    async def _read(
        self, call: Call, value: Any, size: int, known: Responses, dialect: type[Recorded] = Recorded
    ) -> tuple[Recorded, ParsedRequest, int, int]:
        """The request *value*, of *size* bytes, with all of *known* that it builds on, how many items of its input come
        from there, and the bytes of all."""
        completed = await self._completed(call, value, size, known, dialect)
        parsed = await self._gateway.offload.run(completed.size, partial(_parse, completed))
        return completed.dialect, parsed, completed.earlier, completed.size

    async def _completed(
        self, call: Call, value: Any, size: int, known: Responses, dialect: type[Recorded] = Recorded
    ) -> _Request:
        """The request *value*, of *size* bytes, with all of *known* that it builds on."""
        sealer, full_value, earlier = Sealer.create(self._key, call.principal), value, 0
        if isinstance(value, dict):
            named = conversation_named(value)
            owner, conversation = Owner.of(call), None
            if named is not None:
                conversation, _ = await self._conversations.get(owner, named)
                conversation.require_room("conversation")
            stored = await known.complete(owner, value, conversation)
            full_value, earlier, size = stored.value, stored.earlier, size + stored.size
        made = dialect(sealer, self._gateway.wall, self._styles)
        return _Request(made, value, full_value, earlier, size, wants_notes(call.scope))

    def _missed(self) -> None:
        """Log once why responses may be missing, where the operator has not chosen a store for them."""
        if not self._has_explained and self._gateway.is_forgetful:
            self._has_explained = True
            _log.warning(
                "a response was not found: they are kept in the memory of each process, until it ends; with several "
                "processes, or to keep them, set state.engine to sqlite or valkey"
            )

    def _warn_of(self, options: ResponsesOptions) -> None:
        """Warn where the answer has, or may have, seals that other processes are to open."""
        if options.seals_reasoning or options.compacts or (options.store and self._gateway.settings.state.is_shared):
            self._warn()

    def _warn(self) -> None:
        """Warn once that seals will not outlive this process."""
        if not self._lasting:
            self._lasting = True
            _log.warning(
                "state.seal_key is not set: only this process can open reasoning that it has sealed; set the key"
            )


def _largest_conversation(settings: Settings) -> int:
    """Bytes of a conversation that is as large as a request may be, and no larger than what the store keeps: what it
    does not keep would be gone as soon as it was accepted."""
    state, most = settings.state, settings.limits.body_bytes
    if state.engine == "valkey":
        return most
    return min(most, max(state.bytes - ENTRY_BYTES, 0)) if state.entries else 0


def _parse(request: _Request) -> ParsedRequest:
    """Read *request*.

    Raises:
        RequestError: It is not legal; places are the client's.
    """
    value, earlier, sealer = request.value, request.earlier, request.dialect.sealer
    assert sealer is not None, "a dialect of operations"
    try:
        thinking, summary = sealer.open, sealer.open_summary
        if not request.noted:
            return parse_value(value, open_thinking=thinking, open_summary=summary, decoder=request.decoder)
        notes = OwnNotes(earlier=earlier)
        parsed = parse_value(value, open_thinking=thinking, open_summary=summary, notes=notes)
        return evolve(parsed, notes=notes.found())
    except RequestError as error:
        if (place := _INPUT.search(error.param)) and int(place[1]) < earlier:
            if value.get("conversation") is not None:
                raise invalid("conversation", f"an item cannot be read any more, delete it: {error.message}") from None
            _log.error("a conversation is damaged, and counts as missing: %s", error.message)
            raise not_built_on(value["previous_response_id"]) from None
        raise _shifted(error, earlier) from None


@define
class OwnNotes(Notes):
    """Notes on the client's own items, with the places that it knows; on those before them there were some already."""

    earlier: int = 0

    def applies(self, rule: str, place: str = "", times: int = 1, kept_for: str = "") -> bool:
        """As of `Notes`."""
        if found := _INPUT.match(place):
            index = int(found[1]) - self.earlier
            if index < 0:
                return True
            place = f"input[{index}]{place[found.end() :]}"
        return Notes.applies(self, rule, place, times, kept_for)


def _read_or_refused(request: _Request) -> tuple[ParsedRequest, RequestError | None]:
    """*request*, or what has to be known of one that is refused, so that a service of its API may judge it."""
    try:
        return _parse(request), None
    except RequestError as refusal:
        return evolve(head_of(request.value, refusal), options=passed_options(request.value)), refusal


def _shifted(error: RequestError, earlier: int) -> RequestError:
    """*error* with places as the client counts them, who sent the later items only."""

    def own(place: re.Match[str]) -> str:
        return f"input[{int(place[1]) - earlier}]"

    if earlier:
        error.message, error.param = _INPUT.sub(own, error.message), _INPUT.sub(own, error.param)
    return error


def _query(scope: Scope) -> dict[str, str]:
    """The query's parameters; of several of one name, the last.

    Raises:
        RequestError: There are too many.
    """
    return {name: values[-1] for name, values in query_values(scope).items()}
