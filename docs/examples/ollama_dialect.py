"""A client API with operations of its own: Ollama's, as its own clients speak it, in front of every service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from attrs import Factory, frozen

from kiro_asgi import KiroAsgiError, create_app
from kiro_asgi.dialects import (
    JSON_LINES,
    MODELS,
    AnswerWriter,
    ApiReply,
    ApiRequest,
    DialectManifest,
    Endpoint,
    JsonDialect,
    Listing,
    RequestHeaders,
    ResponseMeta,
    call_arguments,
    constant,
    dumps,
    loads,
    message_of,
)
from kiro_asgi.errors import UnknownModel
from kiro_asgi.model import events, message, prompt

ROLES = {"user": prompt.Role.USER, "assistant": prompt.Role.ASSISTANT, "tool": prompt.Role.USER}
LENGTH = (events.StopReason.LENGTH, events.StopReason.CONTEXT_FULL)


@frozen
class Function:
    name: str
    description: str = ""
    parameters: Mapping[str, Any] = Factory(dict)
    arguments: Mapping[str, Any] = Factory(dict)


@frozen
class Tool:
    """One that is offered, or a call of one."""

    function: Function


@frozen
class Said:
    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    images: tuple[str, ...] = ()
    tool_calls: tuple[Tool, ...] = ()
    tool_name: str = ""


@frozen
class Options:
    num_predict: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


@frozen(kw_only=True)
class ChatRequest:
    model: str
    messages: tuple[Said, ...]
    tools: tuple[Tool, ...] = ()
    options: Options = Options()
    stream: bool = True


@frozen(kw_only=True)
class GenerateRequest:
    model: str
    prompt: str
    system: str = ""
    options: Options = Options()
    stream: bool = True


class Chat(JsonDialect[Any]):
    """``/api/chat``, and what the other paths share with it."""

    name = "ollama"
    framing = JSON_LINES
    request: type[Any] = ChatRequest

    def at(self, endpoint: Endpoint, argument: str) -> Chat:
        return Generate(self.options) if endpoint.path == "/generate" else self

    def prompt(self, request: Any, headers: RequestHeaders) -> prompt.Prompt:
        system = tuple(said.content for said in request.messages if said.role == "system")
        tools = tuple(
            prompt.Tool(it.function.name, it.function.description, it.function.parameters, place=f"tools[{at}]")
            for at, it in enumerate(request.tools)
        )
        turns = tuple(_turns(request.messages))
        return prompt.Prompt(request.model, turns, system, tools, sampling=_sampling(request.options))

    def writer(self, meta: ResponseMeta) -> Lines:
        return Lines(meta, self)

    def part(self, **said: Any) -> dict[str, Any]:
        """The member of an answer that holds what the model says."""
        return {"message": {"role": "assistant", "content": "", **said}}

    def whole(self, answer: message.Message, meta: ResponseMeta) -> Any:
        thinking = "".join(it.text for it in answer.blocks if isinstance(it, message.ThinkingBlock))
        calls = [it for it in answer.blocks if isinstance(it, message.ToolCallBlock)]
        said: dict[str, Any] = {"content": answer.shown, **({"thinking": thinking} if thinking else {})}
        if calls:
            said["tool_calls"] = [_call(it.name, call_arguments(it) or {}) for it in calls]
        return {"model": meta.model, **self.part(**said), **_end(answer.stop_reason, answer.usage)}

    def envelope(self, error: KiroAsgiError) -> Any:
        return {"error": message_of(error)}

    def render_models(self, listings: Iterable[Listing], /) -> bytes:
        return dumps({"models": [{"name": it.card.id, "model": it.card.id} for it in listings]})

    @property
    def operations(self) -> Mapping[str, Any]:
        return {"show": self.show}

    async def show(self, request: ApiRequest) -> ApiReply:
        """An operation of its own: what a model can do."""
        name = loads(request.body).get("model", "")
        for each in await request.models():
            if each.card.id == name:
                can = ["completion", "tools", *["vision"] * each.card.images, *["thinking"] * each.card.thinks]
                return ApiReply(dumps({"capabilities": can, "details": {"family": each.owner}}))
        raise UnknownModel(f"model {name!r} not found")


class Generate(Chat):
    """``/api/generate``."""

    request = GenerateRequest

    def prompt(self, request: Any, headers: RequestHeaders) -> prompt.Prompt:
        system = (request.system,) if request.system else ()
        turns = (prompt.Turn(prompt.Role.USER, (prompt.Text(request.prompt),), "prompt"),)
        return prompt.Prompt(request.model, turns, system, sampling=_sampling(request.options))

    def part(self, content: str = "", **said: Any) -> dict[str, Any]:
        return {"response": content, **said}


class Lines(AnswerWriter):
    """A streamed answer."""

    def __init__(self, meta: ResponseMeta, dialect: Chat) -> None:
        super().__init__(meta)
        self.dialect = dialect

    def line(self, **said: Any) -> list[dict[str, Any]]:
        return [{"model": self.meta.model, **self.dialect.part(**said), "done": False}]

    def text(self, text: str) -> Iterable[Any]:
        return self.line(content=text)

    def thinking(self, text: str) -> Iterable[Any]:
        return self.line(thinking=text)

    def call(self, call: message.ToolCallBlock, arguments: Mapping[str, Any]) -> Iterable[Any]:
        return self.line(tool_calls=[_call(call.name, arguments)])

    def end(self, end: events.MessageEnd) -> Iterable[Any]:
        return [{"model": self.meta.model, **self.dialect.part(), **_end(end.stop_reason, end.usage)}]


def _turns(messages: Iterable[Said]) -> Iterator[prompt.Turn]:
    """Results name no call: they are for the calls before them, in their order."""
    waiting: list[str] = []
    for at, said in enumerate(messages):
        place, parts = f"messages[{at}]", list[prompt.Part]()
        if said.role == "tool":
            result = prompt.ToolResult(waiting.pop(0) if waiting else f"call_{at}", (prompt.Text(said.content),))
            yield prompt.Turn(prompt.Role.USER, (result,), place)
        elif said.role != "system":
            parts += [prompt.Text(said.content)] if said.content else []
            parts += [prompt.Image("image/png", data, place=place) for data in said.images]
            for number, tool in enumerate(said.tool_calls):
                waiting.append(f"call_{at}_{number}")
                parts.append(prompt.ToolCallPart(waiting[-1], tool.function.name, tool.function.arguments))
            yield prompt.Turn(ROLES[said.role], tuple(parts), place)


def _sampling(options: Options) -> prompt.Sampling:
    most = options.num_predict if options.num_predict is not None and options.num_predict > 0 else None
    return prompt.Sampling(most, options.temperature, options.top_p, stop=options.stop, seed=options.seed)


def _call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


def _end(reason: events.StopReason, usage: events.Usage) -> dict[str, Any]:
    counts = {"prompt_eval_count": usage.prompt_tokens, "eval_count": usage.output_tokens}
    return {"done": True, "done_reason": "length" if reason in LENGTH else "stop", **counts}


OLLAMA = DialectManifest(
    name="ollama",
    title="Ollama",
    prefix="/api",
    endpoints=(
        Endpoint("POST", "/chat"),
        Endpoint("POST", "/generate"),
        Endpoint("GET", "/tags", MODELS),
        Endpoint("POST", "/show", "show"),
        constant("/version", {"version": "0.9.0"}),
    ),
    make=Chat,
)


def application() -> object:
    """The gateway, with settings from the environment, and this API beside those that it has."""
    return create_app(dialects=[OLLAMA])
