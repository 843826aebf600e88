"""An upstream from outside: River, a service that nobody has, which is asked in JSON and answers in lines of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import define, frozen, setters

from kiro_asgi import upstreams
from kiro_asgi.errors import UpstreamFault, UpstreamOverloaded, UpstreamProtocolError
from kiro_asgi.model import events
from kiro_asgi.model.prompt import Document, Image, Part, Prompt, Text, ToolCallPart, ToolResult, Turn
from kiro_asgi.upstreams import Credential, ModelCard, ModelPage, Notes, Rendered, count_of, object_of, text_of

ENDPOINT: Final = "https://river.example/v1"
MEDIA_TYPE: Final = "application/x-ndjson"
REASONS: Final = {"call": events.StopReason.TOOL_CALL, "length": events.StopReason.LENGTH}
DROPPED: Final = upstreams.Rule("thinking.dropped", "River takes no thinking back.", upstreams.Loss.CONTENT)


@frozen(kw_only=True)
class RiverSettings(upstreams.DirectSettings):
    """River's settings: those of every service that is asked with a key, and one of its own."""

    tone: str = upstreams.setting("plain", upstreams.Choices(("plain", "formal")))
    """How it speaks."""


@define(kw_only=True, on_setattr=setters.frozen)
class RiverUpstream(upstreams.DirectUpstream):
    """How River is asked, and its answers read; the rest is as with every service that is asked with a key."""

    tone: str

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        notes = Notes()
        told = () if prompt.schema is None else upstreams.schema_instructions(prompt.schema)
        lines = [{"who": "system", "text": text} for text in (*prompt.system, *told)]
        lines += [line for turn in prompt.turns for part in turn.parts for line in _lines(turn, part, notes)]
        permitted = (tool for tool in prompt.tools if prompt.tool_choice.permits(tool.name))
        tools = [{"name": tool.name, "about": tool.description, "input": tool.schema} for tool in permitted]
        limit = prompt.sampling.max_tokens
        body = {"model": model.id, "tone": self.tone, "lines": lines, "tools": tools, "limit": limit}
        url, data = self.url(credential, "/say", ENDPOINT), upstreams.dumps(body)
        request = self.post(url, credential, data, MEDIA_TYPE)
        return Rendered(request, stop=prompt.sampling.stop, notes=notes.found(), document=body)

    def decoder(self, content_type: str) -> tuple[upstreams.Stage[Any, Any], ...]:
        upstreams.require_media_type(content_type, (MEDIA_TYPE,))
        return upstreams.JsonLines(), Answer()

    def models_request(self, credential: Credential, *, page: str = "") -> upstreams.UpstreamRequest:
        return self.get(self.url(credential, "/models", ENDPOINT), credential)

    def parse_models(self, body: bytes) -> ModelPage:
        return ModelPage(upstreams.listed(upstreams.read_listing(body, list), _card))


def _card(entry: Any) -> ModelCard | None:
    name = text_of(object_of(entry), "name")
    return ModelCard(name, context_window=count_of(entry, "window") or 8_000, images=False) if name else None


def _lines(turn: Turn, part: Part, notes: Notes) -> Iterator[dict[str, Any]]:
    match part:
        case Text(text):
            yield {"who": turn.role.value, "text": text}
        case ToolCallPart(call_id, name, arguments):
            yield {"who": "assistant", "call": {"id": call_id, "name": name, "input": dict(arguments)}}
        case ToolResult(call_id, parts):
            yield {"who": "tool", "id": call_id, "text": "".join(it.text for it in parts if isinstance(it, Text))}
        case Image() | Document():
            raise upstreams.refusal("attachments", "images and documents", part.place or turn.place)
        case _:
            notes.applies(DROPPED.name, turn.place)


@define
class Answer:
    """The stage from River's lines to deltas: an answer is whole when a line with ``end`` has come."""

    _ended: bool = False

    def feed(self, items: Iterable[Mapping[str, Any] | events.Notice], /) -> Iterator[events.Delta]:
        for item in items:
            if isinstance(item, events.Notice):
                yield item
            elif error := text_of(item, "error"):
                kind = UpstreamOverloaded if error == "busy" else UpstreamFault
                raise kind(upstreams.clean(text_of(item, "message")) or "no explanation", code=f"river.{error}")
            elif end := text_of(item, "end"):
                self._ended = True
                yield events.TokenUsage(count_of(item, "read"), count_of(item, "wrote"))
                yield events.Stop(REASONS.get(end, events.StopReason.END))
            elif call := object_of(item.get("call")):
                arguments = upstreams.dumps(call.get("input")).decode()
                yield events.ToolCallFragment(text_of(call, "id"), text_of(call, "name"), arguments, stop=True)
            else:
                yield events.ThinkingDelta(text_of(item, "thought"))
                yield events.TextDelta(text_of(item, "text"))

    def flush(self) -> Iterator[events.Delta]:
        if not self._ended:
            raise UpstreamProtocolError("River's answer ended in the middle", code="stream.cut")
        yield from ()


def make(configured: upstreams.Configured[RiverSettings]) -> upstreams.Setup:
    """Everything that it takes to ask River; a larger upstream imports its modules here."""
    upstream = RiverUpstream(tone=configured.settings.tone, **upstreams.common(configured))
    return upstreams.direct_setup(configured, upstream, (DROPPED,), ENDPOINT)


RIVER: Final = upstreams.Manifest(name="river", title="River", settings=RiverSettings, make=make, probes=("brook",))
