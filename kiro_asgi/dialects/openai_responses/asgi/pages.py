"""Pages of a list, as the parameters of a query ask for them: ``limit``, ``order`` and ``after``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from kiro_asgi.asgi.protocol import Scope, query_values
from kiro_asgi.dialects.errors import invalid
from kiro_asgi.dialects.openai_responses.kept import Item, page

__all__ = ["Page"]

_PAGE: Final = 20
_LARGEST_PAGE: Final = 100
"""Items of one page, where nobody said, and at most."""


@frozen
class Page:
    """The part of a list that a request asks for."""

    limit: int = _PAGE
    newest_first: bool = False
    after: str | None = None
    """Id of the last item of the page before."""

    @classmethod
    def read(cls, scope: Scope) -> Page:
        """The page that a request's query asks for.

        Raises:
            RequestError: There is no such page; ``param`` names the parameter.
        """
        query = {name: values[-1] for name, values in query_values(scope).items()}
        limit, order = query.get("limit", str(_PAGE)), query.get("order", "desc")
        if not re.fullmatch("[0-9]{1,3}", limit) or not 1 <= int(limit) <= _LARGEST_PAGE:
            raise invalid("limit", f"expected a number from 1 to {_LARGEST_PAGE}")
        if order not in ("asc", "desc"):
            raise invalid("order", "expected asc or desc")
        return cls(int(limit), order == "desc", query.get("after"))

    def of(self, items: Sequence[Item]) -> bytes:
        """JSON of this page of *items*, which are oldest first.

        Raises:
            RequestError: No item has the id that the page is to come after.
        """
        body = page(items[::-1] if self.newest_first else items, self.after, self.limit)
        if body is None:
            raise invalid("after", "no item of this list has that id")
        return body
