"""The rules of the Kiro service about tools, schemas, calls and attachments, and the table of all rules.

About images and documents the service's own model has refusals for too many and too large ones, and no numbers.  Where
its open-source client has one, that is the rule here.  How many documents it takes, and how large, is unknown and not
checked.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.kiro.document import results_of, uses_of
from kiro_asgi.simulator.kiro.message_checks import (
    ACCESS,
    BODY,
    HISTORY,
    IMPROPER,
    INVALID,
    LENGTHS,
    MODEL,
    THINKING,
    KiroRequest,
    Refusal,
    RequestRule,
)

NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
IDENTITY: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

MAX_DESCRIPTION: Final = 10_000
"""Characters."""

MAX_DESCRIPTION_BYTES: Final = 10_240


def only_specifications(request: KiroRequest) -> bool:
    """Every entry of ``tools`` is a ``toolSpecification``; a ``cachePoint`` among them is refused."""
    return all("toolSpecification" in as_map(item) for item in as_list(request.conversation.context.get("tools")))


def tool_names_valid(request: KiroRequest) -> bool:
    """A tool's name starts with a letter and goes on with letters, digits, ``_`` and ``-``, 64 characters at most.

    The older client knows no ``-``; the newer one and the live service do.
    """
    return all(NAME.fullmatch(tool.name) for tool in request.conversation.tools)


def tool_names_differ(request: KiroRequest) -> bool:
    """No two tools have the same name, upper and lower case being the same."""
    names = [tool.name.lower() for tool in request.conversation.tools]
    return len(set(names)) == len(names)


def tool_descriptions_present(request: KiroRequest) -> bool:
    """A tool has a description that is not blank."""
    return all(tool.description.strip() for tool in request.conversation.tools)


def tool_descriptions_short(request: KiroRequest) -> bool:
    """A tool's description has at most 10,000 characters and 10,240 bytes.

    Reports name 9,216 to 10,240 of either; these two are what most gateways live with.
    """
    return all(
        len(tool.description) <= MAX_DESCRIPTION and len(tool.description.encode()) <= MAX_DESCRIPTION_BYTES
        for tool in request.conversation.tools
    )


def ids_valid(request: KiroRequest) -> bool:
    """Ids of uses and of results are 1 to 64 letters, digits, ``_`` and ``-``."""
    return all(_fits(IDENTITY, part.get("toolUseId")) for part in (*_uses(request), *_results(request)))


def uses_valid(request: KiroRequest) -> bool:
    """A use has a valid tool name, and an object as its input."""
    return all(_fits(NAME, use.get("name")) and isinstance(use.get("input"), Mapping) for use in _uses(request))


def keys_named(request: KiroRequest) -> bool:
    """No key of an input is the empty string, at any depth."""
    return not any("" in part for use in _uses(request) for part in _objects(use.get("input")))


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, Mapping):
            yield part
            rest += part.values()
        elif isinstance(part, list):
            rest += part


def results_valid(request: KiroRequest) -> bool:
    """A result has parts, each either text or JSON, and a status of ``success`` or ``error``, if any."""
    return all(
        result.get("status", "success") in ("success", "error")
        and bool(result.get("content"))
        and all(_is_part(as_map(part)) for part in as_list(result.get("content")))
        for result in _results(request)
    )


def _is_part(part: Mapping[str, Any]) -> bool:
    return len(part) == 1 and ("json" in part or isinstance(part.get("text"), str))


def ids_differ(request: KiroRequest) -> bool:
    """An id names one use, and is answered by one result, in the whole request.

    That a result may not come twice is well attested.  That a use may not is the rule of Anthropic's own API; whether
    it is the service's, is untested.
    """
    return all(
        len({part["toolUseId"] for part in parts}) == len(parts) for parts in (_uses(request), _results(request))
    )  # fmt: skip


def tools_defined(request: KiroRequest) -> bool:
    """Every tool that was used is on offer, under exactly this name, and some tool is where there are results."""
    offered = {tool.name for tool in request.conversation.tools}
    return {use["name"] for use in _uses(request)} <= offered and (bool(offered) or not _results(request))


def results_match_uses(request: KiroRequest) -> bool:
    """Every use is answered in the next message, and every result answers a use of the message before."""
    uses: set[str] = set()
    for side, message in request.conversation.messages:
        if side == "user" and {result["toolUseId"] for result in results_of(message)} != uses:
            return False
        uses = {use["toolUseId"] for use in uses_of(message)}
    return True


def _fits(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _uses(request: KiroRequest) -> list[Mapping[str, Any]]:
    return [use for message in request.conversation.assistants for use in uses_of(message)]


def _results(request: KiroRequest) -> list[Mapping[str, Any]]:
    return [result for message in request.conversation.users for result in results_of(message)]


BAD_FORMAT: Final = Refusal(400, "Invalid tool use format.", "REQUEST_BODY_INVALID")

TOOLS: Final = (
    RequestRule(only_specifications, IMPROPER),
    RequestRule(tool_names_valid, BAD_FORMAT),
    RequestRule(tool_names_differ, Refusal(400, "Duplicate tool name.", "TOOL_DUPLICATE")),
    RequestRule(tool_descriptions_present, BAD_FORMAT),
    RequestRule(tool_descriptions_short, BAD_FORMAT),
)

CALLS: Final = (
    RequestRule(ids_valid, BAD_FORMAT),
    RequestRule(uses_valid, BAD_FORMAT),
    RequestRule(keys_named, BAD_FORMAT),
    RequestRule(results_valid, BAD_FORMAT),
    RequestRule(ids_differ, BAD_FORMAT),
    RequestRule(
        tools_defined, Refusal(400, "Tools must be defined when the conversation uses them.", "TOOL_CONFIG_MISSING")
    ),
    RequestRule(
        results_match_uses,
        Refusal(400, "The tool results do not match the tool uses of the previous turn.", "TOOL_USE_RESULT_MISMATCH"),
    ),
)


REFUSED: Final = frozenset(
    (
        "$schema", "additionalProperties", "contains", "contentEncoding", "contentMediaType", "dependencies",
        "dependentRequired", "dependentSchemas", "else", "encrypted", "exclusiveMaximum", "exclusiveMinimum", "format",
        "if", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum",
        "multipleOf", "pattern", "patternProperties", "propertyNames", "then", "unevaluatedItems",
        "unevaluatedProperties", "uniqueItems",
    )
)  # fmt: skip
"""Keywords that some back end or other refuses."""

NAMES: Final = frozenset(("properties", "$defs", "definitions"))
"""Keywords whose members have names that the client chooses."""

LITERALS: Final = frozenset(("const", "default", "enum", "example", "examples"))
"""Keywords whose value is arbitrary JSON, not a schema."""

ALTERNATIVES: Final = frozenset(("allOf", "anyOf", "oneOf"))


def schema_roots_are_objects(request: KiroRequest) -> bool:
    """A tool's schema has ``type: object`` at its root, and no alternatives there."""
    return all(
        tool.schema.get("type") == "object" and not ALTERNATIVES & set(tool.schema)
        for tool in request.conversation.tools
    )  # fmt: skip


def schema_parts_are_objects(request: KiroRequest) -> bool:
    """``properties`` holds schemas by name, and every schema is an object: not null, not a boolean."""
    named = [part[name] for part in _schemas(request) for name in NAMES if name in part]
    return all(isinstance(part, Mapping) for value in named for part in (value, *as_map(value).values()))


def required_lists_names(request: KiroRequest) -> bool:
    """``required`` is a list of names, never null and never empty.

    One gateway sends an empty list without harm; three found it refused.
    """
    return all(_lists_names(part.get("required", ["name"])) for part in _schemas(request))


def _lists_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


def keywords_known(request: KiroRequest) -> bool:
    """No schema uses a keyword that narrows a value beyond its type, or lists further content.

    Which of them are refused varies by model; no model needs one.  Names under ``properties`` are no keywords.
    """
    return not any(REFUSED & set(part) for part in _schemas(request))


def _schemas(request: KiroRequest) -> Iterator[Mapping[str, Any]]:
    """Every schema within the schemas of all tools."""
    rest: list[Any] = [tool.schema for tool in request.conversation.tools]
    while rest:
        schema = rest.pop()
        yield schema
        for keyword, value in schema.items():
            if keyword in LITERALS:
                continue
            parts = value.values() if keyword in NAMES and isinstance(value, Mapping) else (value,)
            for part in parts:
                rest += [each for each in (part if isinstance(part, list) else (part,)) if isinstance(each, Mapping)]


SCHEMAS: Final = (
    RequestRule(schema_roots_are_objects, Refusal(400, "Invalid tool schema.", "TOOL_SCHEMA_INVALID")),
    RequestRule(schema_parts_are_objects, IMPROPER),
    RequestRule(required_lists_names, IMPROPER),
    RequestRule(keywords_known, IMPROPER),
)


BEGINNINGS: Final[Mapping[str, bytes]] = MappingProxyType(
    {"gif": b"GIF8", "jpeg": b"\xff\xd8\xff", "png": b"\x89PNG\r\n\x1a\n", "webp": b"RIFF"}
)
"""First bytes of each image format."""

HEAD: Final = 16
"""Characters of base64 that hold any of them."""

DOCUMENTS: Final = frozenset(("csv", "doc", "docx", "html", "md", "pdf", "txt", "xls", "xlsx"))

MAX_IMAGES: Final = 20
MAX_IMAGE: Final = 10_000_000
"""Bytes."""


def image_formats_known(request: KiroRequest) -> bool:
    """An image is a ``gif``, ``jpeg``, ``png`` or ``webp``; ``jpg`` is not known."""
    return all(image.get("format") in BEGINNINGS for image in _images(request))


def bytes_present(request: KiroRequest) -> bool:
    """Images and documents have bytes, in base64; an address is no source."""
    return all(_decoded(_bytes(part)) for part in (*_images(request), *_documents(request)))


def image_bytes_match(request: KiroRequest) -> bool:
    """The bytes of an image are of its announced format."""
    return all(_decoded(_bytes(image)[:HEAD]).startswith(BEGINNINGS[image["format"]]) for image in _images(request))


def image_count_allowed(request: KiroRequest) -> bool:
    """A request has at most 20 images.

    The AWS client stops itself at 10, one gateway at 4, others nowhere.  To stay below costs images, so the number here
    is that of Amazon Bedrock, behind which the same models stand: there is no report of the service enforcing it.
    """
    return len(_images(request)) <= MAX_IMAGES


def image_sizes_allowed(request: KiroRequest) -> bool:
    """An image has at most 10 MB, as the AWS client has it; one gateway sends twice as much."""
    return all(len(_bytes(image)) * 3 // 4 <= MAX_IMAGE for image in _images(request))


def document_formats_known(request: KiroRequest) -> bool:
    """A document has a name, and a format of the service's model."""
    return all(
        document.get("format") in DOCUMENTS and bool(str(document.get("name", "")).strip())
        for document in _documents(request)
    )


def document_names_differ(request: KiroRequest) -> bool:
    """No two documents of a request have the same name."""
    names = [document["name"] for document in _documents(request)]
    return len(set(names)) == len(names)


def _images(request: KiroRequest) -> list[Mapping[str, Any]]:
    return [as_map(image) for message in request.conversation.users for image in as_list(message.get("images"))]


def _documents(request: KiroRequest) -> list[Mapping[str, Any]]:
    return [
        as_map(document) for message in request.conversation.users for document in as_list(message.get("documents"))
    ]


def _bytes(part: Mapping[str, Any]) -> str:
    """The bytes of an attachment as they were sent, in base64."""
    value = as_map(part.get("source")).get("bytes")
    return value if isinstance(value, str) else ""


def _decoded(value: str) -> bytes:
    """Decode *value*; empty where it is not base64."""
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return b""


def _refusal(message: str, reason: str) -> Refusal:
    return Refusal(400, message, reason)


ATTACHMENTS: Final = (
    RequestRule(image_formats_known, _refusal("Unsupported image format.", "IMAGE_FORMAT_UNSUPPORTED")),
    RequestRule(document_formats_known, INVALID),
    RequestRule(bytes_present, INVALID),
    RequestRule(image_bytes_match, _refusal("The image does not match its format.", "IMAGE_MIME_MISMATCH")),
    RequestRule(image_count_allowed, _refusal("Too many images.", "IMAGE_COUNT_EXCEEDED")),
    RequestRule(image_sizes_allowed, _refusal("The image is too large.", "IMAGE_SIZE_EXCEEDED")),
    RequestRule(document_names_differ, _refusal("Duplicate document name.", "DOCUMENT_DUPLICATE_NAME")),
)


RULES: Final[tuple[RequestRule, ...]] = (
    *ACCESS,
    *BODY,
    *HISTORY,
    *MODEL,
    *LENGTHS,
    *TOOLS,
    *SCHEMAS,
    *CALLS,
    *ATTACHMENTS,
    *THINKING,
)
