"""One setting, declared once: its default, the rule of its value, its values in presets, and whether it is a secret.

A slice of settings is a frozen attrs class whose fields are made by `setting`; the docstring under a field explains it.
The slices of the gateway stand in `kiro_asgi.config`, that of an upstream in the upstream's folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from attrs import Attribute, AttrsInstance, field, fields, frozen

T = TypeVar("T")

DAY: Final = 86_400.0
MOMENT: Final = 0.001
"""The shortest time that is not "at once"."""

_KEY: Final = "kiro_asgi.setting"
"""Key of a field's metadata under which `setting` puts its `Declared`."""


@frozen
class Choices:
    """One of these words; an empty one stands for no choice."""

    words: tuple[str, ...]

    def complaint(self, value: Any) -> str:
        """The rule that *value* breaks, as a message; empty where it breaks none."""
        return "" if value in self.words else f"must be one of {', '.join(filter(None, self.words))}"


@frozen
class Bounds:
    """A number from the lowest to the highest, both included."""

    lowest: float
    highest: float

    def complaint(self, value: Any) -> str:
        """The rule that *value* breaks, as a message; empty where it breaks none."""
        if self.lowest <= value <= self.highest:
            return ""
        return f"must be from {self.lowest:.15g} to {self.highest:.15g}"


@frozen
class Shape:
    """The format of a text, or of each text of a tuple."""

    fits: Callable[[str], object]
    words: str
    """The format in words, for a message that does not repeat the value: it may be a secret, or hold one."""

    def complaint(self, value: Any) -> str:
        """The rule that *value* breaks, as a message; empty where it breaks none."""
        return "" if all(map(self.fits, value if isinstance(value, tuple) else (value,))) else f"must be {self.words}"


Rule = Choices | Bounds | Shape


@frozen
class Declared:
    """The declaration of a setting, but for its type and default."""

    rule: Rule | None = None
    """The rule of the value beyond its type, where it is not the default."""

    presets: Mapping[str, Any] = field(factory=dict)
    """Preset to the value that it gives; without one, the default."""

    variable: str = ""
    """Another environment variable that is read for it; the setting's own wins over it."""

    @classmethod
    def of(cls, attribute: Attribute[Any]) -> Declared:
        """The declaration of a field."""
        return cast(Declared, attribute.metadata.get(_KEY, _PLAIN))


_PLAIN: Final = Declared()


def setting(
    default: T,
    rule: Rule | None = None,
    *,
    secret: bool = False,
    presets: Mapping[str, T] = MappingProxyType({}),
    variable: str = "",
) -> T:
    """Declare a field of a slice.

    Args:
        default: Its value where the operator gives none.
        rule: What a value must be beyond its type.
        secret: Never show the value: not in a ``repr``, a description or a message.
        presets: Preset to the value that it gives.
        variable: Another environment variable that is read as well.
    """
    declared = Declared(rule, MappingProxyType(dict(presets)), variable)
    return field(default=default, repr=not secret, metadata={_KEY: declared})


def broken(settings: AttrsInstance) -> Iterator[tuple[str, str]]:
    """Name and complaint for each value of a slice that breaks its rule; its type is not looked at."""
    for it in fields(type(settings)):
        rule, value = Declared.of(it).rule, getattr(settings, it.name)
        if rule is not None and value != it.default and (complaint := rule.complaint(value)):
            yield it.name, complaint


def is_base_url(text: str) -> bool:
    """Whether *text* is an absolute URL of HTTP to which a path may be appended."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return False
    absolute = url.scheme in ("http", "https") and bool(url.hostname) and port != 0
    return absolute and not re.search(r"[\s?#@\\\x00-\x1f\x7f-\U0010ffff]", text)


def _is_proxy(text: str) -> bool:
    scheme, _, rest = text.partition("://")
    user, _, place = rest.rpartition("@")
    return bool(_USER.fullmatch(user)) and is_base_url(f"{scheme}://{place}")


def _is_header(text: str) -> bool:
    name, _, value = text.partition("=")
    return bool(_TOKEN.fullmatch(name)) and name.lower() not in _OURS and bool(_LINE.fullmatch(value))


def _is_path(text: str) -> bool:
    try:
        Path(text).expanduser()  # of a home that there is not, a RuntimeError
        text.encode("utf-8", "surrogateescape")  # as names that are not UTF-8 come from the environment
    except (RuntimeError, UnicodeError):
        return False
    return bool(text) and "\0" not in text


_USER: Final = re.compile(r"[\w.~!$&'()*+,;=:%-]*", re.ASCII)
"""Source: https://www.rfc-editor.org/rfc/rfc3986#section-3.2.1"""

_TOKEN: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
"""Source: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2"""

_LINE: Final = re.compile(r"[!-~]([ -~]*[!-~])?")

_OURS: Final = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "content-type", "accept-encoding", "te", "upgrade")
)
"""Headers that describe the message itself; only its sender, the HTTP client, can set them."""

KEY: Final = Shape(re.compile(r"[!-~]+").fullmatch, "printable ASCII without spaces")
LINE: Final = Shape(_LINE.fullmatch, "printable ASCII")
WORD: Final = Shape(re.compile(r"[A-Za-z][A-Za-z0-9_-]*").fullmatch, "a word of letters, digits, - and _")
PART: Final = Shape(re.compile(r"[A-Za-z0-9._-]+").fullmatch, "letters, digits, ., - and _")
COUNT: Final = Shape(re.compile(r"[0-9]{1,9}").fullmatch, "whole numbers")
REGION: Final = Shape(re.compile(r"[a-z]{2,3}(-[a-z]+)+-[0-9]+").fullmatch, "a region such as us-east-1")
ALIAS: Final = Shape(re.compile(r"[^=\s]+=[^=\s]+").fullmatch, "written as name=model")
PATH: Final = Shape(_is_path, "a path; ~ stands for the home of a user that there is")
URL: Final = Shape(is_base_url, "an absolute http or https URL without user, query or fragment")
PROXY: Final = Shape(_is_proxy, "an http or https URL, with user and password where the proxy wants them")
HEADER: Final = Shape(_is_header, "written as name=value, and no header about the message itself")
HEADER_NAME: Final = Shape(
    lambda text: _TOKEN.fullmatch(text) and text.lower() not in _OURS,
    "the name of a header that is not about the message",
)
UPSTREAM: Final = Shape(re.compile(r"[a-z][a-z0-9_-]*").fullmatch, "a word of small letters, digits, - and _")
"""The format of an upstream's name."""
