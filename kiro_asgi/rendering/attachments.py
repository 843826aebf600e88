"""Images and documents: what a service takes of them, and in which form."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping
from string import ascii_letters, digits
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from attrs import field, frozen

from kiro_asgi.model.media_types import BEGINNING, essence, media_type_of
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Attachment, Document, Image
from kiro_asgi.rendering.refusal import refusal

_SHOWN: Final = 100
"""Characters of a host's name that an error repeats."""

_DIGITS: Final = (ascii_letters + digits + "+/").encode()
_URL_SAFE: Final = str.maketrans("-_", "+/")


def is_base64(data: str) -> bool:
    """Whether *data* is base64 of something: the standard alphabet, padded, and nothing between."""
    padding = data.encode("ascii", "replace").translate(None, _DIGITS)
    return bool(data) and not len(data) % 4 and padding in (b"", b"=", b"==") and data.endswith(padding.decode())


def plain_base64(data: str) -> str:
    """*data* in the one form that every decoder reads; empty where it is not base64."""
    standard = "".join(data.split()).translate(_URL_SAFE).rstrip("=")
    standard += "=" * (-len(standard) % 4)
    return standard if is_base64(standard) else ""


def image_type(data: str) -> str:
    """The media type of an image that the beginning of its base64 proves; empty where it proves none."""
    head = plain_base64(data[: BEGINNING * 4 // 3])
    found = media_type_of(a2b_base64(head)) if head else ""
    return found if found.startswith("image/") else ""


def document_text(part: Document) -> str:
    """A plain-text document as part of a message's text."""
    return f"{part.title}\n\n{part.text}" if part.title else part.text


def instead_of_address(url: str) -> str:
    """Advice for the client, where the service does not fetch *url* itself."""
    try:
        host = (urlsplit(url).hostname or "")[:_SHOWN]
    except ValueError:
        host = ""
    return f"send the bytes as base64, or let fetch.allow name {host or 'its host'}"


def _none(url: str) -> bool:
    return False


def every(url: str) -> bool:
    """The service reads what is at *url*, wherever that is."""
    return True


def same(*media_types: str) -> Mapping[str, str]:
    """Formats of a service that calls them by their media types."""
    return _formats(media_types, str)


def by_subtype(*media_types: str) -> Mapping[str, str]:
    """Formats of a service that calls them by the second half of their media types."""
    return _formats(media_types, lambda media_type: media_type.partition("/")[2])


def _formats(media_types: Iterable[str], name: Callable[[str], str]) -> Mapping[str, str]:
    found = {media_type: name(media_type) for media_type in media_types}
    if _JPEG in found:
        found["image/jpg"] = found[_JPEG]  # as many clients write it
    return MappingProxyType(found)


_JPEG: Final = "image/jpeg"


@frozen
class Accepted:
    """What a service takes of images, or of documents."""

    formats: Mapping[str, str] | None
    """Media type to the service's own name for it; ``None`` for whatever the client has."""

    text: str = ""
    """The name for any other text; empty where none is taken."""

    reads: Callable[[str], bool] = _none
    """Whether the service itself reads what is at an address."""


@frozen
class Attached:
    """An attachment as it can be sent: by its address, or its bytes."""

    format: str
    """The service's name for it; of an address the media type, empty for an unknown one."""

    data: str = ""
    """Base64; empty for an address, and for a document that the client sent as text."""

    url: str = ""


@frozen
class Attachments:
    """Finds for each attachment of one request the form in which the service takes it.

    Raises:
        RequestError: It takes none for this model, in this format, or by this address (what `fetch.allow` names is
            fetched before); or it is not base64.
    """

    notes: Notes
    images: Accepted
    documents: Accepted
    blind: str = field(default="", kw_only=True)
    """The model that is asked, if it takes no images; empty if it does, or nobody knows."""

    def image(self, part: Image) -> Attached:
        """An image, in the format that its bytes have."""
        if self.blind:
            self._refuse("images.model", f"{self.blind} takes no images", part)
        if part.url:
            return self._by_address("images.address", part, self.images)
        data = self._base64(part)
        declared = essence(part.media_type)
        found = image_type(data) or declared
        if self.images.formats is None:
            return Attached(found, data)
        known, meant = self.images.formats.get(found), self.images.formats.get(declared)
        if known is None:
            self._refuse_format("images.format", found, part, self.images)
        elif declared and known != meant and not self.notes.applies("images.mismatch", part.place):
            known = meant
        return Attached(known or declared, data)

    def document(self, part: Document) -> Attached:
        """A document."""
        accepted = self.documents
        if part.url:
            return self._by_address("documents.address", part, accepted)
        declared = essence(part.media_type)
        known = declared if accepted.formats is None else accepted.formats.get(declared)
        if known is None and accepted.text and (declared.startswith("text/") or not part.data):
            known = accepted.text
        if known is None:
            self._refuse_format("documents.format", declared, part, accepted)
        return Attached(known or declared, self._base64(part) if part.data else "")

    def _by_address(self, rule: str, part: Attachment, accepted: Accepted) -> Attached:
        if not accepted.reads(part.url):
            self._refuse(rule, f"the service does not read this address; {instead_of_address(part.url)}", part)
        return Attached(essence(part.media_type), url=part.url)

    def _base64(self, part: Attachment) -> str:
        """The data in the one form that every decoder reads."""
        rule, data = "attachments.base64", part.data
        if is_base64(data) or rule in self.notes.off:
            return data
        plain = plain_base64(data)
        if not plain:
            raise refusal(rule, "data that is not base64", part.place)
        self.notes.applies(rule, part.place)
        return plain

    def _refuse_format(self, rule: str, found: str, part: Attachment, accepted: Accepted) -> None:
        known = [*dict.fromkeys((accepted.formats or {}).values())]
        taken = ", ".join(known) + (" and texts" if accepted.text else "")
        self._refuse(rule, f"{rule.partition('s.')[0]} format {found[:40]!r}; the service takes {taken}", part)

    def _refuse(self, rule: str, what: str, part: Attachment) -> None:
        if rule not in self.notes.off:
            raise refusal(rule, what, part.place)
