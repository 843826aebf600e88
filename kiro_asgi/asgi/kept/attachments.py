"""Images and documents that a request names by address, for services that take bytes only."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from attrs import evolve, frozen

from kiro_asgi.errors import RequestError
from kiro_asgi.limits import FETCHES
from kiro_asgi.model.media_types import media_type_of
from kiro_asgi.model.prompt import Attachment, Document, Image, Part, Prompt, ToolResult
from kiro_asgi.net.fetching import Fetched

PDF: Final = "application/pdf"

_UNTYPED: Final = ("", "application/octet-stream", "binary/octet-stream")
"""Media types that say nothing; the last is S3's."""

_NO_DOCUMENTS: Final = ("image/", "audio/", "video/", "multipart/")

Hold = Callable[[int], None]


class AttachmentSource(Protocol):
    """Where files come from: `kiro_asgi.net.fetching.Fetcher`, or a tape."""

    def allows(self, url: str) -> bool:
        """Whether *url* may be asked for."""
        ...

    async def fetch(self, places: Mapping[str, str], hold: Hold) -> Mapping[str, Fetched]:
        """The files at all addresses of *places*, with the bytes that they take handed to *hold*."""
        ...

    async def aclose(self) -> None:
        """Let go of what the running event loop has open."""
        ...


@frozen
class AttachmentFetcher:
    """Fetches what the operator allows; what is left is the upstream's to refuse."""

    _fetcher: AttachmentSource | None

    async def fetched(self, prompt: Prompt, itself: Callable[[Attachment], bool], hold: Hold) -> Prompt:
        """*prompt* with bytes for addresses.

        Args:
            prompt: What is asked.
            itself: Whether the service fetches an attachment itself.
            hold: Called with each number of bytes that the prompt grows by; may raise `TooBusy`.

        Raises:
            RequestError: Something cannot be fetched, or is of the wrong kind; ``param`` names the place.
            TooBusy: There is no room for it now.
        """
        fetcher = self._fetcher
        if fetcher is None:
            return prompt
        wanted = [part for part in _attachments(prompt) if part.url and not itself(part) and fetcher.allows(part.url)]
        if not wanted:
            return prompt
        places: dict[str, str] = {}
        for part in wanted:
            places.setdefault(part.url, part.place)
            if len(places) > FETCHES:
                raise _refused(part, f"more than {FETCHES} attachments by address")
        files = await fetcher.fetch(places, hold)
        by_value = {id(part): _whole(part, files[part.url]) for part in wanted}
        turns = (evolve(turn, parts=tuple(_replaced(part, by_value) for part in turn.parts)) for turn in prompt.turns)
        return evolve(prompt, turns=tuple(turns))

    async def aclose(self) -> None:
        """Close the idle connections of the running event loop."""
        if self._fetcher is not None:
            await self._fetcher.aclose()


def _attachments(prompt: Prompt) -> Iterator[Attachment]:
    for turn in prompt.turns:
        for part in turn.content():
            if isinstance(part, Image | Document):
                yield part


def _replaced(part: Part, by_value: Mapping[int, Attachment]) -> Part:
    """*part*, or what *by_value* has for it, or for what it holds, by identity."""
    if isinstance(part, ToolResult):
        return evolve(part, parts=tuple(by_value.get(id(each), each) for each in part.parts))
    return by_value.get(id(part), part)


def _whole(part: Attachment, file: Fetched) -> Attachment:
    """*part* by value; the media type that the bytes prove counts before the host's.

    Raises:
        RequestError: It is something else.
    """
    kind = media_type_of(file.content) or file.media_type
    return _image(part, kind, file) if isinstance(part, Image) else _document(part, kind, file)


def _image(part: Image, kind: str, file: Fetched) -> Image:
    if not kind.startswith("image/"):
        raise _refused(part, f"the file at the address is no image: {kind[:60] or 'no media type'}")
    return Image(kind, b64encode(file.content).decode(), place=part.place)


def _document(part: Document, kind: str, file: Fetched) -> Document:
    if kind in _UNTYPED or kind.startswith(_NO_DOCUMENTS):
        raise _refused(part, f"the file at the address is no document: {kind[:60] or 'no media type'}")
    if kind.startswith("text/"):
        return evolve(part, media_type=kind, url="", text=file.content.decode(errors="replace"))
    return evolve(part, media_type=kind, url="", data=b64encode(file.content).decode())


def _refused(part: Attachment, reason: str) -> RequestError:
    place = part.place or "messages"
    return RequestError(f"{place}: {reason}", code="invalid_value", param=place)
