"""Render a prompt as a request body, with the thinking that it asks for, no larger than the service reads.

The service has no field for a system text.  It is sent as the first exchange of the history, a user's message and
the assistant's consent, and not in front of the user's first message: so the beginning of a conversation is the same
bytes in every request, which is what prompt caching and the signatures of thinking depend on, and the user's own
texts stay as they are.

Empty members are left out: the service refuses null, and some empty lists.  That goes for an empty profile, too.  Tools
stand with the current message only, and no cache point is ever sent: the service takes it for a mistake.

A request that is too large is refused here, before it costs a call and is refused without a reason.  The service
answers "Improperly formed request." to a body of about 615 KB for a model with a window of 200,000 tokens, and takes
more for models with larger ones.  Images and documents are counted otherwise, and not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.errors import ContextTooLong
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Part,
    Prompt,
    Role,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
)
from kiro_asgi.rendering.argument_names import CLAUDE, with_plain_arguments
from kiro_asgi.rendering.attachments import Attachments
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.options import ignored, length
from kiro_asgi.rendering.refusal import too_long
from kiro_asgi.rendering.strict_turns import Pairing
from kiro_asgi.rendering.turns import begun, ended
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro.rules import turns
from kiro_asgi.upstreams.kiro.rules.drafts import DOCUMENTS, IMAGES, MessageDraft, MessageWriter
from kiro_asgi.upstreams.kiro.rules.kept import Message, Tools
from kiro_asgi.upstreams.kiro.rules.texts import Texts, call_ids, paragraphs, tool_names
from kiro_asgi.upstreams.kiro.rules.tools import Specifications, directives, offered
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.models import BUDGETS, MIN_BUDGET, effort_of, nearest_effort
from kiro_asgi.wire.json import dumps

MAX_BUDGET: Final = 24_576
DEFAULT_BUDGET: Final = 10_000

MIN_OUTPUT: Final = 1_024
"""Least ``max_tokens`` that the service takes."""


def _thinking_options(prompt: Prompt, model: ModelCard, notes: Notes) -> dict[str, Any]:
    """``additionalModelRequestFields`` for *model*; empty where nothing is asked for, or the model lacks the fields.

    Every model lists the free fields that it takes, and refuses a request with any other.  Two families are known: one
    takes ``output_config.effort`` and ``thinking``, the other ``reasoning.effort``.
    """
    fields = _fields(model)
    chosen: dict[str, Any] = {}
    effort = _effort(prompt.thinking, model.efforts, notes)
    if effort and "output_config" in fields:
        chosen["output_config"] = {"effort": effort}
    if effort and "reasoning" in fields:
        chosen["reasoning"] = {"effort": effort}
    if "thinking" in fields and (switch := _switch(prompt.thinking, bool(model.options_schema))):
        switch = _listed(switch, fields["thinking"])
        if "type" in switch:
            chosen["thinking"] = switch
    if "max_tokens" in fields and prompt.sampling.max_tokens is not None:
        chosen["max_tokens"] = length(prompt.sampling.max_tokens, MIN_OUTPUT, model.max_output_tokens, notes)
    return chosen


def _wants_tags(prompt: Prompt, model: ModelCard, notes: Notes, *, allowed: bool) -> bool:
    """Whether to ask for thinking in tags: where it is wanted, *allowed*, and the model has nothing better."""
    thinking = prompt.thinking
    if not (thinking.wanted or thinking.effort not in ("", "none")) or _is_native(model):
        return False
    if allowed and thinking.wanted and notes.applies("thinking.tags"):
        return True
    notes.applies("thinking.unavailable")
    return False


def _is_native(model: ModelCard) -> bool:
    """Whether the model can be asked for thinking in request fields."""
    return bool(model.efforts) or "thinking" in _fields(model)


def _thinking_instruction(thinking: Thinking) -> str:
    """The request for thinking as text; it goes with the current message only, never into history."""
    budget = thinking.budget_tokens or (BUDGETS.get(thinking.effort, MAX_BUDGET) if thinking.effort else DEFAULT_BUDGET)
    budget = min(max(budget, MIN_BUDGET), MAX_BUDGET)
    return (
        "Before you answer, reason about the task step by step. Begin your reply with <thinking>, write the reasoning, "
        f"close it with </thinking> and a blank line, and only then give the answer. Use at most {budget} tokens for "
        "the reasoning, and do not mention it or the tags in the answer."
    )


def _fields(model: ModelCard) -> Mapping[str, Any]:
    """The free fields that the model takes; for a model that only our own table knows, those of its family."""
    properties = model.options_schema.get("properties")
    if isinstance(properties, Mapping):
        return properties
    if not model.efforts:
        return {}
    return {"reasoning": {}} if model.id.startswith("gpt-") else {"output_config": {}, "thinking": {}}


def _listed(switch: dict[str, str], schema: Any) -> dict[str, str]:
    """The members of *switch* that *schema* lists: the service refuses every other member and value."""
    members = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(members, Mapping):
        return switch
    return {
        name: value
        for name, value in switch.items()
        if isinstance(member := members.get(name), Mapping) and value in (member.get("enum") or (value,))
    }


def _effort(thinking: Thinking, efforts: tuple[str, ...], notes: Notes) -> str:
    if thinking.mode is ThinkingMode.DISABLED or thinking.effort == "none":
        return "none" if "none" in efforts else ""
    wanted = thinking.effort
    if not wanted and thinking.budget_tokens is not None:
        wanted = effort_of(thinking.budget_tokens)
    if not wanted:
        return ""
    nearest = nearest_effort(wanted, tuple(level for level in efforts if level != "none"))
    return nearest if nearest == wanted or not efforts or notes.applies("thinking.effort") else wanted


def _switch(thinking: Thinking, certain: bool) -> dict[str, str]:
    """Summaries are asked for by name: by default, the thinking of an adaptive model is not shown."""
    if thinking.wanted:
        return {"type": "adaptive", "display": "summarized"}
    return {"type": "disabled"} if certain and thinking.mode is ThinkingMode.DISABLED else {}


CONSENT: Final = "I will follow these instructions."
"""The assistant's answer to the system text."""

TASK_TYPES: Final = ("vibe", "spectask")

SIDES: Final[Mapping[Role, str]] = MappingProxyType(
    {Role.USER: "userInputMessage", Role.ASSISTANT: "assistantResponseMessage"}
)


_CONTEXT: Final = "userInputMessageContext"


@frozen
class RequestBody:
    """A request body, and facts about it."""

    body: dict[str, Any]
    names: WireNames
    thinking_tags: bool
    notes: Notes
    preface: int = 0
    """Messages at the beginning of the history that are the system text."""


def document(
    prompt: Prompt,
    model: ModelCard,
    settings: KiroSettings,
    *,
    adaptations: Iterable[str] = (),
    conversation_id: str,
    profile_arn: str,
) -> RequestBody:
    """The request body for *prompt*; *adaptations* are rules that earlier refusals put in force.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes = Notes(frozenset(settings.rules_off))
    for rule in adaptations:
        notes.applies(rule)
    names, texts = tool_names(notes), Texts(notes, settings.sanitize_text, settings.strip_system_reminders)
    prompt, names.arguments = with_plain_arguments(prompt, CLAUDE, notes)
    images, used = _survey(prompt)
    as_text = settings.tool_history == "text"
    tools = offered(prompt, {} if as_text else used, notes)
    purpose = settings, model.id, model.images
    specifications = Specifications(notes, names, texts, settings.description_limit, purpose)
    written = specifications.write(tools)
    attachments = Attachments(notes, IMAGES, DOCUMENTS, blind="" if model.images else model.id)
    surplus = images - settings.max_images
    writer = MessageWriter(notes, names, texts, attachments, surplus, settings.replay_thinking, purpose)
    pairing = Pairing(call_ids(notes), notes)
    ordered = ended(begun(pairing.paired(prompt.turns), notes), prefilled=False, notes=notes)
    drafts = writer.messages(pairing.answered(ordered))
    for step in turns.TEXT if as_text else turns.NATIVE:
        drafts = step(drafts, notes)
    tagged = _wants_tags(prompt, model, notes, allowed=settings.fake_reasoning_enabled)
    if tagged:
        drafts[-1].text = paragraphs(_thinking_instruction(prompt.thinking), drafts[-1].text)
    options = _thinking_options(prompt, model, notes)
    preface = [*_preface(prompt, specifications.manifest(), names, texts, notes)]
    _require_messages([*preface, *drafts], prompt, notes)
    ignored(prompt.sampling, _IGNORED, "sampling.ignored", notes)
    state = _state([*preface, *drafts], model, settings, written, conversation_id)
    if settings.cache_points == "prefix":
        _mark_prefixes(state)
    body = {"conversationState": state, "profileArn": profile_arn, "additionalModelRequestFields": options}
    return RequestBody(_present(body), names, tagged, notes, len(preface))


def _survey(prompt: Prompt) -> tuple[int, dict[str, str]]:
    """How many images there are, and the names of the tools that were called, each with the place of its first call."""
    images = 0
    used: dict[str, str] = {}
    for turn in prompt.turns:
        for part in turn.parts:
            if type(part) is ToolCallPart:
                used.setdefault(part.name, turn.place)
            elif type(part) is ToolResult:
                images += sum(type(inner) is Image for inner in part.parts)
            elif type(part) is Image:
                images += 1
    return images, used


def _preface(prompt: Prompt, manifest: str, names: WireNames, texts: Texts, notes: Notes) -> Iterator[MessageDraft]:
    """The system text as an exchange; what changes from request to request stands last."""
    place = prompt.system_place if prompt.system else ""
    cleaned = [texts.clean(text, place) for text in prompt.system]
    system = paragraphs(*cleaned, manifest, *directives(prompt, names, notes))
    if system and notes.applies("system.exchange", place):
        yield MessageDraft(Role.USER, place, system)
        yield MessageDraft(Role.ASSISTANT, place, CONSENT)


_IGNORED: Final = ("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty")
"""Fields of `kiro_asgi.model.prompt.Sampling` for which the service has no place."""


def _state(
    drafts: list[MessageDraft],
    model: ModelCard,
    settings: KiroSettings,
    specifications: list[dict[str, Any]],
    conversation_id: str,
) -> dict[str, Any]:
    *before, last = drafts
    history = [_item(each, model.id, settings.origin) for each in before]
    current = _message(last, model.id, settings.origin)
    if specifications:
        user = next(iter(current.values()))
        user.setdefault(_CONTEXT, {})["tools"] = specifications
    return _present(
        {
            "chatTriggerType": "MANUAL",
            "agentTaskType": settings.agent_mode if settings.agent_mode in TASK_TYPES else "",
            "conversationId": conversation_id,
            "history": history,
            "currentMessage": current,
        }
    )


_CACHE_POINT: Final = {"type": "default"}


def _mark_prefixes(state: dict[str, Any]) -> None:
    """Mark how far the prompt is the same in the next request: its beginning, and what the user said last and before.

    Sources: https://github.com/anomalyco/opencode/pull/18768, which has the member, and who claims that it helps.
    """
    user = SIDES[Role.USER]
    items = [*state.get("history", ()), state["currentMessage"]]
    users = [index for index, item in enumerate(items) if user in item]
    for index in (*users[:1], *users[1:][-2:]):
        items[index] = {user: {**items[index][user], "cachePoint": _CACHE_POINT}}
    *history, state["currentMessage"] = items
    if history:
        state["history"] = history


def _item(each: MessageDraft, model_id: str, origin: str) -> dict[str, Any]:
    """One item of the history: that of an earlier request, where the turn is of one."""
    written = each.written
    if written is None or not written.is_still(each):
        return _message(each, model_id, origin)
    if written.item is None:
        written.item = Message(_message(each, model_id, origin))
    return written.item


def _message(each: MessageDraft, model_id: str, origin: str) -> dict[str, Any]:
    """One item of the history, or the current message."""
    fields: dict[str, Any] = {"content": each.text}
    if each.role is Role.USER:
        fields["modelId"], fields["origin"] = model_id, origin
    if each.images:
        fields["images"] = each.images
    if each.documents:
        fields["documents"] = each.documents
    if each.results:
        fields[_CONTEXT] = {"toolResults": each.results}
    if each.calls:
        fields["toolUses"] = each.calls
    if each.thinking:
        fields["reasoningContent"] = each.thinking[0] if len(each.thinking) == 1 else each.thinking
    return {SIDES[each.role]: fields}


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}


MAX_MESSAGE: Final = 600_000
"""Characters of a user's message."""

MAX_RESULT: Final = 800_000
"""Characters of one tool result."""

WINDOW: Final = 200_000
"""Tokens of the window for which ``payload_bytes`` is set."""

TRIMMED: Final = "Earlier exchanges of this conversation were left out, because it had become too long."


def _require_messages(drafts: list[MessageDraft], prompt: Prompt, notes: Notes) -> None:
    """Stop at a message or a result that is longer than the service reads.

    Raises:
        ContextTooLong: There is one; ``param`` names the client's largest turn.
    """
    for draft in drafts:
        if len(draft.text) > MAX_MESSAGE and draft.role is Role.USER and "size.message" not in notes.off:
            raise _too_long("size.message", f"a message of {len(draft.text):,} characters", MAX_MESSAGE, prompt)
        for result in draft.results:
            size = sum([len(part["text"]) for part in result["content"]])
            if size > MAX_RESULT and "size.result" not in notes.off:
                raise _too_long("size.result", f"a tool's result of {size:,} characters", MAX_RESULT, prompt)


def fitted(written: RequestBody, prompt: Prompt, model: ModelCard, settings: KiroSettings) -> bytes:
    """The body as bytes, no more than the model's window has room for.

    Raises:
        ContextTooLong: It has more; ``param`` names the client's largest turn, or the tools or the system text.
    """
    data = _dumped(written.body)
    limit = settings.payload_bytes * model.context_window // WINDOW
    if not limit or len(data) <= limit or (size := _measure(data, written.body)) <= limit:
        return data
    if settings.trim_history and _trim(written.body, size - limit, prompt, written.notes, kept=written.preface):
        data = _dumped(written.body)
        size = _measure(data, written.body)
    if size > limit and "size.payload" not in written.notes.off:
        raise _too_long("size.payload", f"a request of {size:,} bytes", limit, prompt)
    return data


_NO_HISTORY, _NO_TOOLS = b'"history":[]', b'"tools":[]'
"""As they stand in a body before, and behind, everything that is the client's and no text."""


def _dumped(body: Mapping[str, Any]) -> bytes:
    """*body* as JSON, of which what was written for an earlier request is at hand."""
    state = dict(body["conversationState"])
    history, tools = state.get("history", ()), _tools(state["currentMessage"])
    if is_known := Message in map(type, history):
        state["history"] = ()
    if type(tools) is Tools:
        state["currentMessage"] = _with_tools(state["currentMessage"], ())
    data = dumps({**body, "conversationState": state})
    if type(tools) is Tools:
        before, _, behind = data.rpartition(_NO_TOOLS)
        data = b"".join((before, _NO_TOOLS[:-2], tools.data, behind))
    if is_known:
        before, _, behind = data.partition(_NO_HISTORY)
        items = b",".join([item.data if type(item) is Message else dumps(item) for item in history])
        data = b"".join((before, _NO_HISTORY[:-1], items, b"]", behind))
    return data


def _tools(item: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """Those of the current message, or of none."""
    tools: Sequence[dict[str, Any]] = item.get(SIDES[Role.USER], {}).get(_CONTEXT, {}).get("tools", ())
    return tools


def _with_tools(item: Mapping[str, Any], tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The current message, which has some, with others."""
    user = item[SIDES[Role.USER]]
    return {SIDES[Role.USER]: {**user, _CONTEXT: {**user[_CONTEXT], "tools": tools}}}


def _measure(data: bytes, body: Mapping[str, Any]) -> int:
    """Bytes of *body*, which is serialised in *data*, without those of images and documents."""
    attached = (
        one for each in _messages(_items(body)) for kind in ("images", "documents") for one in each.get(kind, ())
    )
    return len(data) - sum(len(one["source"]["bytes"]) for one in attached)


def _trim(body: dict[str, Any], excess: int, prompt: Prompt, notes: Notes, *, kept: int) -> bool:
    """Leave out the oldest exchanges, as many as make *excess* bytes, with a note to the model.

    Calls and their results stay together, and so do the first *kept* messages, which are the system text.  Whether it
    is possible is returned.
    """
    history = body["conversationState"].get("history", [])
    users = [*history, body["conversationState"]["currentMessage"]]
    freed = -len(TRIMMED) - 4
    for index in range(kept, len(users)):
        user = users[index].get(SIDES[Role.USER])  # neighbours may be of one side where a rule is switched off
        if freed >= excess and user is not None and "toolResults" not in user.get(_CONTEXT, ()):
            break
        freed += len(dumps(users[index]))
    else:
        return False
    if not notes.applies("size.trimmed", prompt.turns[0].place, (index - kept) // 2):
        return False
    told = {SIDES[Role.USER]: {**user, "content": paragraphs(TRIMMED, user["content"])}}
    if index < len(history):
        history[index] = told
    else:
        body["conversationState"]["currentMessage"] = told
    del history[kept:index]
    if not history:
        del body["conversationState"]["history"]
    return True


def _too_long(rule: str, what: str, limit: int, prompt: Prompt) -> ContextTooLong:
    place, size = _largest(prompt)
    most = f"the largest part is {place} with {size:,} characters"
    return too_long(rule, f"{what} where {limit:,} are taken; {most}", place)


def _largest(prompt: Prompt) -> tuple[str, int]:
    """The place of the longest text, and its characters."""
    sizes = {turn.place or "messages": sum(map(_characters, turn.parts)) for turn in prompt.turns}
    sizes[prompt.system_place] = sum(map(len, prompt.system))
    sizes["tools"] = sum(len(tool.description) + len(dumps(dict(tool.schema))) for tool in prompt.tools)
    return max(sizes.items(), key=lambda item: item[1])


def _characters(part: Part) -> int:
    match part:
        case Text(text) | ThinkingPart(text):
            return len(text)
        case Document():
            return len(part.text)
        case ToolCallPart():
            return len(dumps(dict(part.input)))
        case ToolResult():
            return sum(map(_characters, part.parts))
        case _:
            return 0


def _items(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The history of a body, and the current message."""
    state = body["conversationState"]
    return chain(state.get("history", ()), (state["currentMessage"],))


def _messages(items: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every message in order, without the member that names its role."""
    for item in items:
        yield from item.values()


def content_of(body: Mapping[str, Any]) -> BodyContent:
    """What *body* holds."""
    found = _content(_items(body))
    if found.messages > 2 and found.texts[1] == CONSENT:
        found.system.append(found.texts.pop(0))
    return found


def _content(items: Iterable[Mapping[str, Any]]) -> BodyContent:
    messages = [*_messages(items)]
    found = BodyContent(messages=len(messages))
    found.texts += [message["content"] for message in messages]
    for message in messages:
        _collect(message, found)
    return found


def estimate(body: Mapping[str, Any], estimator: Estimator) -> float:
    """Tokens that a model reads of *body*: the `BodyContent.estimate` of what it holds, of which that of messages that
    were written for an earlier request is at hand."""

    def weigh(items: Iterable[Mapping[str, Any]]) -> tuple[float, bool]:
        content = _content(items)
        return content.estimate(estimator), bool(content.values)

    def weigh_one(item: Message) -> tuple[float, bool]:
        return weigh((item,))

    def weigh_tools(tools: Tools) -> tuple[float, bool]:
        return BodyContent(values=[_specifications(tools)]).estimate(estimator), True

    new: list[Mapping[str, Any]] = []
    weights: list[tuple[float, bool]] = []
    for item in _items(body):
        if type(item) is Message:
            weights.append(item.weight(weigh_one, estimator))
        elif type(tools := _tools(item)) is Tools:
            new.append(_with_tools(item, ()))
            weights.append(tools.weight(weigh_tools, estimator))
        else:
            new.append(item)
    weights.append(weigh(new))
    joints = sum(has_values for _, has_values in weights) - 1
    return sum(tokens for tokens, _ in weights) + max(joints, 0) * estimator.estimate_tokens(",")


def _collect(message: Mapping[str, Any], found: BodyContent) -> None:
    """Sort what a message holds beside its text."""
    found.images += len(message.get("images", ()))
    found.documents += len(message.get("documents", ()))
    for call in message.get("toolUses", ()):
        found.texts.append(call["name"])
        found.values.append(call["input"])
    if reasoning := message.get("reasoningContent"):
        found.values.append(reasoning)
    context = message.get(_CONTEXT, {})
    for result in context.get("toolResults", ()):
        found.results += 1
        found.texts += (part["text"] for part in result["content"])
    if tools := context.get("tools"):
        found.tools += len(tools)
        found.values.append(_specifications(tools))


def _specifications(tools: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [tool["toolSpecification"] for tool in tools]
