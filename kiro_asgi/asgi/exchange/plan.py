"""Plan of an answer's stages, from the request and the settings."""

from __future__ import annotations

from functools import partial
from typing import Final

from attrs import evolve

from kiro_asgi.asgi.exchange.facts import Estimate, Exchange, PromptExchange
from kiro_asgi.config import Settings, ToolSettings
from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.dialects.choices import choices_of
from kiro_asgi.limits import CHOICES
from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.prompt import Prompt, ThinkingMode, ToolChoice, ToolChoiceMode
from kiro_asgi.stages.answer import Plan, Repairs
from kiro_asgi.stages.arguments import USUAL, parse_names
from kiro_asgi.stages.citations import Citing
from kiro_asgi.stages.parts.argument_text import MENDINGS
from kiro_asgi.stages.thinking import KEPT, TAGS
from kiro_asgi.upstreams.base import Rendered, Upstream
from kiro_asgi.upstreams.settings import AnswerOptions

_TOKENS_A_SECOND: Final = 4000
"""Of a prompt that a model reads, at least."""

_GRACE: Final = 1.0
"""Seconds between a try's time-out and the commit that would hide it."""


_TOKEN: Final = 24
"""Random characters at the end of an answer's id."""


_ANSWER_TOKENS: Final = 4_096
"""Tokens that an answer is expected to have at most, where a limit is about to be reached."""


def expected_answer(parsed: ParsedRequest) -> int:
    """Tokens that the answers to *parsed* are expected to have: as long as the client allows, within reason, and as
    many as it asks for."""
    most, unread = parsed.prompt.sampling.max_tokens, parsed.prompt.unread
    each = _ANSWER_TOKENS if most is None else min(most, _ANSWER_TOKENS)
    return each * min(max(parsed.choices, 1 if unread is None else choices_of(unread.members)), CHOICES)


def plan_answer(exchange: PromptExchange, parsed: ParsedRequest, estimate: Estimate, settings: Settings) -> Plan:
    """The plan for one attempt at the answer to *parsed*, which is what *exchange* asks."""
    request, upstream, rendered = exchange.request, exchange.upstream, exchange.rendered
    route, prompt = exchange.route, parsed.prompt
    options, traits = route.provider.setup.answer_options, request.dialect.traits
    thinking, tags = _thinking(prompt, options, rendered)
    as_it_comes = parsed.stream and not settings.stream.synthetic
    answer_id = request.meta.id
    return Plan(
        api=request.dialect.name,
        streamed_api=request.dialect.name if as_it_comes else "",
        thinking=thinking,
        thinking_tags=tags,
        thinking_omitted=prompt.thinking.omitted,
        thinking_scan=options.thinking_scan if prompt.thinking.wanted or rendered.thinking_tags else "start",
        stop=rendered.stop,
        max_tokens=rendered.max_tokens,
        tool_emission=_tool_emission(settings.stream.tool_emission, as_it_comes),
        drop_equal_tool_calls=options.drop_equal_tool_calls,
        call_id_stem=f"call_{answer_id[-_TOKEN:]}",
        drop_repeated_text=options.drop_repeated_text,
        text_tools=_text_tools(prompt, rendered),
        mendings=_mendings(settings.tools),
        tool_input_bytes=settings.limits.tool_input_bytes,
        answer_bytes=settings.limits.answer_bytes,
        kept_whole=not as_it_comes or traits.repeats_answers,
        tool_names=rendered.tool_names,
        argument_names=rendered.argument_names,
        repairs=_repairs(prompt, rendered, settings.tools),
        server_tools=route.provider.toolbox.kinds(prompt) if prompt.tools else {},
        citing=_citing(prompt, upstream, settings, answer_id),
        cites_pages_only=upstream.traits.cites and traits.cites_pages_only,
        fingerprint=settings.recovery.enabled,
        keep_call_signatures=upstream.traits.signs_calls or bool(upstream.traits.thinking_owner),
        thinking_owner=upstream.traits.thinking_owner,
        other_signatures=prompt.thinking.wanted,
        lead_in=settings.stream.lead_in,
        tool_choice=_tool_choice(prompt, upstream),
        tool_promise=settings.promises.tool_choice,
        input_tokens=estimate.input_tokens,
        context_window=route.model.context_window,
        estimator=estimate.estimator,
        output_factor=estimate.output_factor,
        language=settings.stream.language if prompt.schema is None else "",
        schema=prompt.schema,
        stages=tuple(partial(make, prompt) for make in request.stages) if request.stages else (),
        # text that is to be JSON may go out before it is known to be
        schema_enforced=not (as_it_comes and (rendered.formed or settings.structured.streaming == "unchecked")),
    )


def first_event_timeout(options: AnswerOptions, tokens: int, *, thinks: bool) -> float:
    """Seconds from asking the upstream to its first event: longer prompts take longer to read, thinking to begin."""
    seconds = options.first_event_timeout + tokens // _TOKENS_A_SECOND
    return max(seconds, options.thinking_first_event_timeout) if thinks else seconds


def early_commit(exchange: Exchange, settings: Settings) -> float:
    """Seconds after which the head goes out without an event; 0 for never.

    A first try that may not even take that long keeps its status: only what comes after it is committed early.
    """
    after, timeout = settings.stream.early_commit_after, exchange.first_event_timeout
    return after if not after or after < timeout else max(after, timeout + _GRACE)


def _text_tools(prompt: Prompt, rendered: Rendered) -> frozenset[str]:
    """Names that the upstream has for tools that take a text."""
    names = {tool.name for tool in prompt.tools if tool.text_form is not None}
    return frozenset(names.union(wire for wire, name in rendered.tool_names.items() if name in names))


def _mendings(tools: ToolSettings) -> tuple[str, ...]:
    return tuple(name for name in MENDINGS if name not in tools.repairs_off) if tools.repairs_off else MENDINGS


def _repairs(prompt: Prompt, rendered: Rendered, tools: ToolSettings) -> Repairs:
    """For the client's own tools: the arguments of hosted ones are not its business."""
    schemas = {tool.name: tool.schema for tool in prompt.tools if not tool.hosted} if prompt.tools else {}
    if not schemas:
        return Repairs()
    return Repairs(
        schemas=schemas,
        aliases=rendered.tool_names,
        renames=(*parse_names(tools.parameter_names), *(USUAL if tools.remap_arguments else ())),
        twins=tools.remap_arguments,
        decode=tools.repair_encoding,
        drop_unknown=tools.filter_unknown,
        mcp_bridge=tools.mcp_bridge,
        spelling=tools.fuzzy_names,
        leaked_calls=tools.leaked_calls,
    )


def _tool_emission(emission: str, as_it_comes: bool) -> str:
    """Emission of tool calls: an answer that goes out in one piece need not decide early which of two is a call."""
    return emission if as_it_comes or emission == "end" else "collected"


def _citing(prompt: Prompt, upstream: Upstream, settings: Settings, answer_id: str) -> Citing | None:
    """Options of the list of sources; ``None`` with a schema too, as nothing may follow a JSON object."""
    if not upstream.traits.grounds or prompt.schema is not None:
        return None
    search = next((tool.name for tool in prompt.tools if tool.hosted == WEB_SEARCH), "")
    return Citing(settings.stream.language, search, answer_id, _is_search_demanded(prompt, upstream))


def _is_search_demanded(prompt: Prompt, upstream: Upstream) -> bool:
    """Whether the service reports its searches after an answer, and the answer has to rest on one."""
    if not (upstream.traits.grounds and prompt.tool_choice.demanded):
        return False
    return all(tool.hosted == WEB_SEARCH for tool in prompt.tools if prompt.tool_choice.permits(tool.name))


def _tool_choice(prompt: Prompt, upstream: Upstream) -> ToolChoice:
    """Tool choice that the answer must obey; no search is demanded in front of JSON, which could not show it."""
    choice = prompt.tool_choice
    if prompt.schema is None or not _is_search_demanded(prompt, upstream):
        return choice
    return evolve(choice, mode=ToolChoiceMode.AUTO, allowed=choice.permitted)


def _thinking(prompt: Prompt, options: AnswerOptions, rendered: Rendered) -> tuple[str, tuple[str, ...]]:
    """Handling of thinking, and the names of the tags that hold it.

    Tags count where thinking was asked for, or where the operator configures that models of this service write them;
    which models have thinking of their own is known from a table only.  A tag before demanded JSON can be nothing else.
    Thinking that was declined is dropped.
    """
    wanted = prompt.thinking
    tags = options.thinking_tags if wanted.wanted or rendered.thinking_tags else ()
    if prompt.schema is not None:
        tags = tags or options.thinking_tags or TAGS
    if wanted.mode is ThinkingMode.DISABLED:
        return "remove", tags
    return (options.thinking_handling, tags) if tags or options.thinking_handling != KEPT else ("", ())
