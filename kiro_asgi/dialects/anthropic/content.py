"""Content blocks of a request as neutral parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from kiro_asgi.dialects.anthropic.server_tools import parse_result
from kiro_asgi.dialects.anthropic.shapes import (
    CONVERTER,
    FIELD_REQUIRED,
    Base64Source,
    Block,
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
from kiro_asgi.dialects.media import read_file, read_image
from kiro_asgi.dialects.structure import Raw, structure_value
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import REMEMBERED, Document, Image, Part, Text, ThinkingPart, ToolCallPart, ToolResult
from kiro_asgi.model.signatures import unless_unsigned
from kiro_asgi.wire.json import dumps, object_of, objects_of, text_of

Parts = Iterable[Part]

_TIMES: Final = ("5m", "1h")


def read_mark(value: Any) -> str:
    """A ``cache_control`` as `kiro_asgi.model.prompt.Text.cache` has it; any other value marks nothing."""
    if value is None or not isinstance(value, Mapping) or value.get("type") != "ephemeral":
        return ""
    time = value.get("ttl")
    return time if time in _TIMES else REMEMBERED


def parse_content(content: str | tuple[Block, ...], place: str, start: int = 0) -> Iterator[Part]:
    """The parts of a turn in order; blocks of an unknown kind give none, nor do calls whose results such blocks are.

    Args:
        content: A string is one block of text.
        place: Where it stands in the request, for errors.
        start: The first block that counts.

    Raises:
        RequestError: An image or a document whose source is of a kind that we cannot pass on.
    """
    if isinstance(content, str):
        yield Text(content)
        return
    unknown = [block.value for block in content if type(block) is Raw]
    answered = {text_of(value, "tool_use_id") for value in unknown} if unknown else ()
    for index, block in enumerate(content[start:], start):
        parse = _BLOCKS.get(type(block))
        if parse is not None and not (answered and type(block) is ToolUseBlock and block.id in answered):
            yield from parse(block, f"{place}[{index}]")


def _text(block: MessagesTextBlock, _: str) -> Parts:
    if not (block.cache_control or block.citations):
        return (Text(block.text),)
    return (Text(block.text, read_mark(block.cache_control), block=_cited(block)),)


def _cited(block: MessagesTextBlock) -> Mapping[str, Any] | None:
    """The block with the citations that the service sealed; the places of others may not be those of its prompt."""
    sealed = [each for each in objects_of(block.citations) if text_of(each, "encrypted_index")]
    return {"type": "text", "text": block.text, "citations": sealed} if sealed and block.text.strip() else None


def _image(block: ImageBlock, place: str) -> Parts:
    mark = read_mark(block.cache_control)
    match block.source:
        case Base64Source(media_type, data):
            if _is_data_url(data):
                return (evolve(read_image(data, f"{place}.source.data"), place=place, cache=mark),)
            return (Image(media_type, data, place=place, cache=mark),)
        case UrlSource(url):
            return (evolve(read_image(url, f"{place}.source.url"), place=place, cache=mark),)
    raise _unsupported("image", block.source, place)


def _document(block: DocumentBlock, place: str) -> Parts:
    cited = _is_cited(block)
    for part in _document_of(block, place):
        yield evolve(part, cited=True) if cited and isinstance(part, Document) else part


def _document_of(block: DocumentBlock, place: str) -> Parts:
    context = (Text(block.context),) if block.context else ()
    title, mark = block.title or "", read_mark(block.cache_control)
    match block.source:
        case Base64Source(media_type, data):
            if _is_data_url(data):
                return *context, evolve(read_file(data, title, f"{place}.source.data"), place=place, cache=mark)
            return *context, Document(media_type, data=data, title=title, place=place, cache=mark)
        case UrlSource(url):
            return *context, evolve(read_file(url, title, f"{place}.source.url"), place=place, cache=mark)
        case TextSource(data, media_type):
            return *context, Document(media_type, text=data, title=title, place=place, cache=mark)
        case ContentSource(content):
            return *context, *_document_of_blocks(content, title, place, mark)
    raise _unsupported("document", block.source, place)


def _is_data_url(data: str) -> bool:
    """Whether *data*, which should be base64, is a whole URL: no base64 has a colon."""
    return data[:5].lower() == "data:"


def _document_of_blocks(content: str | tuple[Block, ...], title: str, place: str, mark: str) -> Parts:
    """Texts become one document; images cannot be in it and follow."""
    parts = tuple(parse_content(content, f"{place}.source.content"))
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    return Document("text/plain", text=text, title=title, place=place, cache=mark), *(
        part for part in parts if isinstance(part, Image)
    )


def _unsupported(what: str, source: Source, place: str) -> RequestError:
    kind = source.value.get("type") if isinstance(source, Raw) else "text"
    return RequestError(
        f"{place}.source.type: {what} sources of type {str(kind)[:60]} are not supported", param=f"{place}.source.type"
    )


def _search_result(block: SearchResultBlock, _: str) -> Parts:
    text = "\n".join((f"{block.title} ({block.source})", *(piece.text for piece in block.content)))
    return (Text(text, read_mark(block.cache_control), block=_citable(block)),)


def _citable(block: SearchResultBlock) -> Mapping[str, Any] | None:
    """The block as the service takes it: with a title, a source, and words in each of its texts."""
    texts = [piece.text for piece in block.content]
    if not (texts and all(map(str.strip, (block.title, block.source, *texts)))):
        return None
    content = [{"type": "text", "text": text} for text in texts]
    fields = {"type": "search_result", "source": block.source, "title": block.title, "content": content}
    return {**fields, "citations": {"enabled": True}} if _is_cited(block) else fields


def _is_cited(block: DocumentBlock | SearchResultBlock) -> bool:
    """Whether the answer is to cite it."""
    return object_of(block.citations).get("enabled") is True


def _thinking(block: MessagesThinkingBlock, _: str) -> Parts:
    return (ThinkingPart(block.thinking, unless_unsigned(block.signature or "")),)


def _redacted_thinking(block: MessagesRedactedThinkingBlock, _: str) -> Parts:
    return (ThinkingPart(redacted=block.data),)


def _tool_use(block: ToolUseBlock, _: str) -> Parts:
    return (ToolCallPart(block.id, block.name, block.input or {}, read_mark(block.cache_control)),)


def _tool_result(block: ToolResultBlock, place: str) -> Parts:
    parts = tuple(_result_parts(block.content, f"{place}.content"))
    return (ToolResult(block.tool_use_id, parts, bool(block.is_error), read_mark(block.cache_control)),)


def _server_result(block: ServerResultBlock, place: str) -> Parts:
    mark, content = read_mark(block.cache_control), block.content
    if isinstance(content, str) or (isinstance(content, list) and any(map(is_result_block, content))):
        parts = tuple(_result_parts(content, f"{place}.content"))
        return (ToolResult(block.tool_use_id, parts, bool(block.is_error), mark),)
    result = parse_result(block.tool_use_id, content)
    return (evolve(result, is_error=result.is_error or bool(block.is_error), cache=mark),)


def is_summary(block: object) -> bool:
    """Whether *block* stands for all before it; a service that could make no summary sends a block without one."""
    return isinstance(block, CompactionBlock) and bool(block.content and block.content.strip())


def _compaction(block: CompactionBlock, _: str) -> Parts:
    if not is_summary(block):
        return ()
    assert block.content is not None, "a summary has content"
    sealed = {name: getattr(block, name) for name in ("encrypted_content", "signature", "tool_changes")}
    given = {name: value for name, value in sealed.items() if value is not None}
    whole = {"type": "compaction", "content": block.content, **given}
    return (Text(block.content, read_mark(block.cache_control), block=whole),)


def _container_upload(_: ContainerUploadBlock, place: str) -> Parts:
    place = f"{place}.file_id"
    raise RequestError(f"{place}: there is no file store here; send the file as a document", param=place)


def _result_parts(content: Any, place: str) -> Iterator[Text | Image | Document]:
    """The result of a tool; JSON without any block in it counts as its own text."""
    if content is None:
        return
    if isinstance(content, str):
        yield Text(content)
    elif isinstance(content, list) and any(map(is_result_block, content)):
        for index, item in enumerate(content):
            if is_result_block(item):
                yield from _result_part(item, f"{place}[{index}]")
    elif content != []:
        yield Text(dumps(content).decode())


def _result_part(item: Any, place: str) -> Iterator[Text | Image | Document]:
    block: Any = structure_value(
        item, RESULT_BLOCKS[item["type"]], converter=CONVERTER, missing=FIELD_REQUIRED, at=place
    )
    for part in _BLOCKS[type(block)](block, place):
        assert isinstance(part, Text | Image | Document)
        yield part


def is_result_block(item: Any) -> bool:
    """Whether *item*, of a tool's result, is read as a block."""
    return isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] in RESULT_BLOCKS


RESULT_BLOCKS: Final[Mapping[str, type]] = MappingProxyType(
    {"text": MessagesTextBlock, "image": ImageBlock, "document": DocumentBlock, "search_result": SearchResultBlock}
)
"""The kinds of block that a tool's result may hold."""

_BLOCKS: Final[MappingProxyType[type, Callable[[Any, str], Parts]]] = MappingProxyType(
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
    }
)
