"""Which session a request belongs to, where its client tells.

The API has one field for it, ``metadata.user_id``, whose format is the client's own business.  Claude Code writes
``user_…_account_…_session_<id>`` there, or a JSON object with a ``session_id``.  Anything else may name a person, who
may have several conversations at once, so it says nothing about sessions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.wire.json import JsonError, loads

__all__ = ["session_of"]

_MARK: Final = "_session_"
_ID: Final = re.compile(r"[\w-]*+")


def session_of(metadata: Mapping[str, Any]) -> str:
    """The id of the session; empty where there is none."""
    user = metadata.get("user_id")
    if type(user) is not str:
        return ""
    # Matched from the end: a search for a mark with an id behind it would try the rest of the text from every mark on.
    ending = _ID.match(user[::-1])
    assert ending is not None, "a pattern that matches nothing, too"
    session = user[len(user) - ending.end() :].partition(_MARK)[2]
    return session or (_member(user) if user.startswith("{") else "")


def _member(document: str) -> str:
    try:
        session = loads(document).get("session_id")
    except JsonError:
        return ""
    return session if type(session) is str else ""
