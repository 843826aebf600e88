"""What the service refuses about images and documents.

The service's own model has refusals for too many and too large ones, and no numbers.  Where its open-source client has
one, that is the rule here.  How many documents it takes, and how large ones, nobody knows: these are not checked.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.rules import INVALID, Asked, Refusal, Rule

__all__ = ["ATTACHMENTS"]

BEGINNINGS: Final[Mapping[str, bytes]] = MappingProxyType(
    {"gif": b"GIF8", "jpeg": b"\xff\xd8\xff", "png": b"\x89PNG\r\n\x1a\n", "webp": b"RIFF"}
)
"""How the bytes of each image format begin."""

HEAD: Final = 16
"""Characters of base64 that hold any of them."""

DOCUMENTS: Final = frozenset(("csv", "doc", "docx", "html", "md", "pdf", "txt", "xls", "xlsx"))

MAX_IMAGES: Final = 20
MAX_IMAGE: Final = 10_000_000
"""Bytes."""


def image_formats_known(asked: Asked) -> bool:
    """An image is a ``gif``, ``jpeg``, ``png`` or ``webp``; ``jpg`` is not known."""
    return all(image.get("format") in BEGINNINGS for image in _images(asked))


def bytes_present(asked: Asked) -> bool:
    """Images and documents have bytes, in base64; an address is no source."""
    return all(_decoded(_bytes(part)) for part in (*_images(asked), *_documents(asked)))


def image_bytes_match(asked: Asked) -> bool:
    """The bytes of an image are of the format that it is said to have."""
    return all(_decoded(_bytes(image)[:HEAD]).startswith(BEGINNINGS[image["format"]]) for image in _images(asked))


def image_count_allowed(asked: Asked) -> bool:
    """A request has at most 20 images.

    The AWS client stops itself at 10, one gateway at 4, others nowhere.  To stay below costs images, so the number here
    is that of Amazon Bedrock, behind which the same models stand: nobody has seen the service enforce it.
    """
    return len(_images(asked)) <= MAX_IMAGES


def image_sizes_allowed(asked: Asked) -> bool:
    """An image has at most 10 MB, as the AWS client has it; one gateway sends twice as much."""
    return all(len(_bytes(image)) * 3 // 4 <= MAX_IMAGE for image in _images(asked))


def document_formats_known(asked: Asked) -> bool:
    """A document has a name, and a format of the service's model."""
    return all(
        document.get("format") in DOCUMENTS and bool(str(document.get("name", "")).strip())
        for document in _documents(asked)
    )


def document_names_differ(asked: Asked) -> bool:
    """No two documents of a request have the same name."""
    names = [document["name"] for document in _documents(asked)]
    return len(set(names)) == len(names)


def _images(asked: Asked) -> list[Mapping[str, Any]]:
    return [as_map(image) for message in asked.conversation.users for image in as_list(message.get("images"))]


def _documents(asked: Asked) -> list[Mapping[str, Any]]:
    return [as_map(document) for message in asked.conversation.users for document in as_list(message.get("documents"))]


def _bytes(part: Mapping[str, Any]) -> str:
    """The bytes of an attachment as they were sent, in base64."""
    value = as_map(part.get("source")).get("bytes")
    return value if isinstance(value, str) else ""


def _decoded(value: str) -> bytes:
    """What *value* stands for; nothing where it is not base64."""
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return b""


def _refusal(message: str, reason: str) -> Refusal:
    return Refusal(400, message, reason)


ATTACHMENTS: Final = (
    Rule(image_formats_known, _refusal("Unsupported image format.", "IMAGE_FORMAT_UNSUPPORTED")),
    Rule(document_formats_known, INVALID),
    Rule(bytes_present, INVALID),
    Rule(image_bytes_match, _refusal("The image does not match its format.", "IMAGE_MIME_MISMATCH")),
    Rule(image_count_allowed, _refusal("Too many images.", "IMAGE_COUNT_EXCEEDED")),
    Rule(image_sizes_allowed, _refusal("The image is too large.", "IMAGE_SIZE_EXCEEDED")),
    Rule(document_names_differ, _refusal("Duplicate document name.", "DOCUMENT_DUPLICATE_NAME")),
)
