"""One API in front of one upstream: asks, goes on, and remembers what the gateway did to the requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kiro_asgi import simulator
from kiro_asgi.config import Settings
from kiro_asgi.model.rules import Loss
from kiro_asgi.simulator import Head, RecordedRequest, Simulator
from kiro_asgi.simulator.kiro.hosts import CHAT
from kiro_asgi.simulator.request import SECRET_ACCESS_KEY
from kiro_asgi.simulator.service import SimulatedService
from kiro_asgi.upstreams.manifest import all_of
from tests.cli.processes import serving
from tests.conformance.clients import Clients, connected, undisturbed
from tests.conformance.gateways import KEY, Gateway
from tests.e2e.matrix.apis import Answer, Api, Call, Chat, Failure, GenerateContent, Messages, Responses, Wants

__all__ = ["APIS", "LOSING", "SERVICES", "Bench", "Pairing", "Service", "bench"]

CLAUDE_ON_BEDROCK: Final = "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"


@frozen
class Service:
    """A model service behind the gateway."""

    title: str
    model: str
    """One that thinks, and, where there are signatures, insists on them."""

    upstream: str
    """Whose rules requests go through."""

    operation: str
    """That the simulator counts."""

    gateway: str = ""
    """The one that asks it: ``""``, or ``converse``."""


SERVICES: Final[Mapping[str, Service]] = {
    "kiro": Service("Kiro", "kiro/claude-sonnet-4.5", "kiro", CHAT),
    "anthropic": Service("Anthropic", "anthropic/claude-sonnet-4-5", "anthropic", "anthropic.chat"),
    "openai": Service("OpenAI", "openai/gpt-5", "openai", "openai.chat"),
    "openai-responses": Service("OpenAI, Responses", "openai/gpt-5-pro", "openai", "responses.chat"),
    "gemini": Service("Gemini", "gemini/gemini-3-pro-preview", "gemini", "gemini.chat"),
    "bedrock": Service("Bedrock, InvokeModel", CLAUDE_ON_BEDROCK, "bedrock", "bedrock.chat"),
    "converse": Service("Bedrock, Converse", CLAUDE_ON_BEDROCK, "bedrock", "bedrock.chat", "converse"),
    "custom": Service("OpenAI-compatible", "local/gpt-5", "openai", "openai.chat"),
}
"""Name to service.  OpenAI is two, as it has two APIs, and so is Bedrock, where Claude is asked in two ways: by a key,
and by requests that are signed."""


@frozen
class ClientApi:
    """An API in front of the gateway."""

    title: str
    make: Callable[[Clients, Gateway], Api]
    """Makes its client for a gateway."""


APIS: Final[Mapping[str, ClientApi]] = {
    "messages": ClientApi("Messages", lambda clients, gateway: Messages(clients.anthropic(gateway))),
    "chat": ClientApi("Chat Completions", lambda clients, gateway: Chat(clients.openai(gateway))),
    "responses": ClientApi("Responses", lambda clients, gateway: Responses(clients.openai(gateway))),
    "gemini": ClientApi(
        "Gemini", lambda clients, gateway: GenerateContent(clients.openai(gateway)._client, gateway.base, KEY)
    ),
}

LOSING: Final = {
    each.name: {rule.name for rule in each.make().rules if rule.loss is Loss.CONTENT} for each in all_of(Settings())
}
"""Upstream to its rules after which something is not said any more."""


@define
class Pairing:
    """One API in front of one upstream, streamed or collected."""

    api: str
    to: str
    """Name of the service."""

    stream: bool
    simulator: Simulator
    _clients: Mapping[tuple[str, str], Api]
    lost: set[str] = field(init=False, factory=set)
    """The rules that took something from a request, as the client was told."""

    _conversation: list[Any] = field(init=False, factory=list)
    _wants: Wants = field(init=False, factory=Wants)

    @property
    def service(self) -> Service:
        """The service that is asked."""
        return SERVICES[self.to]

    def begin_anew(self) -> None:
        """Forget the conversation."""
        self._conversation = []

    def ask(self, text: str, *, image: bool = False, **wants: bool) -> Answer:
        """The answer to a first question; *wants* are the fields of `Wants`."""
        return _whole(self.try_to_ask(text, image=image, **wants))

    def try_to_ask(self, text: str, *, image: bool = False, **wants: bool) -> Answer | Failure:
        """The same, or what becomes of it."""
        self._wants = Wants(**wants)
        return self._asked(self._client.user(text, image=image))

    def go_on(self, text: str) -> Answer:
        """The answer to a further question."""
        return _whole(self._asked(self._client.user(text)))

    def return_results(self, calls: tuple[Call, ...], *results: str) -> Answer:
        """The answer to what the tools gave, one result for each call."""
        return _whole(self.try_to_return_results(calls, *results))

    def try_to_return_results(self, calls: tuple[Call, ...], *results: str) -> Answer | Failure:
        """The same, or what becomes of it."""
        return self._asked(self._client.results(zip(calls, results, strict=True)))

    @property
    def _client(self) -> Api:
        return self._clients[self.api, self.service.gateway]

    def _asked(self, further: list[Any]) -> Answer | Failure:
        self._conversation += further
        self.simulator.forget()
        answer = self._client.ask(self.service.model, self._conversation, stream=self.stream, wants=self._wants)
        if isinstance(answer, Answer):
            self._conversation += answer.echo
            self.lost |= {item.partition(";")[0] for item in answer.rules.split(", ")} & LOSING[self.service.upstream]
        return answer

    @property
    def request(self) -> RecordedRequest:
        """What the service was asked last: once, so that nothing had to be repaired."""
        [request] = [request for request in self.simulator.requests if request.method == "POST"]
        return request

    def forged(self, signature: str) -> int:
        """The status that the service gives to the last request, were *signature* another one."""
        other = ("B" if signature[0] == "A" else "A") + signature[1:]
        body = self.request.body.replace(signature.encode(), other.encode())
        headers = dict(self.request.headers)
        if "x-amz-date" in headers:  # the signature of the whole request, which is not the one in question
            headers["authorization"] = "Bearer simulated"
        head, *_ = SimulatedService().script_for(evolve(self.request, body=body, headers=headers))
        assert isinstance(head, Head)
        return head.status


def _whole(answer: Answer | Failure) -> Answer:
    assert isinstance(answer, Answer), answer
    return answer


@frozen
class Bench:
    """Running gateways, what is behind them, and clients."""

    simulator: Simulator
    _clients: Mapping[tuple[str, str], Api]
    """API and gateway to the client."""

    def pairing(self, api: str, to: str, *, stream: bool) -> Pairing:
        """One that nothing has been asked yet."""
        return Pairing(api, to, stream, self.simulator, self._clients)


def _settings(url: str) -> dict[str, str]:
    """All upstreams at one address, each request tried once."""
    known = {
        "CLIENT__API_KEYS": KEY,
        "RETRY__ATTEMPTS": "1",
        "RETRY__REFUSED_BASE": "0",
        "RETRY__QUOTA_PROBE": "0",
        "RETRY__SUSPICION": "0",
        "KIRO__ENDPOINT": url,
        "KIRO__API_KEY": "ksk_simulated",
        "GEMINI__ENDPOINT": url,
        "GEMINI__API_KEY": "simulated",
        "ANTHROPIC__ENDPOINT": url,
        "ANTHROPIC__API_KEY": "simulated",
        "OPENAI__ENDPOINT": f"{url}/v1",
        "OPENAI__API_KEY": "simulated",
        "CUSTOM__LOCAL__ENDPOINT": f"{url}/v1",
        "CUSTOM__LOCAL__API_KEY": "simulated",
        "BEDROCK__ENDPOINT": url,
        "BEDROCK__REGION": "us-east-1",
        "BEDROCK__API_KEY": "simulated",
    }
    return {f"KIRO_ASGI__{name}": value for name, value in known.items()}


def _signing(settings: Mapping[str, str]) -> dict[str, str]:
    """*settings* for Bedrock by Converse, with AWS's credentials in the place of a key."""
    others = {name: value for name, value in settings.items() if name != "KIRO_ASGI__BEDROCK__API_KEY"}
    return {
        **others,
        "KIRO_ASGI__BEDROCK__CLAUDE_API": "converse",
        "AWS_ACCESS_KEY_ID": "AKIDSIMULATED",
        "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def bench(loop: str, folder: Path) -> Iterator[Bench]:
    """Run gateways on *loop* in *folder* until the end of the block; they must not have complained by then."""
    serve = ("--loop", loop, "--log-level", "error")
    with undisturbed(), simulator.running() as service, connected() as clients, ExitStack() as servers:
        settings = _settings(service.url)
        running = {
            "": servers.enter_context(serving(*serve, cwd=folder, **settings)),
            "converse": servers.enter_context(serving(*serve, cwd=folder, **_signing(settings))),
        }
        official = {
            (name, gateway): api.make(clients, Gateway(server.base, service))
            for name, api in APIS.items()
            for gateway, server in running.items()
        }
        made = Bench(service, official)
        # A refusal teaches the gateway that this model has one of OpenAI's two APIs only; tests want single requests.
        made.pairing("chat", "openai-responses", stream=False).ask("Hello")
        yield made
        for server in running.values():
            assert server.stop() == ""
