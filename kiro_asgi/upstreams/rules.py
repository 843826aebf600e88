"""What an upstream does to a request so that its service takes it, as a table has it."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

__all__ = ["Loss", "Rule"]


class Loss(Enum):
    """What of the client's request is lost by a rule."""

    NONE = "none"
    """Nothing; or the whole request is refused, and says so."""

    FORM = "form"
    """Everything is still said, in another form or at another place."""

    CONTENT = "content"
    """Something is not said any more."""


@frozen
class Rule:
    """One constraint of the service, or one quirk, and what is done about it."""

    name: str
    what: str
    """One sentence."""

    loss: Loss
    module: str
    """The module that applies it, of this package unless it has a dot."""
