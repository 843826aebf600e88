"""The rows about values and names of others: what a service quotes, what clients and viewers ask by."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from typing import Final
from urllib.parse import quote

from tests.attack.client import PATHS
from tests.attack.gateway import INSPECTOR, SECRET
from tests.attack.rows import HOSTILE, Attack, row

FORMS: Final = {
    "as it is": SECRET,
    "backwards": SECRET[::-1],
    "in capital letters": SECRET.upper(),
    "in hexadecimal": SECRET.encode().hex(),
    "in Base64": b64encode(SECRET.encode()).decode(),
    "percent-encoded": quote(f"<{SECRET}>", safe=""),
    "in part": SECRET[3:23],
}
"""Forms in which a service quotes a key, and none of which goes on; see ``docs/explanation/credentials.rst``."""


@row(
    "a refusal that quotes the key: as it is, backwards, encoded, in part", "none of it is in an answer, nor in the log"
)
async def quoted_forms(attack: Attack) -> None:
    for api in PATHS:
        for stream in (False, True):
            reply = await attack.ask(api, "attack:quotes", 400, 401, 403, 502, model="quoting/m", stream=stream)
            told = reply.text.lower() + attack.gateway.log().lower()
            for name, form in FORMS.items():
                attack.want(form.lower() not in told, f"the key is there {name}")


_PLACES: Final = {
    "/v1/responses/resp_x?stream=true&starting_after=": "starting_after",
    "/v1/responses/resp_x/input_items?limit=": "limit",
    "/v1/conversations/conv_x/items?limit=": "limit",
}

_VALUES: Final = ("9" * 5000, "-2", "nan", "1e300", "%D9%A5")


@row("numbers of 5,000 digits and other odd ones in the queries of each API", "400 with the place")
async def odd_numbers(attack: Attack) -> None:
    for path, name in _PLACES.items():
        for value in _VALUES:
            reply = attack.typed(await attack.client.get(path + value), 400)
            attack.want(reply.status != 400 or reply.param == name, f"{name} is not named")
    attack.want("Traceback" not in attack.gateway.log(), "a traceback in the log")


@row("odd days and event numbers at the inspector", "400, or all there is", gateway="inspected")
async def odd_days(attack: Attack) -> None:
    cookie = await _signed_in(attack)
    for query in ("last=0001-01-20", "last=9999-12-31", f"first={'9' * 5000}", "first=0001-01-01&last=2026-11-01"):
        reply = await _looked(attack, cookie, f"usage?{query}")
        attack.note(reply[:12])
        attack.want(b" 400 " in reply[:16], f"{query[:20]}: {reply[:16]!r}")
    numbering = re.findall(rb"id: ([^-\n]+)-", await _looked(attack, cookie, "events"))[0]
    told = await _looked(attack, cookie, "events", numbering + b"-" + b"9" * 5000)
    attack.want(b'"fresh":true' in told, "a viewer with an impossible number is told nothing")
    attack.want("Traceback" not in attack.gateway.log(), "a traceback in the log")


async def _signed_in(attack: Attack) -> bytes:
    body = json.dumps({"secret": INSPECTOR}).encode()
    reply = await _sent(attack, b"POST /inspector/api/session", b"content-length: %d\r\n" % len(body), body)
    return re.findall(rb"(?i)set-cookie: ([^;]+)", reply)[0]


async def _looked(attack: Attack, cookie: bytes, path: str, event: bytes = b"") -> bytes:
    """What the inspector answers; of its events what comes within half a second."""
    more = b"last-event-id: %b\r\n" % event if event else b""
    return await _sent(attack, f"GET /inspector/api/{path}".encode(), b"cookie: %b\r\n%b" % (cookie, more))


async def _sent(attack: Attack, first: bytes, headers: bytes, body: bytes = b"") -> bytes:
    head = b"%b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n%b\r\n" % (first, headers)
    reader, writer = await attack.client.open(head + body)
    data = b""
    try:
        async with asyncio.timeout(0.5 if b"/events" in first else 5):
            while piece := await reader.read(65_536):
                data += piece
    except TimeoutError:
        pass
    writer.close()
    return data


@row(
    "a model's name of 3 and of 8 MB, in each API, against ten patterns with prices",
    "404 with the beginning of the name",
    gateway="priced",
    seconds=20,
)
async def long_models(attack: Attack) -> None:
    for size in (3_000_000, 8_000_000):
        for letters in ("s", "opus"):
            name = f"{HOSTILE}/" + letters * (size // len(letters))
            for api in PATHS:
                reply = await attack.ask(api, "attack:words", 404, model=name)
                attack.want(len(reply.text) < 2_000, "all of the name is in the answer")
    attack.want(len(attack.gateway.log()) < 200_000, "all of the name is in the log")


@row(
    "agents' requests, with calls and answers to store, while every use of a program's store hangs",
    "all answers, with their ends; 503 for what is stored; one line in the log",
    gateway="hung",
    seconds=30,
)
async def store_that_hangs(attack: Attack) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns = [
        {"role": "user", "content": "attack:words"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ]
    for stream in (True, False):
        asked = [attack.ask("chat", "", 200, messages=turns, stream=stream) for _ in range(3)]
        asked += [attack.ask("responses", "attack:words", 200, stream=stream) for _ in range(3)]
        await asyncio.gather(*asked)
    attack.typed(await attack.client.get("/v1/responses/resp_x"), 503)
    told = attack.gateway.log().count("the store did not answer in get ")
    attack.want(told == 1, f"the log says so {told} times")
    ready = await attack.client.get("/ready")
    attack.want(ready.status == 200 and '"store"' in ready.text, "/ready does not say so")


@row("130 invented names of models", "a row of usage for 100 of them", gateway="inspected", seconds=40)
async def invented_models(attack: Attack) -> None:
    service = HOSTILE.partition("/")[0]
    names = iter([f"{service}/invented-{number}" for number in range(130)])

    async def ask() -> None:
        for name in names:
            await attack.ask("chat", "attack:words", 200, model=name)

    await asyncio.gather(*(ask() for _ in range(4)))
    cookie = await _signed_in(attack)
    for _ in range(40):  # usage is written every five seconds
        reply = await _looked(attack, cookie, "usage?by=model")
        rows = json.loads(reply.partition(b"\r\n\r\n")[2])["totals"]
        if sum(each["requests"] for each in rows if each["model"].startswith(("invented-", "other"))) >= 130:
            break
        await asyncio.sleep(0.5)
    named = sum(each["model"].startswith("invented-") for each in rows)
    attack.note(f"{named} names")
    attack.want(0 < named <= 100, f"{named} rows of usage")
