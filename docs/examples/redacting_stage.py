"""A stage from outside: it blacks out a word in every answer, however the service cuts it into events."""

from __future__ import annotations

from attrs import define

from kiro_asgi import create_app
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages import TextStage, unfinished


@define
class Redactor(TextStage):
    """Puts an asterisk in the place of each letter of a word."""

    word: str

    def settled(self, text: str) -> int:
        """All but an end that may be the beginning of the word."""
        return len(text) - unfinished(text, self.word)

    def rewrite(self, text: str) -> str:
        return text.replace(self.word, "*" * len(self.word))


def redact_codename(prompt: Prompt) -> Redactor:
    """A fresh stage for one try at an answer; the prompt says who asks, and for what."""
    return Redactor("bluebird")


def application() -> object:
    """The gateway, with settings from the environment, whose answers have that word blacked out."""
    return create_app(stages=[redact_codename])
