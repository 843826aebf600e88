"""One API in front of one upstream: asks, goes on, and remembers what the gateway did to the requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kiro_asgi import simulator
from kiro_asgi.config import Settings
from kiro_asgi.model.notes import Loss
from kiro_asgi.simulator import Head, RecordedRequest, Simulator
from kiro_asgi.simulator.service import SimulatedService
from kiro_asgi.upstreams.manifest import all_of
from tests.cli.processes import serving
from tests.conformance.clients import connected, undisturbed
from tests.conformance.gateways import KEY, Gateway
from tests.e2e.matrix.apis import APIS, Answer, Api, Call, Failure

__all__ = ["LOSING", "Bench", "Pairing", "bench"]

MODELS: Final = {
    "kiro": "kiro/claude-sonnet-4.5",
    "gemini": "gemini/gemini-3-pro-preview",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-5",
}
"""Upstream to a model that thinks, and, where there are signatures, insists on them."""

LOSING: Final = {
    each.name: {rule.name for rule in each.make().rules if rule.loss is Loss.CONTENT} for each in all_of(Settings())
}
"""Upstream to its rules after which something is not said any more."""


@define
class Pairing:
    """One API in front of one upstream, streamed or collected."""

    api: str
    upstream: str
    stream: bool
    service: Simulator
    _client: Api
    lost: set[str] = field(init=False, factory=set)
    """The rules that took something from a request, as the client was told."""

    _conversation: list[Any] = field(init=False, factory=list)
    _options: dict[str, bool] = field(init=False, factory=dict)

    def ask(self, text: str, *, image: bool = False, thinks: bool = False, tools: bool = False) -> Answer:
        """The answer to a first question."""
        return _whole(self.try_to_ask(text, image=image, thinks=thinks, tools=tools))

    def try_to_ask(
        self, text: str, *, image: bool = False, thinks: bool = False, tools: bool = False
    ) -> Answer | Failure:
        """The same, or what becomes of it."""
        self._options = {"thinks": thinks, "tools": tools}
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

    def _asked(self, further: list[Any]) -> Answer | Failure:
        self._conversation += further
        self.service.forget()
        answer = self._client.ask(MODELS[self.upstream], self._conversation, stream=self.stream, **self._options)
        if isinstance(answer, Answer):
            self._conversation += answer.echo
            self.lost |= {item.partition(";")[0] for item in answer.rules.split(", ")} & LOSING[self.upstream]
        return answer

    @property
    def request(self) -> RecordedRequest:
        """What the service was asked last: once, so that nothing had to be repaired."""
        [request] = [request for request in self.service.requests if request.method == "POST"]
        return request

    def forged(self, signature: str) -> int:
        """The status that the service gives to the last request, were *signature* another one."""
        other = ("B" if signature[0] == "A" else "A") + signature[1:]
        body = self.request.body.replace(signature.encode(), other.encode())
        head, *_ = SimulatedService().script_for(evolve(self.request, body=body))
        assert isinstance(head, Head)
        return head.status


def _whole(answer: Answer | Failure) -> Answer:
    assert isinstance(answer, Answer), answer
    return answer


@frozen
class Bench:
    """A running gateway, the service behind it, and clients."""

    service: Simulator
    _clients: Mapping[str, Api]

    def pairing(self, api: str, upstream: str, *, stream: bool) -> Pairing:
        """One that nothing has been asked yet."""
        return Pairing(api, upstream, stream, self.service, self._clients[api])


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
    }
    return {f"KIRO_ASGI__{name}": value for name, value in known.items()}


@contextmanager
def bench(loop: str, folder: Path) -> Iterator[Bench]:
    """Run a gateway on *loop* in *folder* until the end of the block; it must not have complained by then."""
    with (
        undisturbed(),
        simulator.running() as service,
        serving("--loop", loop, "--log-level", "error", cwd=folder, lines=4, **_settings(service.url)) as server,
        connected() as clients,
    ):
        gateway = Gateway(server.base, service)
        official = {
            "chat": clients.openai(gateway),
            "responses": clients.openai(gateway),
            "messages": clients.anthropic(gateway),
        }
        yield Bench(service, {name: APIS[name](client) for name, client in official.items()})
        assert server.stop() == ""
