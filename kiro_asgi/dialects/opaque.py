"""What an answer holds beside what is understood, in the client's own API: which of it is written, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from kiro_asgi.model.unread import Unread, accumulated, restore


def members_of(api: str, unread: Iterable[Unread | None]) -> list[Mapping[str, Any]]:
    """Members that are of *api*, in their order."""
    return [each.members for each in unread if each is not None and each.api == api]


def joined(api: str, unread: Iterable[Unread | None], own: Set[str]) -> dict[str, Any]:
    """The same as one object, without the names that the object has of its *own*."""
    given = members_of(api, unread)
    return {name: value for name, value in accumulated(given).items() if name not in own} if given else {}


def with_others(own: dict[str, Any], api: str, unread: Iterable[Unread | None]) -> dict[str, Any]:
    """The object *own* with members that are of *api*."""
    for members in members_of(api, unread):
        restore(own, members)
    return own
