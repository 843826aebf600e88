"""What a text must look like, and the words for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

__all__ = ["SHAPES", "UPSTREAM", "Shape", "is_base_url"]

Shape = tuple[Callable[[str], object], str]
"""Whether a text fits, and what it must be."""


def is_base_url(text: str) -> bool:
    """Whether *text* is an absolute URL of HTTP to which a path may be appended."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return False
    whole = url.scheme in ("http", "https") and bool(url.hostname) and port != 0
    return whole and not re.search(r"[\s?#@\\\x00-\x1f\x7f-\U0010ffff]", text)


def _is_proxy(text: str) -> bool:
    scheme, _, rest = text.partition("://")
    user, _, place = rest.rpartition("@")
    return bool(_USER.fullmatch(user)) and is_base_url(f"{scheme}://{place}")


def _is_header(text: str) -> bool:
    name, _, value = text.partition("=")
    return bool(_TOKEN.fullmatch(name)) and name.lower() not in _OURS and bool(_LINE.fullmatch(value))


def _is_host(text: str) -> bool:
    name, _, port = text.removeprefix("*.").partition(":")
    *_, last = name.split(".")
    numeric = last.isdecimal() or not name.isascii()
    return bool(_HOST.fullmatch(text)) and not numeric and (not port or 0 < int(port) < 65_536)


_HOST: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]{1,5})?")

_USER: Final = re.compile(r"[\w.~!$&'()*+,;=:%-]*", re.ASCII)
"""Source: https://www.rfc-editor.org/rfc/rfc3986#section-3.2.1"""

_TOKEN: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
"""Source: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2"""

_LINE: Final = re.compile(r"[!-~]([ -~]*[!-~])?")

_OURS: Final = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "content-type", "accept-encoding", "te", "upgrade")
)
"""Headers that say how a message is to be read; whoever sends it must know."""

_KEY: Final[Shape] = (re.compile(r"[!-~]+").fullmatch, "printable ASCII without spaces")
_LINE_SHAPE: Final[Shape] = (_LINE.fullmatch, "printable ASCII")
_WORD: Final[Shape] = (re.compile(r"[A-Za-z][A-Za-z0-9_-]*").fullmatch, "a word of letters, digits, - and _")
_REGION: Final[Shape] = (re.compile(r"[a-z]{2,3}(-[a-z]+)+-[0-9]+").fullmatch, "a region such as us-east-1")
_ALIAS: Final[Shape] = (re.compile(r"[^=\s]+=[^=\s]+").fullmatch, "written as name=model")
_COUNT: Final[Shape] = (re.compile(r"[0-9]{1,9}").fullmatch, "whole numbers")
_PROXY: Final[Shape] = (_is_proxy, "an http or https URL, with user and password where the proxy wants them")
_URL: Final[Shape] = (is_base_url, "an absolute http or https URL without user, query or fragment")
_HEADER: Final[Shape] = (_is_header, "written as name=value, and no header about the message itself")
_PART: Final[Shape] = (re.compile(r"[A-Za-z0-9._-]+").fullmatch, "letters, digits, ., - and _")
_PARAMETER: Final[Shape] = (re.compile(r"[^=\s]+\.[^=.\s]+=[^=\s]+").fullmatch, "written as tool.wire=client")
_REPAIR: Final[Shape] = (
    frozenset({"control_characters", "trailing_commas", "byte_order_mark"}).__contains__,
    "names of repairs: control_characters, trailing_commas, byte_order_mark",
)
_PAGE: Final[Shape] = (
    re.compile(
        r"\*|null|[a-z][a-z0-9+.-]*://[a-z0-9._-]+(:[0-9]{1,5})?|[a-z][a-z0-9+.-]*://\[[0-9a-f:.]+\](:[0-9]{1,5})?"
    ).fullmatch,
    "origins in small letters without a path, such as https://app.example, or null, or *",
)
_ROUTE: Final[Shape] = (
    re.compile(r"[^=\s]+=[a-z][a-z0-9_-]*(/[^>\s]+)?(>[a-z][a-z0-9_-]*(/[^>\s]+)?)*").fullmatch,
    "written as pattern=upstream/model, or pattern=upstream/model>upstream/model",
)

UPSTREAM: Final[Shape] = (re.compile(r"[a-z][a-z0-9_-]*").fullmatch, "a word of small letters, digits, - and _")
"""What an upstream may be called."""

_DIRECT: Final[Mapping[str, Shape]] = MappingProxyType(
    {
        "api_key": _KEY,
        "fallback_api_keys": _KEY,
        "endpoint": _URL,
        "headers": _HEADER,
        "user_agent": _LINE_SHAPE,
        "proxy": _PROXY,
        "model_aliases": _ALIAS,
    }
)
_OPENAI: Final[Mapping[str, Shape]] = MappingProxyType({**_DIRECT, "token_url": _URL, "thinking_tags": _WORD})

SHAPES: Final[Mapping[str, Shape]] = MappingProxyType(
    {
        "client.api_keys": _KEY,
        "cors.origins": _PAGE,
        "kiro.api_key": _KEY,
        "kiro.access_token": _KEY,
        "kiro.profile_arn": _KEY,
        "kiro.endpoint": _URL,
        "kiro.auth_endpoint": _URL,
        "kiro.proxy": _PROXY,
        "kiro.conversation_salt": _KEY,
        "kiro.auth_region": _REGION,
        "kiro.model_aliases": _ALIAS,
        "kiro.effort_budgets": _COUNT,
        "kiro.region": _REGION,
        "kiro.origin": _WORD,
        "kiro.agent_mode": _WORD,
        "kiro.user_agent": _LINE_SHAPE,
        "kiro.thinking_tags": _WORD,
        **{f"gemini.{name}": shape for name, shape in _DIRECT.items()},
        **{f"anthropic.{name}": shape for name, shape in _DIRECT.items()},
        "anthropic.version": _PART,
        "anthropic.betas": _PART,
        **{f"{service}.{name}": shape for service in ("openai", "custom.*") for name, shape in _OPENAI.items()},
        "routing.models": _ROUTE,
        "routing.order": UPSTREAM,
        "routing.default": UPSTREAM,
        "fetch.allow": (
            _is_host,
            "names of hosts, such as images.example.com, *.example.com or example.com:8443, and nothing else",
        ),
        "tools.parameter_names": _PARAMETER,
        "tools.repairs_off": _REPAIR,
        "state.seal_key": _KEY,
    }
)
"""What a text, or each text of a tuple, must look like.  An empty text is accepted where it is the default."""
