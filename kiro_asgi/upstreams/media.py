"""Media of an answer as Markdown: the one form that every client API can show."""

from __future__ import annotations

import re
from typing import Any, Final

from kiro_asgi.wire.json import object_of, text_of

_MEDIA_TYPE: Final = re.compile(r"[\w.+-]++/[\w.+-]++(?:; ?[\w.+-]++=[\w.+-]++)*+", re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]++=*+")
_ADDRESS: Final = re.compile(r"(?:https?|gs|s3)://[^\s<>\\]++", re.IGNORECASE)
_EMBEDDED: Final = re.compile(r"data:([^,;]*+(?:;(?!base64,)[^,;]*+)*+);base64,")


def embedded(media_type: str, content: str) -> str:
    """Base64 as Markdown; empty where it, or *media_type*, is malformed.  Parameters of the type are kept."""
    if not _MEDIA_TYPE.fullmatch(media_type) or not _BASE64.fullmatch(content):
        return ""
    return f"{_label(media_type)}(data:{media_type.replace(' ', '')};base64,{content})"


def linked(url: str, media_type: str) -> str:
    """A link as Markdown; empty where *url* is none that a client may follow."""
    if found := _EMBEDDED.match(url):
        return embedded(found[1], url[found.end() :])
    if not _ADDRESS.fullmatch(url):
        return ""
    return f"{_label(media_type)}({url.replace('(', '%28').replace(')', '%29')})"


def image(part: Any) -> str:
    """An image in any form of OpenAI's APIs, or a bare address, as Markdown; empty for anything else."""
    if type(part) is str:
        return linked(part, "image/*")
    fields = object_of(part)
    if content := text_of(fields, "b64_json") or text_of(fields, "result"):
        return embedded(f"image/{text_of(fields, 'output_format') or 'png'}", content)
    url = text_of(fields, "image_url") or text_of(object_of(fields.get("image_url")), "url") or text_of(fields, "url")
    return linked(url, "image/*")


def _label(media_type: str) -> str:
    return "![image]" if media_type.startswith("image/") else "[file]"
