"""The models of Amazon Bedrock, and its rules: fields, messages, blocks, tools, thinking, and what each family lacks.

Sources: botocore's model ``bedrock-runtime/2023-09-30`` for fields and limits; reports of refusals for their words
(boto/botocore#3525, vercel/ai#20365, crewAIInc/crewAI#7613), and for what families lack
https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-supported-models-features.html
"""

from __future__ import annotations

import binascii
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import wraps
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.simulator.anthropic.checks import RULES as MESSAGES_RULES
from kiro_asgi.simulator.bedrock.encoder import claude_name
from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json, Question
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.scripts import SEALED, sign


@frozen(kw_only=True)
class FamilyRules:
    """Features of the models of one kind."""

    options: frozenset[str] = frozenset()
    """Members of ``additionalModelRequestFields`` that the model knows."""

    choices: frozenset[str] = frozenset(("auto", "any", "tool"))
    tools: bool = True
    tools_streamed: bool = True
    system: bool = True
    images: bool = True
    caches: bool = True
    mixed: bool = True
    """Whether tool results and other content go together in one message."""

    thinking: frozenset[str] = frozenset()
    """Types of Claude's ``thinking``; empty: none of them is taken."""

    prefills: bool = False
    """Whether the last message may be the assistant's."""

    structured: bool = False
    """Whether ``outputConfig`` is known."""


CLAUDE_OPTIONS: Final = frozenset(("anthropic_beta", "thinking", "tool_choice", "top_k", "output_config"))

FAMILIES: Final[Mapping[str, FamilyRules]] = {
    "claude-3": FamilyRules(options=CLAUDE_OPTIONS, prefills=True),
    "claude-4.5": FamilyRules(
        options=CLAUDE_OPTIONS, thinking=frozenset(("enabled", "disabled")), prefills=True, structured=True
    ),
    "claude-4.6": FamilyRules(
        options=CLAUDE_OPTIONS, thinking=frozenset(("enabled", "disabled", "adaptive")), structured=True
    ),
    "claude-4.7": FamilyRules(
        options=CLAUDE_OPTIONS - {"top_k"}, thinking=frozenset(("disabled", "adaptive")), structured=True
    ),
    "nova": FamilyRules(options=frozenset(("inferenceConfig",))),
    "nova-2": FamilyRules(options=frozenset(("inferenceConfig", "reasoningConfig"))),
    "llama": FamilyRules(choices=frozenset(("auto",)), tools_streamed=False, images=False, caches=False, mixed=False),
    "mistral-large": FamilyRules(
        choices=frozenset(("auto", "any")), tools_streamed=False, images=False, caches=False, mixed=False
    ),
    "mistral-7b": FamilyRules(tools=False, system=False, images=False, caches=False),
    "gpt-oss": FamilyRules(options=frozenset(("reasoning_effort",)), images=False, caches=False),
    "deepseek-r1": FamilyRules(tools=False, images=False, caches=False),
}

MODELS: Final = (
    Model("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, 64_000, family="claude-4.5"),
    Model("global.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, 64_000, family="claude-4.5"),
    Model("us.anthropic.claude-opus-4-6-v1", 200_000, 128_000, family="claude-4.6"),
    Model("global.anthropic.claude-opus-4-7", 1_000_000, 128_000, family="claude-4.7"),
    Model("anthropic.claude-3-haiku-20240307-v1:0", 200_000, 4_096, family="claude-3"),
    Model("amazon.nova-pro-v1:0", 300_000, 10_000, family="nova"),
    Model("us.amazon.nova-2-lite-v1:0", 1_000_000, 64_000, family="nova-2"),
    Model("us.meta.llama3-3-70b-instruct-v1:0", 128_000, 8_192, family="llama"),
    Model("mistral.mistral-large-2407-v1:0", 128_000, 8_192, family="mistral-large"),
    Model("mistral.mistral-7b-instruct-v0:2", 32_000, 8_192, family="mistral-7b"),
    Model("openai.gpt-oss-120b-1:0", 128_000, 16_384, family="gpt-oss"),
    Model("us.deepseek.r1-v1:0", 128_000, 32_768, family="deepseek-r1"),
)
"""By the ids that they are asked by; those that begin with a geography have no on-demand throughput without it."""

_BY_ID: Final[Mapping[str, Model]] = {model.id: model for model in MODELS}


INVOKE: Final = "invoke"
"""`Question.operation` of InvokeModel and InvokeModelWithResponseStream."""


def kind_of(block: Mapping[str, Any]) -> str:
    """The name of the only member of *block*; empty for what is no such union."""
    return next(iter(block)) if len(block) == 1 else ""


def blocks_of(content: Any) -> list[Mapping[str, Any]]:
    """The blocks of a message's content, or of a tool's result."""
    return [as_map(block) for block in as_list(content)]


def extras(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields that are the model's own."""
    return as_map(document.get("additionalModelRequestFields"))


def schema_of(document: Mapping[str, Any]) -> Any:
    """The schema that the answer must fit: a string on the wire; ``None`` without one, or where it is no JSON."""
    form = as_map(as_map(document.get("outputConfig")).get("textFormat"))
    try:
        return json.loads(str(as_map(as_map(form.get("structure")).get("jsonSchema")).get("schema", "null")))
    except ValueError:
        return None


def _model(question: Question) -> Model:
    return _BY_ID.get(question.model, MODELS[0])


def _family(question: Question) -> FamilyRules:
    return FAMILIES[_model(question).family]


def _messages(document: Json) -> list[Json]:
    return [as_map(message) for message in as_list(document.get("messages"))]


def _blocks(document: Json) -> Iterator[tuple[str, str, str, Any]]:
    """Place, role, kind and value of every block of every message; those within results as the user's ``result.…``."""
    for at, message in enumerate(_messages(document)):
        for number, block in enumerate(blocks_of(message.get("content"))):
            place, kind = f"messages.{at}.content.{number}", kind_of(block)
            yield place, str(message.get("role")), kind, block.get(kind)
            for inner, part in enumerate(blocks_of(as_map(block.get("toolResult")).get("content"))):
                kind = kind_of(part)
                yield f"{place}.toolResult.content.{inner}", "result", kind, part.get(kind)


def _of_kind(document: Json, *kinds: str) -> list[tuple[str, Any]]:
    """Place and value of every block of *kinds*, within results too."""
    return [(place, value) for place, _, kind, value in _blocks(document) if kind in kinds]


def _within(message: Json, kind: str) -> list[Json]:
    return [as_map(block[kind]) for block in blocks_of(message.get("content")) if kind in block]


def _tools(document: Json) -> list[Json]:
    return [as_map(tool) for tool in as_list(as_map(document.get("toolConfig")).get("tools"))]


def _specs(document: Json) -> list[Json]:
    return [as_map(tool["toolSpec"]) for tool in _tools(document) if "toolSpec" in tool]


def _malformed(what: str) -> str:
    return f"Malformed input request: {what}, please reformat your input and try again."


FIELDS: Final = frozenset(
    (
        "additionalModelRequestFields", "additionalModelResponseFieldPaths", "guardrailConfig", "inferenceConfig",
        "messages", "outputConfig", "performanceConfig", "promptVariables", "requestMetadata", "serviceTier", "system",
        "toolConfig",
    )
)  # fmt: skip
INFERENCE: Final = frozenset(("maxTokens", "temperature", "topP", "stopSequences"))
POINTER: Final = re.compile(r"(?:/[^/]+)+")


def fields_known(document: Json, _: Question) -> str:
    """No field is unknown, and none of ``inferenceConfig``."""
    unknown = [*(document.keys() - FIELDS), *(as_map(document.get("inferenceConfig")).keys() - INFERENCE)]
    return _malformed(f"#: extraneous key [{min(unknown)}] is not permitted") if unknown else ""


def numbers_in_range(document: Json, question: Question) -> str:
    """``maxTokens`` is positive and no more than the model writes; ``temperature`` and ``topP`` are from 0 to 1."""
    config = as_map(document.get("inferenceConfig"))
    for name in ("temperature", "topP"):
        value = config.get(name, 0)
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            return f"Value '{value}' at 'inferenceConfig.{name}' failed to satisfy constraint: between 0 and 1"
    most, limit = config.get("maxTokens", 1), _model(question).output
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        return f"Value '{most}' at 'inferenceConfig.maxTokens' failed to satisfy constraint: at least 1"
    if most > limit:
        return (
            f"The maximum tokens you requested exceeds the model limit of {limit}. Try again with a maximum tokens "
            f"value that is lower than {limit}."
        )
    return "" if all(as_list(config.get("stopSequences", []))) else "stopSequences: a stop sequence must not be empty"


def paths_valid(document: Json, _: Question) -> str:
    """``additionalModelResponseFieldPaths`` has ten JSON pointers at most."""
    paths = as_list(document.get("additionalModelResponseFieldPaths"))
    wrong = len(paths) > 10 or any(not POINTER.fullmatch(str(path)) or len(str(path)) > 256 for path in paths)
    return "additionalModelResponseFieldPaths: invalid JSON pointer" if wrong else ""


ROLES: Final = ("user", "assistant")
NO_PREFILL: Final = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)


def roles_alternate(document: Json, question: Question) -> str:
    """User and assistant take turns, the user first and, but for older models of Claude, last; each with content."""
    messages = _messages(document)
    if not messages or messages[0].get("role") != "user":
        return "A conversation must start with a user message. Try again with one that starts with a user message."
    for at, message in enumerate(messages):
        if message.keys() - {"role", "content"}:
            return _malformed(f"#/messages/{at}: extraneous key is not permitted")
        if message.get("role") != ROLES[at % 2]:
            return 'messages: roles must alternate between "user" and "assistant"'
        if not as_list(message.get("content")):
            return (
                f"The content field in the Message object at messages.{at} is empty. Add a ContentBlock object to it."
            )
    if len(messages) % 2 or _family(question).prefills:
        return ""
    return NO_PREFILL


SIDES: Final[Mapping[str, frozenset[str]]] = {
    "user": frozenset(
        ("text", "image", "document", "video", "audio", "toolResult", "cachePoint", "guardContent", "searchResult")
    ),
    "assistant": frozenset(("text", "toolUse", "reasoningContent", "cachePoint", "citationsContent")),
    "result": frozenset(("text", "json", "image", "document", "video", "searchResult")),
}
"""Role, or ``result``, to the kinds of its blocks."""


def blocks_known(document: Json, _: Question) -> str:
    """A block has one member, of a kind that its role has."""
    for place, role, kind, _value in _blocks(document):
        if kind not in SIDES[role]:
            return _malformed(
                f"#/{place.replace('.', '/')}: {kind or 'a block of several members'} is not permitted here"
            )
    return ""


def text_present(document: Json, _: Question) -> str:
    """No text is blank, of the system neither."""
    system = [
        (f"system.{at}", block["text"]) for at, block in enumerate(blocks_of(document.get("system"))) if "text" in block
    ]
    for place, text in [*system, *_of_kind(document, "text")]:
        if not str(text).strip():
            return f"The text field in the ContentBlock object at {place} is blank. Add text to it."
    return ""


IMAGE_TYPES: Final = ("png", "jpeg", "gif", "webp")
DOCUMENT_NAME: Final = re.compile(r"(?:[a-zA-Z0-9()\[\]-]| (?! )){1,200}")
MAX_IMAGES: Final = 20
MAX_DOCUMENTS: Final = 5


def images_valid(document: Json, question: Question) -> str:
    """Images are base64 of a known format, twenty at most, for a model that sees."""
    images = _of_kind(document, "image")
    if images and not _family(question).images:
        return "This model doesn't support the image content block that you provided. Remove it and try again."
    if len(images) > MAX_IMAGES:
        return f"The number of images is {len(images)}, and the most are {MAX_IMAGES}."
    for place, image in images:
        source = as_map(as_map(image).get("source"))
        if as_map(image).get("format") not in IMAGE_TYPES or {*source} != {"bytes"}:
            return f"{place}.image: the format must be one of {', '.join(IMAGE_TYPES)}, and the source its bytes"
        try:
            binascii.a2b_base64(str(source["bytes"]), strict_mode=True)
        except ValueError:
            return f"{place}.image.source.bytes: invalid base64 data"
    return ""


def documents_valid(document: Json, _: Question) -> str:
    """Documents are five at most, with plain names that differ, and with text beside them."""
    names = [str(as_map(it).get("name", "")) for _, it in _of_kind(document, "document")]
    if len(names) > MAX_DOCUMENTS:
        return f"The number of documents is {len(names)}, and the most are {MAX_DOCUMENTS}."
    if len({*names}) != len(names):
        return "Messages can not contain duplicate document names."
    if not all(map(DOCUMENT_NAME.fullmatch, names)):
        return (
            "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, "
            "parentheses, and square brackets. The name can't contain more than one consecutive whitespace character."
        )
    for message in _messages(document):
        if _within(message, "document") and not any("text" in block for block in blocks_of(message.get("content"))):
            return "A text block must be included when using documents."
    return ""


TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOOL_USE_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
SPEC_FIELDS: Final = frozenset(("name", "description", "inputSchema", "strict"))


def tools_valid(document: Json, question: Question) -> str:
    """There is a tool, and each has a valid name of its own, a schema of an object, and a description or none."""
    if "toolConfig" not in document:
        return ""
    if not _family(question).tools:
        return "This model doesn't support tool use."
    if question.stream and not _family(question).tools_streamed:
        return "This model doesn't support tool use in streaming mode."
    if not _tools(document):
        return "toolConfig.tools: at least one tool is required"
    for at, spec in enumerate(_specs(document)):
        place = f"toolConfig.tools.{at}.member.toolSpec"
        if spec.keys() - SPEC_FIELDS:
            return _malformed(f"#/{place}: extraneous key is not permitted")
        if not TOOL_NAME.fullmatch(str(spec.get("name", ""))):
            return f"Value at '{place}.name' failed to satisfy constraint: [a-zA-Z0-9_-]+"
        if spec.get("description") == "":
            return f"Value at '{place}.description' failed to satisfy constraint: at least 1 character"
        if as_map(as_map(spec.get("inputSchema")).get("json")).get("type") != "object":
            return f"The value at {place}.inputSchema.json.type must be one of the following: object."
    names = [str(spec.get("name")) for spec in _specs(document)]
    return "" if len({*names}) == len(names) else "The tool names must be unique."


def choice_possible(document: Json, question: Question) -> str:
    """The choice is of a kind that the model has, names a known tool, and is made once."""
    choice = as_map(as_map(document.get("toolConfig")).get("toolChoice"))
    if not choice:
        return ""
    if "tool_choice" in extras(document):
        return "The toolChoice field and tool_choice of additionalModelRequestFields can't both be set."
    kind = kind_of(choice)
    if kind not in _family(question).choices:
        return f"This model doesn't support the toolConfig.toolChoice.{kind} field. Remove it and try again."
    named = as_map(choice.get("tool")).get("name")
    known = kind != "tool" or any(spec.get("name") == named for spec in _specs(document))
    return "" if known else f"The tool {named} of toolConfig.toolChoice.tool is not in toolConfig.tools."


def tools_declared(document: Json, _: Question) -> str:
    """Calls and results in the conversation need ``toolConfig``."""
    if "toolConfig" in document or not _of_kind(document, "toolUse", "toolResult"):
        return ""
    return "The toolConfig field must be defined when using toolUse and toolResult content blocks."


def uses_valid(document: Json, _: Question) -> str:
    """A call has a valid id of its own and a name, and an object as its input."""
    for place, use in _of_kind(document, "toolUse"):
        if not TOOL_USE_ID.fullmatch(str(as_map(use).get("toolUseId", ""))):
            return f"Value at '{place}.toolUse.toolUseId' failed to satisfy constraint: [a-zA-Z0-9_.:-]{{1,64}}"
        if not TOOL_NAME.fullmatch(str(as_map(use).get("name", ""))):
            return f"Value at '{place}.toolUse.name' failed to satisfy constraint: [a-zA-Z0-9_-]{{1,64}}"
        if not isinstance(as_map(use).get("input"), Mapping):
            return f"The format of the value at {place}.toolUse.input is invalid. Provide a json object for the field."
    ids = Counter(str(as_map(use).get("toolUseId")) for _, use in _of_kind(document, "toolUse"))
    again = next((use for use, times in ids.items() if times > 1), None)
    return "" if again is None else f"messages: `tool_use` ids must be unique: {again}"


def uses_answered(document: Json, _: Question) -> str:
    """Every call is answered by one result in the next message, and every result answers a call of the one before."""
    uses: list[str] = []
    for at, message in enumerate(_messages(document)):
        results = [str(result.get("toolUseId")) for result in _within(message, "toolResult")]
        missing = [use for use in uses if use not in results]
        if missing:
            return f"Expected toolResult blocks at messages.{at}.content for the following Ids: {', '.join(missing)}"
        if len(results) > len(uses) or {*results} != {*uses}:
            return (
                f"The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse blocks of "
                "previous turn."
            )
        uses = [str(use.get("toolUseId")) for use in _within(message, "toolUse")]
    return f"Expected toolResult blocks for the following Ids: {', '.join(uses)}" if uses else ""


def results_valid(document: Json, question: Question) -> str:
    """A failed result has content, and results stand alone in their message where the model wants that."""
    for place, result in _of_kind(document, "toolResult"):
        if as_map(result).get("status") == "error" and not as_list(as_map(result).get("content")):
            return f"The content field at {place}.toolResult cannot be empty when status value is error."
    for message in _messages(document):
        kinds = {*map(kind_of, blocks_of(message.get("content")))} - {"cachePoint"}
        if not _family(question).mixed and "toolResult" in kinds and len(kinds) > 1:
            return "Conversation blocks and tool result blocks cannot be provided in the same turn."
    return ""


def uses_last(document: Json, _: Question) -> str:
    """No text follows a call in its message: the service takes that for the beginning of an answer."""
    for message in _messages(document):
        kinds = [*map(kind_of, blocks_of(message.get("content")))]
        if "toolUse" in kinds and "text" in kinds[kinds.index("toolUse") :]:
            return NO_PREFILL
    return ""


def system_possible(document: Json, question: Question) -> str:
    """Only a model that has a system prompt is given one."""
    lacks = document.get("system") and not _family(question).system
    return "This model doesn't support system messages. Try again without them." if lacks else ""


MAX_CACHE_POINTS: Final = 4


def few_cache_points(document: Json, question: Question) -> str:
    """At most four cache points, of a model that has a cache."""
    marked = [
        *_tools(document),
        *blocks_of(document.get("system")),
        *({kind: 0} for _, _, kind, _ in _blocks(document)),
    ]
    points = sum("cachePoint" in one for one in marked)
    if points and not _family(question).caches:
        return "This model doesn't support the cachePoint field. Remove cachePoint and try again."
    return f"A maximum of 4 cachePoint blocks may be provided. Found {points}." if points > MAX_CACHE_POINTS else ""


BETAS: Final = re.compile(
    r"(?:computer-use|context-1m|effort|fine-grained-tool-streaming|structured-outputs|interleaved-thinking|thinking)-.+"
)


def options_known(document: Json, question: Question) -> str:
    """``additionalModelRequestFields`` has only what the model knows, and known betas."""
    own = extras(document)
    unknown = own.keys() - _family(question).options
    if unknown:
        return f"The model returned the following errors: {min(unknown)}: Extra inputs are not permitted"
    beta = next((beta for beta in as_list(own.get("anthropic_beta")) if not BETAS.fullmatch(str(beta))), None)
    return "" if beta is None else "The model returned the following errors: invalid beta flag"


MIN_BUDGET: Final = 1024


def thinking_possible(document: Json, question: Question) -> str:
    """Claude thinks as the model can, with a budget from 1024 to ``maxTokens``, no sampling set and nothing forced."""
    thinking = as_map(extras(document).get("thinking"))
    kind = str(thinking.get("type", "disabled"))
    if kind == "disabled":
        return ""
    if kind not in _family(question).thinking:
        return f"The model returned the following errors: thinking.type.{kind} is not supported for this model."
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < MIN_BUDGET:
            return "The model returned the following errors: thinking.enabled.budget_tokens: at least 1024 is required"
        if budget >= as_map(document.get("inferenceConfig")).get("maxTokens", 4096):
            return (
                "The model returned the following errors: `max_tokens` must be greater than `thinking.budget_tokens`."
            )
    config = as_map(document.get("inferenceConfig"))
    if config.get("temperature", 1) != 1 or config.get("topP", 1) < 0.95 or "top_k" in extras(document):
        return "The model returned the following errors: `temperature` may only be set to 1 when thinking is enabled."
    if question.must_call is not None:
        return "The model returned the following errors: Thinking may not be enabled when tool_choice forces tool use."
    return ""


def thinking_kept(document: Json, question: Question) -> str:
    """Thinking comes back as it was given, with its own signature, and only to Claude."""
    for place, block in _of_kind(document, "reasoningContent"):
        thought = as_map(as_map(block).get("reasoningText"))
        if not _family(question).thinking:
            return "This model doesn't support the reasoningContent field. Remove it and try again."
        if thought and thought.get("signature") != sign(str(thought.get("text"))):
            return f"The model returned the following errors: {place}: Invalid `signature` in `thinking` block"
        if not thought and as_map(block).get("redactedContent") != SEALED:
            return f"The model returned the following errors: {place}: Invalid `data` in `redacted_thinking` block"
    return ""


def turn_starts_with_thinking(document: Json, _: Question) -> str:
    """With a thinking budget, an assistant's message whose calls are being answered starts with thinking."""
    if as_map(extras(document).get("thinking")).get("type") != "enabled":
        return ""
    messages = _messages(document)
    kinds = [*map(kind_of, blocks_of(messages[-2].get("content")))] if len(messages) > 1 else []
    if "toolUse" not in kinds or kinds[0] == "reasoningContent":
        return ""
    return (
        f"The model returned the following errors: messages.{len(messages) - 2}.content.0.type: Expected `thinking` or "
        f"`redacted_thinking`, but found `{'tool_use' if kinds[0] == 'toolUse' else kinds[0]}`."
    )


KEYWORDS_REFUSED: Final = frozenset(
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxItems", "contains")
)


def _schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every schema in *schema*, outer ones first."""
    waiting = [schema]
    while waiting:
        node = as_map(waiting.pop())
        yield node
        waiting += [each for word in ("properties", "$defs") for each in as_map(node.get(word)).values()]
        waiting += [each for word in ("anyOf", "allOf") for each in as_list(node.get(word))]
        waiting += [node["items"]] if "items" in node else []


def form_possible(document: Json, question: Question) -> str:
    """The form of an answer is a JSON schema as a string, of closed objects without limits, if the model has it."""
    form = as_map(as_map(document.get("outputConfig")).get("textFormat"))
    if not form:
        return ""
    if not _family(question).structured:
        return _malformed("#: extraneous key [outputConfig] is not permitted")
    schema = schema_of(document)
    if form.get("type") != "json_schema" or not isinstance(schema, Mapping):
        return "outputConfig.textFormat.structure.jsonSchema.schema: a JSON schema as a string is required"
    for each in _schemas(schema):
        if each.get("type") == "object" and each.get("additionalProperties") is not False:
            return (
                "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
            )
        refused = each.keys() & KEYWORDS_REFUSED
        if refused:
            return f"output_config.format.schema: For '{each.get('type')}' type, {min(refused)} is not supported"
    return ""


INVOKED: Final = frozenset(
    (
        "anthropic_version", "anthropic_beta", "max_tokens", "messages", "system", "stop_sequences", "temperature",
        "top_p", "top_k", "tools", "tool_choice", "thinking", "metadata", "output_config", "context_management",
    )
)  # fmt: skip


def invoked_fields_known(document: Json, _: Question) -> str:
    """InvokeModel: ``anthropic_version`` is there, and no field that the Messages API has and Bedrock has not."""
    if not isinstance(document.get("anthropic_version"), str):
        return "anthropic_version: Field required"
    unknown = document.keys() - INVOKED
    return f"{min(unknown)}: Extra inputs are not permitted" if unknown else ""


def invoked_messages_valid(document: Json, question: Question) -> str:
    """InvokeModel: the rest keeps the rules of Anthropic's Messages API, below."""
    if not _model(question).family.startswith("claude"):
        return _malformed("#: required key [prompt] not found")
    beta = next((beta for beta in as_list(document.get("anthropic_beta")) if not BETAS.fullmatch(str(beta))), None)
    if beta is not None:
        return "invalid beta flag"
    name = claude_name(question.model)
    body = {name: value for name, value in document.items() if not name.startswith("anthropic_")}
    asked = {**body, "model": name}
    return next(filter(None, (rule(asked, evolve(question, model=name)) for rule in MESSAGES_RULES)), "")


def _for(operation: str, rule: FormatRule) -> FormatRule:
    """*rule* for requests to *operation* alone."""

    @wraps(rule)
    def limited(document: Json, question: Question) -> str:
        return rule(document, question) if question.operation == operation else ""

    return limited


CONVERSE_RULES: Final[tuple[FormatRule, ...]] = (
    fields_known,
    numbers_in_range,
    paths_valid,
    roles_alternate,
    blocks_known,
    text_present,
    system_possible,
    images_valid,
    documents_valid,
    tools_valid,
    choice_possible,
    tools_declared,
    uses_valid,
    uses_answered,
    uses_last,
    results_valid,
    few_cache_points,
    options_known,
    thinking_possible,
    thinking_kept,
    turn_starts_with_thinking,
    form_possible,
)

RULES: Final[tuple[FormatRule, ...]] = (
    *(_for("", rule) for rule in CONVERSE_RULES),
    *(_for(INVOKE, rule) for rule in (invoked_fields_known, invoked_messages_valid)),
)
"""Those of Converse, then those of InvokeModel."""
