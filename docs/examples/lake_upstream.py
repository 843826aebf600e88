"""A service with a sign-in of its own: Lake, which is asked with the token of a user, and answers in lines of JSON."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from getpass import getpass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

from attrs import define, evolve, frozen, setters

from kiro_asgi import KiroAsgiError, upstreams
from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.model.events import Delta, Notice, Stop, StopReason, TextDelta
from kiro_asgi.model.prompt import Prompt, Text

ENDPOINT: Final = "https://lake.example/v1"
MEDIA_TYPE: Final = "application/x-ndjson"


@frozen(kw_only=True)
class LakeSettings(upstreams.SignInSettings):
    """Lake's settings: those of every service whose user signs in."""

    def token_url(self) -> str:
        return (self.endpoint or ENDPOINT).rstrip("/") + "/token"


@define(kw_only=True, on_setattr=setters.frozen)
class LakeUpstream(upstreams.DirectUpstream):
    """How Lake is asked, and its answers read.  It takes text, and has one model."""

    @property
    def builtin(self) -> tuple[upstreams.ModelCard, ...]:
        return (upstreams.ModelCard("deep", context_window=8_000, images=False),)

    def render(
        self, prompt: Prompt, model: upstreams.ModelCard, credential: upstreams.Credential, conversation: str = ""
    ) -> upstreams.Rendered:
        for turn in prompt.turns:
            for part in turn.parts:
                if not isinstance(part, Text):
                    raise upstreams.refusal("attachments", "anything but text", turn.place)
        lines = [part.text for turn in prompt.turns for part in turn.parts if isinstance(part, Text)]
        body = upstreams.dumps({"lines": [*prompt.system, *lines]})
        url = self.url(credential, "/ask", ENDPOINT)
        return upstreams.Rendered(self.post(url, credential, body, MEDIA_TYPE), stop=prompt.sampling.stop)

    def decoder(self, content_type: str) -> tuple[upstreams.Stage[Any, Any], ...]:
        upstreams.require_media_type(content_type, (MEDIA_TYPE,))
        return upstreams.JsonLines(), Answer()

    def models_request(self, credential: upstreams.Credential, *, page: str = "") -> upstreams.UpstreamRequest:
        return self.get(self.url(credential, "/models", ENDPOINT), credential)

    def parse_models(self, body: bytes) -> upstreams.ModelPage:
        names = upstreams.read_listing(body, list)
        return upstreams.ModelPage(tuple(upstreams.ModelCard(name) for name in names if isinstance(name, str)))


@define
class Answer:
    """The stage from Lake's lines to deltas: an answer is whole when a line with ``end`` has come."""

    _ended: bool = False

    def feed(self, items: Iterable[Mapping[str, Any] | Notice], /) -> Iterator[Delta]:
        for item in items:
            if isinstance(item, Notice):
                yield item
            elif "end" in item:
                self._ended = True
                yield Stop(StopReason.END)
            else:
                yield TextDelta(upstreams.text_of(item, "text"))

    def flush(self) -> Iterator[Delta]:
        if not self._ended:
            raise UpstreamProtocolError("Lake's answer ended in the middle", code="stream.cut")
        yield from ()


def make(configured: upstreams.Configured[LakeSettings]) -> upstreams.Setup:
    """Everything that it takes to ask Lake: in the place of keys there are sign-ins."""
    settings = configured.settings
    vendor = upstreams.OAuthVendor(configured.path, settings.token_url(), client_id="kiro-asgi")
    setup = upstreams.direct_setup(configured, LakeUpstream(**upstreams.common(configured)), (), ENDPOINT)
    return evolve(setup, access=upstreams.SignIns(vendor, settings))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kiro-asgi login lake``."""
    parser.add_argument("--user", required=True, help="name at Lake")
    parser.add_argument("--token-url", default=f"{ENDPOINT}/token", help="where Lake gives tokens")
    parser.add_argument("--file", type=Path, default=Path("lake.json"), help="where the token is kept")


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Sign in: ask for the password, exchange it for a token, and keep that where nobody else can read it."""
    password = environ.get("LAKE_PASSWORD") or getpass("Password: ")
    form = {"grant_type": "password", "username": arguments.user, "password": password, "client_id": "kiro-asgi"}
    try:
        with urlopen(arguments.token_url, urlencode(form).encode(), timeout=30) as answer:
            document = upstreams.token_document(answer.read(65_536), time.time())
    except (OSError, KiroAsgiError) as error:
        print(f"Lake gave no token: {error}", file=sys.stderr)
        return 1
    with os.fdopen(os.open(arguments.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(document)
    print(f"Signed in. Set KIRO_ASGI__LAKE__CREDENTIALS_FILE={arguments.file.resolve()}")
    return 0


LAKE: Final = upstreams.Manifest(
    name="lake", title="Lake", settings=LakeSettings, make=make, login="lake_upstream", probes=("deep",)
)
