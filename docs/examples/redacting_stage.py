"""A stage from outside: it blacks out a word in every answer, however the service cuts it into events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from kiro_asgi import create_app
from kiro_asgi.model.events import (
    Appendix,
    CodeReferences,
    ConversationId,
    Delta,
    ModelName,
    Notice,
    RefusalDelta,
    Stop,
    TextDelta,
    Usage,
)
from kiro_asgi.model.prompt import Prompt

SILENT = (CodeReferences, ConversationId, ModelName, Notice, Stop, Usage)
"""What may come in the middle of a word, as it shows the client nothing there."""


@define
class Redactor:
    """Puts an asterisk in the place of each letter of a word.

    The end of a text that may be the beginning of the word is held back until more comes.  As many characters go out
    as came in, so that citations still stand behind the text that they are for.  Thinking is left as it is, since a
    service that signs it refuses to have other thinking back; and so are the arguments of tool calls.
    """

    word: str
    _held: str = field(init=False, default="")
    _kind: type[TextDelta | RefusalDelta] = field(init=False, default=TextDelta)
    """Of the text that is held."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        for item in items:
            if isinstance(item, TextDelta | RefusalDelta):
                if type(item) is not self._kind:
                    yield from self.flush()
                    self._kind = type(item)
                if text := self._redacted(item.text):
                    yield self._kind(text)
            elif isinstance(item, SILENT):
                yield item
            else:
                yield from self.flush()
                yield Appendix(self._mask(item.text)) if isinstance(item, Appendix) else item

    def flush(self) -> Iterator[Delta]:
        if self._held:
            yield self._kind(self._held)
            self._held = ""

    def _redacted(self, text: str) -> str:
        """What can be sent after *text* has come."""
        *parts, rest = (self._held + text).split(self.word)
        sizes = range(min(len(self.word) - 1, len(rest)), 0, -1)
        end = len(rest) - next((size for size in sizes if rest.endswith(self.word[:size])), 0)
        self._held = rest[end:]
        return self._mask(self.word.join((*parts, rest[:end])))

    def _mask(self, text: str) -> str:
        return text.replace(self.word, "*" * len(self.word))


def redact_codename(prompt: Prompt) -> Redactor:
    """A fresh stage for one try at an answer; the prompt says who asks, and for what."""
    return Redactor("bluebird")


def application() -> object:
    """The gateway, with settings from the environment, whose answers have that word blacked out."""
    return create_app(stages=[redact_codename])
