"""The names that a ``generateContent`` request may use, message by message, as Google's schema has them.

A member of a message is anybody's JSON (`FREE`), or another message, or a list of those, or a map to those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["SCHEMA", "unknown_names"]

FREE: Final = ""


def _free(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), FREE)


SCHEMA: Final[Mapping[str, str]] = {
    **_free(
        "type format title description nullable enum minItems maxItems required minProperties maxProperties minLength "
        "maxLength pattern minimum maximum propertyOrdering default example"
    ),
    "items": "Schema",
    "anyOf": "Schema",
    "properties": "{Schema}",
}
"""What a schema may say: a part of OpenAPI 3.0."""

MESSAGES: Final[Mapping[str, Mapping[str, str]]] = {
    "Request": {
        **_free("model cachedContent"),
        "contents": "Content",
        "systemInstruction": "Content",
        "tools": "Tool",
        "toolConfig": "ToolConfig",
        "generationConfig": "GenerationConfig",
        "safetySettings": "SafetySetting",
    },
    "Content": {"role": FREE, "parts": "Part"},
    "Part": {
        **_free("text thought thoughtSignature executableCode codeExecutionResult videoMetadata mediaResolution"),
        "inlineData": "Blob",
        "fileData": "FileData",
        "functionCall": "FunctionCall",
        "functionResponse": "FunctionResponse",
    },
    "Blob": _free("mimeType data"),
    "FileData": _free("mimeType fileUri"),
    "FunctionCall": _free("id name args"),
    "FunctionResponse": _free("id name response parts willContinue scheduling"),
    "Tool": {
        **_free("googleSearch googleSearchRetrieval codeExecution urlContext computerUse googleMaps fileSearch"),
        "functionDeclarations": "FunctionDeclaration",
    },
    "FunctionDeclaration": {
        **_free("name description parametersJsonSchema responseJsonSchema behavior"),
        "parameters": "Schema",
        "response": "Schema",
    },
    "Schema": SCHEMA,
    "ToolConfig": {"functionCallingConfig": "FunctionCallingConfig", "retrievalConfig": FREE},
    "FunctionCallingConfig": _free("mode allowedFunctionNames"),
    "GenerationConfig": {
        **_free(
            "stopSequences responseMimeType responseJsonSchema responseModalities candidateCount maxOutputTokens "
            "temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs logprobs speechConfig "
            "imageConfig mediaResolution enableEnhancedCivicAnswers"
        ),
        "responseSchema": "Schema",
        "thinkingConfig": "ThinkingConfig",
    },
    "ThinkingConfig": _free("includeThoughts thinkingBudget thinkingLevel"),
    "SafetySetting": _free("category threshold"),
}
"""Message to its members, and what those are."""


def unknown_names(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every name that is not known, and where it is."""
    rest: list[tuple[str, str, Any]] = [("Request", "", document)]
    while rest:
        kind, place, value = rest.pop()
        if isinstance(value, list):
            rest += [(kind, f"{place}[{at}]", part) for at, part in enumerate(value)]
        elif isinstance(value, Mapping) and kind.startswith("{"):
            rest += [(kind[1:-1], f"{place}.{name}", part) for name, part in value.items()]
        elif isinstance(value, Mapping):
            for name, part in value.items():
                member = MESSAGES[kind].get(_camel(name))
                if member is None:
                    yield name, place
                elif member != FREE:
                    rest.append((member, f"{place}.{name}".removeprefix("."), part))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)
