"""Content blocks of a request as neutral parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeGuard

from attrs import evolve

from kiro_asgi.dialects.anthropic.server_tools import parse_result
from kiro_asgi.dialects.anthropic.shapes import (
    API,
    BESIDE,
    CONVERTER,
    FIELD_REQUIRED,
    Base64Source,
    Block,
    BrowserStateBlock,
    CompactionBlock,
    ContainerUploadBlock,
    ContentSource,
    DocumentBlock,
    ImageBlock,
    MessagesRedactedThinkingBlock,
    MessagesTextBlock,
    MessagesThinkingBlock,
    SearchResultBlock,
    ServerResultBlock,
    Source,
    TextSource,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
)
from kiro_asgi.dialects.anthropic.toolsets import function_name
from kiro_asgi.dialects.media import read_file, read_image
from kiro_asgi.dialects.structure import Raw, structure_value
from kiro_asgi.errors import RequestError
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    REMEMBERED,
    Document,
    Image,
    Opaque,
    Part,
    Text,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
)
from kiro_asgi.model.signatures import unless_unsigned
from kiro_asgi.model.unread import Unread
from kiro_asgi.wire.json import dumps, object_of, objects_of, text_of

Parts = Iterable[Part]

_UNKNOWN: Final = "blocks.unknown"

_TIMES: Final = ("5m", "1h")


def read_mark(value: Any) -> str:
    """A ``cache_control`` as `kiro_asgi.model.prompt.Text.cache` has it; any other value marks nothing."""
    if value is None or not isinstance(value, Mapping) or value.get("type") != "ephemeral":
        return ""
    time = value.get("ttl")
    return time if time in _TIMES else REMEMBERED


def _beside(block: Any) -> Unread | None:
    """What was not read of a block that may have a mark for the cache."""
    if not (block.unread or block.cache_control):
        return None
    return BESIDE(block, cache_control=rest_of_mark(block.cache_control))


def rest_of_mark(value: Any) -> Any:
    """What `read_mark` leaves of a ``cache_control``; ``None`` for nothing."""
    if not read_mark(value):
        return value
    return {name: it for name, it in value.items() if name != "type" and not (name == "ttl" and it in _TIMES)} or None


def parse_content(content: str | tuple[Block, ...], place: str, notes: Notes) -> list[Part]:
    """The parts of a turn in order: those of `read_blocks`."""
    return [part for _, part in read_blocks(content, place, notes)]


def read_blocks(
    content: str | tuple[Block, ...], place: str, notes: Notes, start: int = 0
) -> Iterator[tuple[str, Part]]:
    """The parts in order, each with the place of its block; blocks of an unknown kind are opaque, and calls that these
    answer go with them.

    Args:
        content: A string is one block of text.
        place: Where it stands in the request.
        notes: Takes what services of other APIs are not sent.
        start: The first block that counts.

    Raises:
        RequestError: An image or a document whose source is of a kind that we cannot pass on.
    """
    if isinstance(content, str):
        yield place, Text(content)
        return
    unknown = [block.value for block in content if type(block) is Raw]
    answered = {text_of(value, "tool_use_id") for value in unknown} if unknown else ()
    for index, block in enumerate(content[start:], start):
        at = f"{place}[{index}]"
        if isinstance(block, Raw):
            notes.applies(_UNKNOWN, at, kept_for=API)
            yield at, Opaque(API, block.value, at)
        elif answered and isinstance(block, ToolUseBlock) and block.id in answered:
            notes.applies(_UNKNOWN, at, kept_for=API)
            yield at, Opaque(API, block.given, at)
        else:
            for part in _BLOCKS[type(block)](block, at, notes):
                yield at, part


def _text(block: MessagesTextBlock, place: str, notes: Notes) -> Parts:
    return (read_text(block, place, notes),)


def read_text(block: MessagesTextBlock, place: str, notes: Notes) -> Text:
    """A text, with its mark for the cache."""
    if not (block.cache_control or block.citations or block.unread):
        return Text(block.text)
    mark = read_mark(block.cache_control)
    citations = [*_citations(block, place, notes)] or None
    unread = BESIDE(block, cache_control=rest_of_mark(block.cache_control), citations=citations)
    return Text(block.text, mark, unread=unread)


def _citations(block: MessagesTextBlock, place: str, notes: Notes) -> Iterator[Mapping[str, Any]]:
    """The citations that a service may have made: each page that was searched is sealed."""
    for at, cited in enumerate(objects_of(block.citations)):
        sealed = cited.get("type") != "web_search_result_location" or text_of(cited, "encrypted_index")
        is_kept = bool(sealed and block.text.strip())
        notes.applies("fields.ignored", f"{place}.citations[{at}]", kept_for=API if is_kept else "")
        if is_kept:
            yield cited


def _image(block: ImageBlock, place: str, _: Notes) -> Parts:
    mark = read_mark(block.cache_control)
    match block.source:
        case Base64Source(media_type, data):
            image = read_image(data, f"{place}.source.data") if _is_data_url(data) else Image(media_type, data)
        case UrlSource(url):
            image = read_image(url, f"{place}.source.url")
        case source:
            return (Opaque(API, block.given, place, refusal=_unsupported("image", source, place)),)
    return (evolve(image, place=place, cache=mark, unread=_beside(block)),)


def _document(block: DocumentBlock, place: str, notes: Notes) -> Parts:
    """A document; what no other service has, its context and blocks within it, are parts of their own there."""
    title, mark = block.title or "", read_mark(block.cache_control)
    more: Parts = ()
    file: Document | Image
    match block.source:
        case Base64Source(media_type, data):
            if _is_data_url(data):
                file = read_file(data, title, f"{place}.source.data")
            else:
                file = Document(media_type, data=data, title=title)
        case UrlSource(url):
            file = read_file(url, title, f"{place}.source.url")
        case TextSource(data, media_type):
            file = Document(media_type, text=data, title=title)
        case ContentSource(content):
            file, more = _document_of_blocks(content, title, f"{place}.source.content", notes)
        case source:
            return (Opaque(API, block.given, place, refusal=_unsupported("document", source, place)),)
    about = evolve(file, place=place, cache=mark)
    if isinstance(about, Document) and _is_cited(block):
        about = evolve(about, cited=True)
    if not (block.context or isinstance(block.source, ContentSource)):
        return (evolve(about, unread=_beside(block)),)
    context = (Text(block.context),) if block.context else ()
    return (Opaque(API, block.given, place, (*context, about, *more)),)


def _is_data_url(data: str) -> bool:
    """Whether *data*, which should be base64, is a whole URL: no base64 has a colon."""
    return data[:5].lower() == "data:"


def _document_of_blocks(
    content: str | tuple[Block, ...], title: str, place: str, notes: Notes
) -> tuple[Document, Parts]:
    """Texts become one document; images cannot be in it and follow."""
    parts = parse_content(content, place, notes)
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    return Document("text/plain", text=text, title=title), [part for part in parts if not isinstance(part, Text)]


def _unsupported(what: str, source: Source, place: str) -> RequestError:
    kind = source.value.get("type") if isinstance(source, Raw) else "text"
    return RequestError(
        f"{place}.source.type: {what} sources of type {str(kind)[:60]} are not supported", param=f"{place}.source.type"
    )


def _search_result(block: SearchResultBlock, _: str, __: Notes) -> Parts:
    text = "\n".join((f"{block.title} ({block.source})", *(piece.text for piece in block.content)))
    return (Text(text, read_mark(block.cache_control), block=_citable(block)),)


def _citable(block: SearchResultBlock) -> Mapping[str, Any] | None:
    """The block as it came, where the service takes it: with a title, a source, and words in each of its texts."""
    texts = [piece.text for piece in block.content]
    if not (texts and all(map(str.strip, (block.title, block.source, *texts)))):
        return None
    rest = rest_of_mark(block.cache_control)
    fields = {name: value for name, value in block.given.items() if name != "cache_control"}
    return {**fields, "cache_control": rest} if rest else fields


def _is_cited(block: DocumentBlock | SearchResultBlock) -> bool:
    """Whether the answer is to cite it."""
    return object_of(block.citations).get("enabled") is True


def _thinking(block: MessagesThinkingBlock, _: str, __: Notes) -> Parts:
    return (ThinkingPart(block.thinking, unless_unsigned(block.signature or ""), unread=BESIDE(block)),)


def _redacted_thinking(block: MessagesRedactedThinkingBlock, _: str, __: Notes) -> Parts:
    return (ThinkingPart(redacted=block.data, unread=BESIDE(block)),)


def _tool_use(block: ToolUseBlock, _: str, __: Notes) -> Parts:
    mark, toolset = read_mark(block.cache_control), block.toolset_name
    instead = function_name(toolset, block.name) if toolset and isinstance(toolset, str) else ""
    unread = _with_toolset(block)
    return (ToolCallPart(block.id, block.name, block.input or {}, mark, instead=instead, unread=unread),)


def _with_toolset(block: ToolUseBlock | ToolResultBlock) -> Unread | None:
    """As `_beside`, of a call or a result that may be of a toolset."""
    if block.toolset_name is None:
        return _beside(block)
    return BESIDE(block, cache_control=rest_of_mark(block.cache_control), toolset_name=block.toolset_name)


def _tool_result(block: ToolResultBlock, place: str, notes: Notes) -> Parts:
    parts = tuple(_result_parts(block.content, f"{place}.content", notes))
    mark = read_mark(block.cache_control)
    return (ToolResult(block.tool_use_id, parts, bool(block.is_error), mark, unread=_with_toolset(block)),)


def _server_result(block: ServerResultBlock, place: str, notes: Notes) -> Parts:
    mark, content = read_mark(block.cache_control), block.content
    if isinstance(content, str) or (isinstance(content, list) and any(map(is_result_block, content))):
        parts = tuple(_result_parts(content, f"{place}.content", notes))
        return (ToolResult(block.tool_use_id, parts, bool(block.is_error), mark),)
    result = parse_result(block.tool_use_id, content)
    return (evolve(result, is_error=result.is_error or bool(block.is_error), cache=mark),)


def is_summary(block: object) -> bool:
    """Whether *block* stands for all before it; a service that could make no summary sends a block without one."""
    return isinstance(block, CompactionBlock) and bool(block.content and block.content.strip())


def _compaction(block: CompactionBlock, _: str, __: Notes) -> Parts:
    if not is_summary(block):
        return ()
    assert block.content is not None, "a summary has content"
    whole = {name: value for name, value in block.given.items() if name != "cache_control"}
    return (Text(block.content, read_mark(block.cache_control), block=whole),)


def _container_upload(block: ContainerUploadBlock, place: str, _: Notes) -> Parts:
    at = f"{place}.file_id"
    refusal = RequestError(f"{at}: there is no file store here; send the file as a document", param=at)
    return (Opaque(API, block.given, place, refusal=refusal),)


def _browser_state(block: BrowserStateBlock, place: str, _: Notes) -> Parts:
    """The block; other services have what it says as JSON, in which it is a few words and addresses."""
    told = {"tabs": block.tabs, "state_changes": block.state_changes}
    text = Text(dumps({name: value for name, value in told.items() if value}).decode())
    return (Opaque(API, block.given, place, (text,)),)


def _are_blocks(content: Any) -> TypeGuard[list[dict[str, Any]]]:
    """Whether *content* is a list of blocks of which none is of a known kind."""
    if not isinstance(content, list) or not content or any(map(is_result_block, content)):
        return False
    return all(isinstance(item, dict) and text_of(item, "type") for item in content)


def _in_words(block: Mapping[str, Any]) -> Text | None:
    """What a service of another API is told of a block; ``None`` for nothing.

    A tool that is to be loaded is offered there from the beginning.

    Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
    """
    name = text_of(block, "tool_name") if block.get("type") == "tool_reference" else ""
    return Text(f"The tool {name} is available.") if name else None


def _result_parts(content: Any, place: str, notes: Notes) -> Iterator[Text | Image | Document | Opaque]:
    """The result of a tool; JSON without any block in it counts as its own text."""
    if content is None:
        return
    if isinstance(content, str):
        yield Text(content)
    elif _are_blocks(content):
        for index, item in enumerate(content):
            yield Opaque(API, item, f"{place}[{index}]", instead=(_in_words(item) or Text(dumps(item).decode()),))
    elif isinstance(content, list) and any(map(is_result_block, content)):
        yield from _blocks_of_result(content, place, notes)
    elif content != []:
        yield Text(dumps(content).decode())


def _blocks_of_result(content: list[Any], place: str, notes: Notes) -> Iterator[Text | Image | Document | Opaque]:
    for index, item in enumerate(content):
        if is_result_block(item):
            yield from _result_part(item, f"{place}[{index}]", notes)
        elif isinstance(item, dict):
            words = _in_words(item)
            if words is None:
                notes.applies(_UNKNOWN, f"{place}[{index}]", kept_for=API)
            yield Opaque(API, item, f"{place}[{index}]", instead=() if words is None else (words,))


def _result_part(item: Any, place: str, notes: Notes) -> Iterator[Text | Image | Document | Opaque]:
    block: Any = structure_value(
        item, RESULT_BLOCKS[item["type"]], converter=CONVERTER, missing=FIELD_REQUIRED, at=place
    )
    BESIDE.note(notes, block, item, place)
    for part in _BLOCKS[type(block)](block, place, notes):
        assert isinstance(part, _HELD)
        yield part


def is_result_block(item: Any) -> bool:
    """Whether *item*, of a tool's result, is read as a block."""
    return isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] in RESULT_BLOCKS


_HELD: Final = (Text, Image, Document, Opaque)
"""Kinds of parts that a result may hold."""

RESULT_BLOCKS: Final[Mapping[str, type]] = MappingProxyType(
    {"text": MessagesTextBlock, "image": ImageBlock, "document": DocumentBlock, "search_result": SearchResultBlock}
    | {"browser_state": BrowserStateBlock}
)
"""The kinds of block that a tool's result may hold."""

_BLOCKS: Final[MappingProxyType[type, Callable[[Any, str, Notes], Parts]]] = MappingProxyType(
    {
        MessagesTextBlock: _text,
        ImageBlock: _image,
        DocumentBlock: _document,
        SearchResultBlock: _search_result,
        MessagesThinkingBlock: _thinking,
        MessagesRedactedThinkingBlock: _redacted_thinking,
        ToolUseBlock: _tool_use,
        ToolResultBlock: _tool_result,
        ServerResultBlock: _server_result,
        CompactionBlock: _compaction,
        ContainerUploadBlock: _container_upload,
        BrowserStateBlock: _browser_state,
    }
)
