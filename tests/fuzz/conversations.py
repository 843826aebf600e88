"""A target that keeps things with the gateway: conversations, their items, and responses that others build upon.

An input is a list of requests.  What they were told is remembered, and must be found again at the end: each item in its
order, whatever the size of a page, by no other client; and after a deletion, nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from attrs import define, field

from tests.asgi.driver import Exchange, get, http_scope, post
from tests.fuzz.answered import answer_of
from tests.fuzz.house import HEAD, MODELS, House, chunks, house
from tests.fuzz.seeds import requests
from tests.fuzz.source import REPEATS, Source, dumped
from tests.fuzz.target import LARGEST, refuse

__all__ = ["conversation"]

PATH: Final = "/v1/conversations"
RESPONSES: Final = "/v1/responses"

LARGEST_ANSWER: Final = 20_000

ITEMS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "message", "role": "user", "content": "Hi."},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Yes?", "annotations": []}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "rain"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "kaa1.x"},
    {"type": "item_reference", "id": "msg_1"},
    {"id": "msg_1"},
    {"type": "compaction", "encrypted_content": "kaa1.x"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "p", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "y"},
)

MEMBERS: Final = ("limit", "order", "after", "include", "include[]", "stream", "starting_after", "x")
DIGITS: Final = "9" * 5000
VALUES: Final = (
    "1",
    "100",
    "0",
    "101",
    "asc",
    "desc",
    "msg_1",
    "true",
    "-1",
    "reasoning.encrypted_content",
    "9" * 5000,
)

PAGES: Final = (1, 2, 7, 100)


@define
class Keeping:
    """One client, and what it has been told is kept."""

    source: Source
    place: House
    kept: dict[str, list[str]] = field(init=False, factory=dict)
    """Ids of conversations to those of their items."""

    stored: dict[str, str] = field(init=False, factory=dict)
    """Ids of responses, and the conversation that each is part of; empty for none."""

    size: int = field(init=False, default=0)

    def say(self, exchange: Exchange) -> Exchange:
        """Send a request; the answer, which is one, and no failure of ours."""
        self.size += sum(map(len, exchange.body)) + 4 * len(exchange.scope["query_string"])
        self.place.run(exchange)
        assert exchange.starts == 1 and exchange.complete, "no whole answer"
        assert exchange.status not in (500, 503), exchange.content
        self.size += len(exchange.content)
        if exchange.headers["content-type"].startswith("application/json"):
            json.loads(exchange.content, parse_constant=refuse)
        return exchange

    # Requests.

    def begin(self) -> None:
        body = {"items": self._items(), "metadata": {"a": "b"}}
        made = self.say(post(PATH, self._body(body)))
        if made.status == 200:
            name = made.json()["id"]
            self.kept[name] = self._listed(name, 100)

    def add(self) -> None:
        name = self._conversation()
        before = self.kept.get(name, [])
        added = self.say(post(f"{PATH}/{name}/items", self._body({"items": self._items()})))
        if added.status == 200:
            self.kept[name] = [*before, *(item["id"] for item in added.json()["data"])]

    def answer(self) -> None:
        """A response, perhaps in a conversation, perhaps after another response."""
        wire = answer_of("kiro", self.source)[:LARGEST_ANSWER]
        head = HEAD.replace(b"%s", b"application/vnd.amazon.eventstream")
        self.place.script = [head, *chunks([wire]), b"0\r\n\r\n"]
        body: dict[str, Any] = {"input": self._items(), "store": self.source.pick((True, False, None))}
        name = self._conversation()
        match self.source.below(4):
            case 0:
                body["conversation"] = self.source.pick((name, {"id": name}))
            case 1:
                body["previous_response_id"] = self.source.pick((*self.stored, "resp_none"))
            case 2:
                body |= {"background": True, "stream": bool(self.source.below(2))}
            case _:
                body = self.source.mutated(self.source.pick(requests("responses")))
        if isinstance(body, dict):
            body["model"] = MODELS["kiro"]
        given = self.say(post(RESPONSES, self._body(body)))
        if name in self.kept:
            after = self._listed(name, 100)
            assert after[: len(self.kept[name])] == self.kept[name], "an answer has changed what was there"
            self.kept[name] = after
        if given.status == 200 and given.headers["content-type"] == "application/json" and given.json()["store"]:
            part_of = (given.json().get("conversation") or {}).get("id", "")
            self.stored[given.json()["id"]] = part_of

    def look(self) -> None:
        """Something is listed, with whatever query."""
        name = self._conversation()
        response = self.source.pick((*self.stored, "resp_none"))
        paths = (f"{PATH}/{name}/items", f"{RESPONSES}/{response}/input_items", f"{RESPONSES}/{response}")
        pairs = [f"{self._word(MEMBERS)}={quote(self._word(VALUES))}" for _ in range(self.source.below(4))]
        query = "&".join(pairs).encode() if self.source.below(4) else self.source.take(60)
        self.say(get(self.source.pick(paths), query_string=query))

    def change(self) -> None:
        name = self._conversation()
        self.say(post(f"{PATH}/{name}", self._body({"metadata": self.source.value()})))

    def delete(self) -> None:
        name = self._conversation()
        items = self.kept.get(name, [])
        item = self.source.pick(items or ["msg_none"])
        match self.source.below(3):
            case 0:
                gone = self.say(_delete(f"{PATH}/{name}/items/{item}"))
                if gone.status == 200:
                    self.kept[name] = [each for each in items if each != item]
            case 1:
                self._forget(name)
            case _ if self.stored:
                assert self.say(_delete(f"{RESPONSES}/{self.stored.popitem()[0]}")).status == 200

    # What is asked of them at the end.

    def check(self) -> None:
        """All that is kept is found, by its client alone, and gone when it is deleted."""
        for response in [*self.stored]:
            assert self.say(get(f"{RESPONSES}/{response}")).status == 200
            assert self.say(get(f"{RESPONSES}/{response}/input_items")).status == 200
            assert self.say(get(f"{RESPONSES}/{response}", key="other")).status == 404
        for name, items in [*self.kept.items()]:
            assert self._listed(name, self.source.pick(PAGES) if len(items) < 50 else 100) == items
            assert self.say(get(f"{PATH}/{name}/items", key="other")).status == 404
            self._forget(name)

    def _forget(self, name: str) -> None:
        gone = self.say(_delete(f"{PATH}/{name}"))
        assert (gone.status == 200) is (name in self.kept), "what was accepted cannot be deleted"
        self.stored = {response: of for response, of in self.stored.items() if of != name}  # which are deleted with it
        if self.kept.pop(name, None) is not None:
            assert self.say(get(f"{PATH}/{name}")).status == 404

    def _listed(self, name: str, limit: int) -> list[str]:
        """Ids of all items, page by page."""
        found: list[str] = []
        after = ""
        while True:
            page = self.say(get(f"{PATH}/{name}/items", query_string=f"order=asc&limit={limit}{after}".encode()))
            assert page.status == 200, "what was accepted cannot be read"
            found += [item["id"] for item in page.json()["data"]]
            if not page.json()["has_more"]:
                return found
            after = f"&after={quote(found[-1], safe='', errors='surrogatepass')}"

    # Made of the input.

    def _conversation(self) -> str:
        names = [*self.kept, "conv_none"]
        return self.source.pick(names) if self.source.below(8) else self.source.text()

    def _items(self) -> Any:
        items = [self.source.pick(ITEMS) for _ in range(self.source.below(6))]
        items *= self.source.pick(REPEATS) if not self.source.below(16) else 1
        return self.source.mutated(items) if self.source.below(2) else items

    def _body(self, body: Any) -> bytes:
        data = dumped(body)
        return (data if self.source.below(8) else self.source.edited(data))[:LARGEST]

    def _word(self, words: tuple[str, ...]) -> str:
        return self.source.pick(words) if self.source.below(8) else self.source.take(20).decode("latin-1")


def _delete(path: str) -> Exchange:
    return Exchange(http_scope("DELETE", path, [("authorization", "Bearer k")]))


OPERATIONS: Final[Mapping[str, Callable[[Keeping], None]]] = {
    "begin": Keeping.begin,
    "add": Keeping.add,
    "answer": Keeping.answer,
    "look": Keeping.look,
    "change": Keeping.change,
    "delete": Keeping.delete,
}


def conversation(data: bytes) -> int:
    """Do what an input says; the bytes that went over the wire."""
    client = Keeping(Source(data), house())
    client.begin()
    for _ in range(client.source.below(6)):
        OPERATIONS[client.source.pick([*OPERATIONS])](client)
    client.check()
    return client.size
