"""The rules of the Messages API: fields, messages, blocks, tools, thinking, and the form of the answer.

Sources: https://docs.claude.com/en/docs/build-with-claude/extended-thinking,
https://platform.claude.com/docs/en/build-with-claude/structured-outputs
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.anthropic.encoder import sealed
from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json, Question
from kiro_asgi.simulator.scripts import SEALED, sign


def blocks_of(content: Any) -> list[Mapping[str, Any]]:
    """The blocks of a message's content; a string is one of them."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [as_map(block) for block in as_list(content)]


def messages_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages."""
    return [as_map(message) for message in as_list(document.get("messages"))]


def blocks(document: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    """Every block of every message, with its place."""
    for at, message in enumerate(messages_of(document)):
        for number, block in enumerate(blocks_of(message.get("content"))):
            yield f"messages.{at}.content.{number}", block


def joined(document: Mapping[str, Any]) -> list[tuple[Any, list[Json]]]:
    """Role and blocks of each message; neighbours of one role are one, as the service has it."""
    found: list[tuple[Any, list[Json]]] = []
    for message in messages_of(document):
        content = blocks_of(message.get("content"))
        if found and found[-1][0] == message.get("role"):
            found[-1][1].extend(content)
        else:
            found.append((message.get("role"), content))
    return found


def of_type(content: list[Json], *kinds: str) -> list[Json]:
    """The blocks of *content* of *kinds*."""
    return [block for block in content if block.get("type") in kinds]


FIELDS: Final = frozenset(
    (
        "billing_policy", "cache_control", "compaction", "container", "context_management", "diagnostics",
        "fallback_credit_token", "fallbacks", "inference_geo", "max_tokens", "mcp_servers", "messages", "metadata",
        "model", "output_config", "output_format", "service_tier", "speed", "stop_sequences", "stream", "system",
        "temperature", "thinking", "thread", "tool_choice", "tools", "top_k", "top_p",
    )
)  # fmt: skip
MAX_BREAKPOINTS: Final = 4
OUTPUT: Final[Mapping[str, int]] = {"claude-opus-4-1": 32_000, "claude-opus-4-6": 128_000}
"""Model to the most tokens that it writes, where that is not 64,000."""


def fields_known(document: Json, _: Question) -> str:
    """No field is unknown."""
    unknown = next((name for name in document if name not in FIELDS), None)
    return "" if unknown is None else f"{unknown}: Extra inputs are not permitted"


def fields_present(document: Json, _: Question) -> str:
    """There are ``model``, ``max_tokens`` and ``messages``."""
    missing = next((name for name in ("model", "max_tokens", "messages") if name not in document), None)
    if missing is not None:
        return f"{missing}: Field required"
    return "" if as_list(document["messages"]) else "messages: at least one message is required"


def length_allowed(document: Json, question: Question) -> str:
    """``max_tokens`` is a whole number, and no more than the model writes."""
    most = document["max_tokens"]
    if not isinstance(most, int) or isinstance(most, bool):
        return "max_tokens: Input should be a valid integer"
    if most < 1:
        return "max_tokens: must be greater than or equal to 1"
    limit = OUTPUT.get(question.model, 64_000)
    if most <= limit:
        return ""
    return f"max_tokens: {most} > {limit}, which is the maximum allowed number of output tokens for {question.model}"


def numbers_in_range(document: Json, _: Question) -> str:
    """``temperature`` and ``top_p`` are from 0 to 1, and not both there; ``top_k`` is positive."""
    for name, least, most in (("temperature", 0, 1), ("top_p", 0, 1), ("top_k", 0, 1_000_000)):
        value = document.get(name)
        if value is not None and (not isinstance(value, int | float) or not least <= value <= most):
            return f"{name}: range: {least}..{most}"
    if document.get("temperature") is not None and document.get("top_p") is not None:
        return "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
    return ""


def stops_visible(document: Json, _: Question) -> str:
    """A stop sequence has something that is not a space."""
    stops = as_list(document.get("stop_sequences"))
    if all(isinstance(stop, str) and stop.strip() for stop in stops):
        return ""
    return "stop_sequences: each stop sequence must contain non-whitespace"


def metadata_known(document: Json, _: Question) -> str:
    """``metadata`` has a ``user_id`` of 256 characters at most, and nothing else."""
    unknown = next((name for name in as_map(document.get("metadata")) if name != "user_id"), None)
    if unknown is not None:
        return f"metadata.{unknown}: Extra inputs are not permitted"
    user = str(as_map(document.get("metadata")).get("user_id", ""))
    return "" if len(user) <= 256 else "metadata.user_id: String should have at most 256 characters"


def roles_known(document: Json, _: Question) -> str:
    """A message has a role, ``user`` or ``assistant``, and content; the first is the user's."""
    for at, message in enumerate(messages_of(document)):
        unknown = next((name for name in message if name not in ("role", "content")), None)
        if unknown is not None:
            return f"messages.{at}.{unknown}: Extra inputs are not permitted"
        if message.get("role") not in ("user", "assistant"):
            return f'messages: Unexpected role "{message.get("role")}". Allowed roles are "user" or "assistant".'
    first = messages_of(document)[0]
    return "" if first.get("role") == "user" else 'messages: first message must use the "user" role'


def content_present(document: Json, _: Question) -> str:
    """Every message but a last one of the assistant's has content."""
    messages = messages_of(document)
    for at, message in enumerate(messages):
        last = at == len(messages) - 1 and message.get("role") == "assistant"
        if not message.get("content") and not last:
            return (
                f"messages.{at}: all messages must have non-empty content except for the optional final assistant "
                "message"
            )
    return ""


def ending_trimmed(document: Json, _: Question) -> str:
    """A last message of the assistant's does not end in a space."""
    side, content = joined(document)[-1]
    text = str(content[-1].get("text", "")) if side == "assistant" and content else ""
    return "messages: final assistant content cannot end with trailing whitespace" if text != text.rstrip() else ""


def few_breakpoints(document: Json, _: Question) -> str:
    """At most four blocks have ``cache_control``."""
    marked = sum("cache_control" in one for one in _cacheable(document))
    if marked <= MAX_BREAKPOINTS:
        return ""
    return f"A maximum of 4 blocks with cache_control may be provided. Found {marked}."


def _cacheable(document: Json) -> Iterator[Mapping[str, Any]]:
    yield from map(as_map, as_list(document.get("tools")))
    yield from map(as_map, as_list(document.get("system")))
    for _, block in blocks(document):
        yield block


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


BLOCK_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "text": _names("type text cache_control citations"),
    "image": _names("type source cache_control"),
    "document": _names("type source title context citations cache_control"),
    "search_result": _names("type source title content citations cache_control"),
    "thinking": _names("type thinking signature"),
    "redacted_thinking": _names("type data"),
    "tool_use": _names("type id name input cache_control caller"),
    "tool_result": _names("type tool_use_id content is_error cache_control"),
    "server_tool_use": _names("type id name input cache_control caller"),
    "web_search_tool_result": _names("type tool_use_id content cache_control caller"),
}
"""Type of a block to its fields."""

ASSISTANT_ONLY: Final = frozenset(("thinking", "redacted_thinking", "tool_use", "server_tool_use"))
USER_ONLY: Final = frozenset(("image", "tool_result"))
SERVER_ID: Final = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")


def _all_blocks(document: Json) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every block, those within tool results too."""
    for place, block in blocks(document):
        yield place, block
        if block.get("type") == "tool_result":
            for number, part in enumerate(blocks_of(block.get("content"))):
                yield f"{place}.tool_result.content.{number}", part


def blocks_known(document: Json, _: Question) -> str:
    """A block has a known type, and only the fields of that."""
    for place, block in _all_blocks(document):
        kind = str(block.get("type"))
        if kind not in BLOCK_FIELDS:
            return f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        unknown = next((name for name in block if name not in BLOCK_FIELDS[kind]), None)
        if unknown is not None:
            return f"{place}.{kind}.{unknown}: Extra inputs are not permitted"
    return ""


def blocks_on_their_side(document: Json, _: Question) -> str:
    """Thinking and calls are the assistant's, images and results the user's."""
    for at, message in enumerate(map(as_map, as_list(document.get("messages")))):
        wrong = ASSISTANT_ONLY if message.get("role") == "user" else USER_ONLY
        kind = next((one["type"] for one in blocks_of(message.get("content")) if one.get("type") in wrong), None)
        if kind is not None:
            return f"messages.{at}: `{kind}` blocks are not allowed in messages of this role"
    return ""


def text_present(document: Json, _: Question) -> str:
    """Text is not empty, and not only spaces; that of the system neither."""
    system = as_list(document.get("system"))
    texts = [str(block.get("text", "")) for _, block in _all_blocks(document) if block.get("type") == "text"]
    texts += [str(as_map(block).get("text", "")) for block in system]
    if not all(texts):
        return "messages: text content blocks must be non-empty"
    return "" if all(map(str.strip, texts)) else "messages: text content blocks must contain non-whitespace text"


def images_valid(document: Json, _: Question) -> str:
    """An image is base64 of a known media type, or a URL."""
    for place, block in _all_blocks(document):
        source = as_map(block.get("source"))
        if block.get("type") != "image" or source.get("type") == "url":
            continue
        if source.get("media_type") not in IMAGE_TYPES:
            return f"{place}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', …"
        try:
            binascii.a2b_base64(str(source.get("data", "")), strict_mode=True)
        except ValueError:
            return f"{place}.image.source.base64: invalid base64 data"
    return ""


def seals_kept(document: Json, _: Question) -> str:
    """The sealed content of a search result comes back unchanged, in results and in citations."""
    for place, block in blocks(document):
        pages = blocks_of(block.get("content")) if block.get("type") == "web_search_tool_result" else []
        for page in pages:
            if page.get("encrypted_content") != sealed(str(page.get("url"))):
                return f"{place}: Invalid `encrypted_content` in `search_result` block"
        for citation in map(as_map, as_list(block.get("citations"))):
            cites_search = citation.get("type") == "web_search_result_location"
            if cites_search and citation.get("encrypted_index") != sealed(str(citation.get("url"))):
                return f"{place}: Invalid `encrypted_index` in `web_search_result_location` citation"
    return ""


def searches_answered(document: Json, _: Question) -> str:
    """A search that the service ran has an id of its own kind, and, but for a last one, its result in its message."""
    messages = [*map(as_map, as_list(document.get("messages")))]
    for at, message in enumerate(messages):
        content = blocks_of(message.get("content"))
        uses = [str(block.get("id")) for block in content if block.get("type") == "server_tool_use"]
        results = [block.get("tool_use_id") for block in content if block.get("type") == "web_search_tool_result"]
        if any(not SERVER_ID.fullmatch(use) for use in uses):
            return f"messages.{at}.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'"
        if uses[: len(results)] != results or (len(uses) > len(results) and at + 1 < len(messages)):
            return f"messages.{at}: `web_search` tool use without a corresponding `web_search_tool_result` block"
    return ""


TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
TOOL_USE_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
TOOL_FIELDS: Final = frozenset(
    (
        "type", "name", "description", "input_schema", "cache_control", "strict", "eager_input_streaming",
        "defer_loading", "input_examples", "allowed_callers",
    )
)  # fmt: skip
CHOICES: Final = ("auto", "any", "tool", "none")
ALTERNATIVES: Final = frozenset(("oneOf", "allOf", "anyOf"))


def _tools(document: Json) -> list[Mapping[str, Any]]:
    return [as_map(tool) for tool in as_list(document.get("tools"))]


def tools_valid(document: Json, _: Question) -> str:
    """A tool has a valid name and only known fields, and its schema is that of an object without alternatives."""
    for at, tool in enumerate(_tools(document)):
        if tool.get("type") not in (None, "custom"):
            continue
        schema = as_map(tool.get("input_schema"))
        unknown = next((name for name in tool if name not in TOOL_FIELDS), None)
        if unknown is not None:
            return f"tools.{at}.custom.{unknown}: Extra inputs are not permitted"
        if not TOOL_NAME.fullmatch(str(tool.get("name", ""))):
            return f"tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if schema.get("type") != "object":
            return f"tools.{at}.custom.input_schema.type: Input should be 'object'"
        if ALTERNATIVES & set(schema):
            return (
                f"tools.{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
            )
    return ""


def tool_names_differ(document: Json, _: Question) -> str:
    """No two tools have the same name."""
    names = [str(tool.get("name")) for tool in _tools(document)]
    return "" if len(set(names)) == len(names) else "tools: Tool names must be unique."


def choice_possible(document: Json, _: Question) -> str:
    """``tool_choice`` is of a known type, comes with tools, and names one of them."""
    choice = as_map(document.get("tool_choice"))
    if not choice:
        return ""
    if choice.get("type") not in CHOICES:
        return "tool_choice: Input tag does not match any of the expected tags: 'auto', 'any', 'tool', 'none'"
    if not _tools(document):
        return "tool_choice: may only be specified while providing tools"
    named = choice.get("name")
    known = choice["type"] != "tool" or any(tool.get("name") == named for tool in _tools(document))
    return "" if known else f"Tool '{named}' not found in provided tools"


def uses_valid(document: Json, _: Question) -> str:
    """A use has an id of letters, digits, ``_`` and ``-``, a name, and an object as its input."""
    for place, block in blocks(document):
        if block.get("type") != "tool_use":
            continue
        if not isinstance(block.get("id"), str) or not TOOL_USE_ID.fullmatch(block["id"]):
            return f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if not TOOL_NAME.fullmatch(str(block.get("name", ""))):
            return f"{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if not isinstance(block.get("input"), Mapping):
            return f"{place}.tool_use.input: Input should be a valid dictionary"
    return ""


def use_ids_differ(document: Json, _: Question) -> str:
    """No two uses have the same id."""
    ids = [block["id"] for _, block in blocks(document) if block.get("type") == "tool_use"]
    return "" if len(set(ids)) == len(ids) else "messages: `tool_use` ids must be unique"


def uses_answered(document: Json, _: Question) -> str:
    """Every use is answered by one result in the next message, and every result answers a use of the one before."""
    uses: list[Any] = []
    for at, (_, content) in enumerate(joined(document)):
        results = [block.get("tool_use_id") for block in of_type(content, "tool_result")]
        missing = [use for use in uses if use not in results]
        if missing:
            return (
                f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        foreign = next((result for result in results if result not in uses), None)
        if foreign is not None:
            return (
                f"messages.{at}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {foreign}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if len({*map(str, results)}) != len(results):
            return f"messages.{at}.content: each tool_use must have a single result."
        uses = [block.get("id") for block in of_type(content, "tool_use")]
    return "" if not uses else "messages: the final message has `tool_use` blocks without `tool_result` blocks"


def results_first(document: Json, _: Question) -> str:
    """Results come before everything else in their message."""
    for at, (_, content) in enumerate(joined(document)):
        results = len(of_type(content, "tool_result"))
        if any(block.get("type") != "tool_result" for block in content[:results]):
            return f"messages.{at}: `tool_result` blocks must come first in the content"
    return ""


MIN_BUDGET: Final = 1024
THOUGHTS: Final = ("thinking", "redacted_thinking")
ADAPTIVE: Final = ("claude-opus-4-6",)
"""Models that have adaptive thinking and efforts."""


def _thinking(document: Json) -> Mapping[str, Any]:
    return as_map(document.get("thinking"))


def _thinks(document: Json) -> bool:
    return _thinking(document).get("type") in ("enabled", "adaptive")


def kind_possible(document: Json, question: Question) -> str:
    """Thinking is ``enabled`` with a budget, or ``disabled``; ``adaptive``, and an effort, with newer models only."""
    kind = _thinking(document).get("type", "disabled")
    if kind not in ("enabled", "disabled", "adaptive"):
        return "thinking: Input tag does not match any of the expected tags: 'enabled', 'disabled', 'adaptive'"
    newer = question.model.startswith(ADAPTIVE)
    if kind == "adaptive" and not newer:
        return "adaptive thinking is not supported on this model"
    effort = as_map(document.get("output_config")).get("effort")
    return "" if effort is None or newer else "This model does not support the effort parameter."


def budget_possible(document: Json, _: Question) -> str:
    """The budget is at least 1024, and less than ``max_tokens``."""
    if _thinking(document).get("type") != "enabled":
        return ""
    budget = _thinking(document).get("budget_tokens")
    if not isinstance(budget, int):
        return "thinking.enabled.budget_tokens: Field required"
    if budget < MIN_BUDGET:
        return "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    return "" if budget < document["max_tokens"] else "`max_tokens` must be greater than `thinking.budget_tokens`."


def sampling_untouched(document: Json, _: Question) -> str:
    """With thinking, ``temperature`` is 1, ``top_p`` at least 0.95, and there is no ``top_k``."""
    if not _thinks(document):
        return ""
    if document.get("temperature", 1) not in (1, None):
        return "`temperature` may only be set to 1 when thinking is enabled."
    if document.get("top_k") is not None:
        return "`top_k` must be unset when thinking is enabled."
    top_p = document.get("top_p")
    if top_p is None or top_p >= 0.95:
        return ""
    return "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."


def nothing_forced(document: Json, _: Question) -> str:
    """With thinking, no tool has to be called."""
    forced = as_map(document.get("tool_choice")).get("type") in ("any", "tool")
    return "Thinking may not be enabled when tool_choice forces tool use." if forced and _thinks(document) else ""


def signatures_valid(document: Json, _: Question) -> str:
    """Thinking comes back as it was given, with its own signature."""
    for place, block in blocks(document):
        if block.get("type") == "thinking" and block.get("signature") != sign(str(block.get("thinking"))):
            return f"{place}: Invalid `signature` in `thinking` block"
        if block.get("type") == "redacted_thinking" and block.get("data") != SEALED:
            return f"{place}: Invalid `data` in `redacted_thinking` block"
    return ""


def turn_starts_with_thinking(document: Json, _: Question) -> str:
    """With a thinking budget, an assistant's message whose calls are being answered starts with thinking."""
    if _thinking(document).get("type") != "enabled":
        return ""
    for at, (side, content) in reversed(list(enumerate(joined(document)))):
        if side == "assistant":
            if not of_type(content, "tool_use") or content[0].get("type") in THOUGHTS:
                return ""
            return (
                f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                f"`{content[0].get('type')}`. When `thinking` is enabled, a final `assistant` message must start with "
                "a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
            )
    return ""


ABLE: Final = ("claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-5", "claude-opus-4-6")
PLACE: Final = "output_config.format"
KEYWORDS: Final = frozenset(
    (
        "$defs", "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "const", "default", "definitions",
        "description", "enum", "format", "items", "minItems", "properties", "required", "title", "type",
    )
)  # fmt: skip
NAMED: Final = ("properties", "$defs", "definitions")


def _format(document: Json) -> Mapping[str, Any]:
    return as_map(as_map(document.get("output_config")).get("format"))


def _schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every schema in *schema*, outer ones first."""
    waiting = [schema]
    while waiting:
        node = as_map(waiting.pop())
        yield node
        waiting += [each for word in NAMED for each in as_map(node.get(word)).values()]
        waiting += [each for word in ("anyOf", "allOf") for each in as_list(node.get(word))]
        waiting += [node["items"]] if "items" in node else []


def form_possible(document: Json, question: Question) -> str:
    """``output_config.format`` is a ``json_schema``, of a model that has it, and no answer is begun or citing then."""
    form = _format(document)
    if not form:
        return ""
    if not question.model.startswith(ABLE):
        return f"'{question.model}' does not support output format."
    if form.get("type") != "json_schema" or not as_map(form.get("schema")):
        return f"{PLACE}.schema: Field required"
    if as_map(as_list(document["messages"])[-1]).get("role") == "assistant":
        return f"{PLACE}: not supported with a prefilled answer"
    cites = any(as_map(block.get("citations")).get("enabled") for _, block in blocks(document))
    return f"{PLACE}: not supported with citations" if cites else ""


def schema_closed(document: Json, _: Question) -> str:
    """Every object in a schema of the answer has ``additionalProperties: false``."""
    for schema in _schemas(_format(document).get("schema")):
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            return f"{PLACE}.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
    return ""


def schema_known(document: Json, _: Question) -> str:
    """A schema of the answer has a type, and no constraint on numbers, lengths or patterns."""
    for schema in _schemas(_format(document).get("schema")):
        unknown = sorted(schema.keys() - KEYWORDS)
        if unknown or schema.get("minItems", 0) > 1:
            words = ", ".join(unknown or ["minItems"])
            return f"{PLACE}.schema: For '{schema.get('type')}' type, properties {words} are not supported"
    return ""


def schema_ends(document: Json, _: Question) -> str:
    """No definition of a schema of the answer leads to itself."""
    root = as_map(_format(document).get("schema"))
    found = {f"#/{word}/{name}": body for word in NAMED[1:] for name, body in as_map(root.get(word)).items()}
    used = {name: {str(each["$ref"]) for each in _schemas(body) if "$ref" in each} for name, body in found.items()}
    for name in used:
        seen, waiting = set[str](), [*used[name]]
        while waiting:
            if (each := waiting.pop()) not in seen:
                seen.add(each)
                waiting += used.get(each, ())
        if name in seen:
            return f"{PLACE}.schema: Circular reference detected: {name}"
    return ""


RULES: Final[tuple[FormatRule, ...]] = (
    fields_known,
    fields_present,
    length_allowed,
    numbers_in_range,
    stops_visible,
    metadata_known,
    roles_known,
    content_present,
    blocks_known,
    blocks_on_their_side,
    text_present,
    images_valid,
    seals_kept,
    searches_answered,
    tools_valid,
    tool_names_differ,
    choice_possible,
    uses_valid,
    use_ids_differ,
    uses_answered,
    results_first,
    kind_possible,
    budget_possible,
    sampling_untouched,
    nothing_forced,
    signatures_valid,
    turn_starts_with_thinking,
    form_possible,
    schema_closed,
    schema_known,
    schema_ends,
    ending_trimmed,
    few_breakpoints,
)
