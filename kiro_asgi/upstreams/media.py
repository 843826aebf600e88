"""Media of an answer, and code that a service ran, as Markdown: the one form that every client API can show."""

from __future__ import annotations

import re
from typing import Any, Final

from kiro_asgi.wire.json import object_of, text_of

_MEDIA_TYPE: Final = re.compile(r"[\w.+-]++/[\w.+-]++(?:; ?[\w.+-]++=[\w.+-]++)*+", re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]++=*+")
_ADDRESS: Final = re.compile(r"(?:https?|gs|s3)://[^\s<>\\]++", re.IGNORECASE)
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9]++")
_TICKS: Final = re.compile("`++")
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


def fenced(text: str, language: str = "") -> str:
    """*text* as a block of code, which back-ticks in it do not end; *language* only where it is a word."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    named = language.lower() if _LANGUAGE.fullmatch(language) else ""
    body = text.removesuffix("\n")
    return f"\n{fence}{named}\n{body}\n{fence}\n"


def printed(stdout: str, stderr: str = "", outcome: str = "") -> str:
    """What a program wrote as a block of code; *outcome* is how it ended, where that is no success.  Empty for
    nothing."""
    told = "\n".join(each.removesuffix("\n") for each in (outcome, stdout, stderr) if each)
    return fenced(told) if told else ""


def _label(media_type: str) -> str:
    return "![image]" if media_type.startswith("image/") else "[file]"
