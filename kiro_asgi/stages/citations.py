"""Sources that the model read on the web, listed after its answer.

A client that asked for its API's hosted web search gets the search in that API's own form, like one that the gateway
ran.  Any other client gets a text of Markdown::

    ---
    **Searched the web for:** tallest tower, height of the tallest tower

    **Sources:**
    [1] [Burj Khalifa](https://example.org/burj)
    [2] [Towers](https://example.org/towers)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.model.events import (
    WEB_SEARCH,
    Appendix,
    Citation,
    Delta,
    Grounding,
    Notice,
    SearchHit,
    ServerCall,
    ServerResult,
    ToolOutput,
)
from kiro_asgi.stages.base import Filter


@frozen
class _Words:
    searched: str
    sources: str
    untitled: str
    """Stands for a title that is missing."""


_WORDS: Final[Mapping[str, _Words]] = MappingProxyType(
    {
        "en": _Words("**Searched the web for:** ", "**Sources:**", "Web page"),
        "zh": _Words("**🔍 已为您搜索:** ", "**🌐 来源引文:**", "网页来源"),
    }
)

LANGUAGES: Final = tuple(_WORDS)

_NO_ADDRESS: Final = "#"

_SCHEMES: Final = ("http://", "https://")

_BREAKS_TITLE: Final = re.compile(r"[][\\]")
_BACKSLASHED: Final = r"\\\g<0>"

_BREAKS_ADDRESS: Final = re.compile(r"[\s()<>\\]")
"""Characters that would end the address of a link."""


@frozen
class Citing:
    """Form of the list of sources."""

    language: str = "en"
    """One of `LANGUAGES`."""

    tool: str = ""
    """Name of the hosted web search, as the client calls it; empty where it did not ask for one."""

    call_id: str = ""
    """The id of a call of that tool; no other call has it."""

    demanded: bool = False
    """Whether the answer has to rest on a search."""


@define
class Citations:
    """Take every `Grounding` out, and list the sources of the last one at the end, if it has any."""

    _citing: Citing
    _grounding: Grounding = field(init=False, factory=Grounding)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, all but `Grounding`."""
        for item in items:
            if type(item) is Grounding:
                self._grounding = item
            else:
                yield item

    def flush(self) -> Iterator[Delta]:
        """The list of sources that the model read."""
        text = markdown(self._grounding, self._citing.language)
        if not text:
            return
        if self._citing.tool and self._grounding.queries:
            yield from self._search(text)
        else:
            yield Appendix(text)

    def _search(self, text: str) -> Iterator[Delta]:
        """The service's search, in the form of one that the gateway ran."""
        queries = self._grounding.queries
        asked = {"query": ", ".join(queries), **({"queries": [*queries]} if len(queries) > 1 else {})}
        call = ServerCall(self._citing.call_id, self._citing.tool, WEB_SEARCH, asked)
        pages = tuple(filter(_has_address, self._grounding.hits))
        yield call
        yield ServerResult(call, ToolOutput(pages, "" if pages else text))


WITHOUT_ADDRESS: Final = "citation.without_address"
"""Sources without an address, such as documents of the request, are left out; noted once an answer."""


@define
class CitedPages(Filter[Delta]):
    """Pass everything on but a `Citation` without an address, unless it is in the words of the client's API."""

    _noted: bool = field(init=False, default=False)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """*items* without such sources, and a `Notice` for the first."""
        for item in items:
            if type(item) is not Citation or item.url or item.origin is not None:
                yield item
            elif not self._noted:
                self._noted = True
                yield Notice(WITHOUT_ADDRESS)


def markdown(grounding: Grounding, language: str) -> str:
    """*grounding* as text, set apart from the text before it; empty where it lists nothing."""
    words, text = _WORDS[language], ""
    if grounding.queries:
        text += f"\n\n---\n{words.searched}{', '.join(grounding.queries)}"
    if grounding.hits:
        lines = (f"[{number}] {_link(hit, words)}" for number, hit in enumerate(grounding.hits, 1))
        text += "\n".join((f"\n\n{words.sources}", *lines))
    return text


def _link(hit: SearchHit, words: _Words) -> str:
    title = " ".join(hit.title.split()) or words.untitled
    address = _BREAKS_ADDRESS.sub(_escaped, hit.url) if _has_address(hit) else _NO_ADDRESS
    return f"[{_BREAKS_TITLE.sub(_BACKSLASHED, title)}]({address})"


def _has_address(hit: SearchHit) -> bool:
    """Whether a browser could open its address."""
    return hit.url.lower().startswith(_SCHEMES)


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())
