"""What a client says of how a service handles its request, beside what is asked: the tier, labels, who the end user is,
for how long the prompt is remembered.

APIs have fields of their own for these, and words that are not each other's.  A reader makes the neutral words of its
API's; `Words` are those that a service has; what a service has no word for is noted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.model.conversion import require_name
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.rules import Loss, Rule


class Tier(Enum):
    """How soon a request is served, and at which price."""

    AUTO = "auto"
    """As the account is set up: the same as saying nothing."""

    STANDARD = "standard"
    """Neither faster nor cheaper than others."""

    FLEX = "flex"
    """Cheaper, and later."""

    PRIORITY = "priority"
    """Before others."""

    SCALE = "scale"
    """By capacity that was bought."""


def _is_user(made: Handling, attribute: object, value: str) -> None:
    require_name(value, made.places.get("user", "the end user's id"))


@frozen
class Handling:
    """What one request says; by default nothing."""

    tier: Tier | None = None
    labels: Mapping[str, str] = field(factory=dict)
    """Pairs by which the client's owner finds the request again."""

    user: str = field(default="", repr=False, validator=_is_user)
    """Id of the end user, the same in each of their requests; empty where there is none."""

    retention: str = ""
    """For how long the service shall remember the prompt, where that is longer than it does by itself: ``1h`` or
    ``24h``; empty for not."""

    places: Mapping[str, str] = field(factory=dict, eq=False)
    """Names of these fields to where the client's request has them."""


TIER: Final = Rule("tier.unavailable", "A service tier that the service has no word for is left out.", Loss.NONE)
LABELS: Final = Rule(
    "metadata.unavailable", "Metadata that the service has no place for, or does not take, is left out.", Loss.NONE
)
USER: Final = Rule("user.unavailable", "The end user's id is left out where a service has no place for it.", Loss.NONE)
HASHED: Final = Rule(
    "user.hashed",
    "An end user's id that is long, or may be a name or an address, becomes its SHA-256 at a service of another API.",
    Loss.FORM,
)
RETENTION: Final = Rule(
    "retention.unavailable",
    "That the prompt shall be remembered for longer is left out where the service cannot be told.",
    Loss.NONE,
)
RULES: Final = (TIER, LABELS, USER, HASHED, RETENTION)


@frozen
class LabelForm:
    """What a service takes as labels."""

    member: str = ""
    """Member of a body; empty where there is none."""

    key: re.Pattern[str] = re.compile(r"(?s).{1,64}")
    value: re.Pattern[str] = re.compile(r"(?s).{0,512}")
    most: int = 16

    def takes(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Those of the *labels* that it takes."""
        fit = {name: text for name, text in labels.items() if self.key.fullmatch(name) and self.value.fullmatch(text)}
        return dict(list(fit.items())[: self.most]) if self.member else {}


@frozen(kw_only=True)
class Words:
    """The words that a service has, and where they stand in a body; by default it has none."""

    tier: tuple[str, ...] = ()
    """Members that lead to the tier, the outermost first."""

    tiers: Mapping[Tier, str] = MappingProxyType({})
    labels: LabelForm = LabelForm()
    user: tuple[str, ...] = ()
    """Members that lead to the user's id."""

    tier_header: bytes = b""
    """Header of an answer with the tier that serves it, in small letters; empty for none."""

    headed: Mapping[str, Tier] = MappingProxyType({})
    """What stands there, to the tier."""

    retention: tuple[str, ...] = ()
    """Members that lead to how long a prompt is remembered; none where that stands in marks within it."""

    retentions: Mapping[str, str] = MappingProxyType({})
    """Neutral word to the service's, which holds at least as long or is its longest."""


NO_WORDS: Final = Words()

MARKED: Final[Mapping[str, str]] = MappingProxyType({"1h": "1h", "24h": "1h"})
"""`Words.retentions` of a service whose marks hold for an hour at most."""

_NOTHING: Final = Handling()


def crossed(handling: Handling, words: Words, notes: Notes) -> dict[str, Any]:
    """The members of a body that say in a service's *words* what the client says; notes on what they cannot say."""
    if handling == _NOTHING:
        return {}
    return {
        **_tier(handling, words, notes),
        **_labels(handling, words, notes),
        **_user(handling, words, notes),
        **_retention(handling, words, notes),
    }


def _tier(handling: Handling, words: Words, notes: Notes) -> dict[str, Any]:
    if handling.tier is not None and handling.tier in words.tiers:
        return _within(words.tier, words.tiers[handling.tier])
    if handling.tier not in (None, Tier.AUTO):
        notes.applies(TIER.name, handling.places.get("tier", ""))
    return {}


def _labels(handling: Handling, words: Words, notes: Notes) -> dict[str, Any]:
    taken = words.labels.takes(handling.labels)
    if left := len(handling.labels) - len(taken):
        notes.applies(LABELS.name, handling.places.get("labels", ""), left)
    return {words.labels.member: taken} if taken else {}


def _user(handling: Handling, words: Words, notes: Notes) -> dict[str, Any]:
    user, place = handling.user, handling.places.get("user", "")
    if not user:
        return {}
    if not words.user:
        notes.applies(USER.name, place)
        return {}
    if not _OPAQUE.fullmatch(user):  # services want no names and addresses, and have a limit
        notes.applies(HASHED.name, place)
        user = sha256(user.encode("utf-8", "replace")).hexdigest()
    return _within(words.user, user)


_OPAQUE: Final = re.compile(r"[A-Za-z0-9_.:|-]{1,64}")
"""Ids that may be sent as they are."""


def _retention(handling: Handling, words: Words, notes: Notes) -> dict[str, Any]:
    if handling.retention in words.retentions:
        return _within(words.retention, words.retentions[handling.retention]) if words.retention else {}
    if handling.retention:
        notes.applies(RETENTION.name, handling.places.get("retention", ""))
    return {}


def _within(members: tuple[str, ...], value: str) -> dict[str, Any]:
    """*value* behind these *members*."""
    made: Any = value
    for name in reversed(members):
        made = {name: made}
    return dict(made)
