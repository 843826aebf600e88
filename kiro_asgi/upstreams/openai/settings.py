"""Settings of OpenAI's APIs: OpenAI's own, and those of each service in ``custom``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Self

from attrs import evolve, frozen

from kiro_asgi.setting import HEADER_NAME, PATH, URL, WORD, Bounds, Choices, setting
from kiro_asgi.stages.thinking import SCANS
from kiro_asgi.upstreams.openai.services import SERVICES
from kiro_asgi.upstreams.openai.thinking import CONTROLS
from kiro_asgi.upstreams.services import KnownService
from kiro_asgi.upstreams.settings import SignedSettings

CODEX_ENDPOINT: Final = "https://chatgpt.com/backend-api/codex"
"""Base URL of the service of Codex's sign-in."""


@frozen(kw_only=True)
class OpenAISettings(SignedSettings):
    """OpenAI, or one of the many services that speak its APIs."""

    known_services: ClassVar[Mapping[str, KnownService]] = SERVICES

    service: str = setting("", WORD)
    """A known service, e.g. ``deepseek``, whose address and peculiarities are then the defaults of this table:
    ``kiro-asgi services`` lists them.  Empty: none.  It counts where settings are read, from a mapping, a file or the
    environment."""

    credentials_file: str = setting("", PATH)
    """The file in which the Codex command keeps its sign-in with ChatGPT, usually ``~/.codex/auth.json``; it is read,
    and never written.  It takes the place of ``api_key``, and *api* is ``responses``."""

    api: str = setting("auto", Choices(("auto", "chat", "responses")))
    """By which of OpenAI's APIs models are asked: ``chat`` (Chat Completions), ``responses``, or ``auto``: by the
    second where a model is known to be served there alone, or the service answers so."""

    token_url: str = setting("", URL)
    """Where a key is exchanged for the token that the service wants instead, by GET.  Empty: the key itself is used."""

    token_scheme: str = setting("bearer", Choices(("bearer", "token")))
    """How the key is presented there: ``bearer`` or ``token``, as in ``Authorization: token …``."""

    key_header: str = setting("authorization", HEADER_NAME)
    """Header that holds the key: ``authorization``, as a bearer token, or another one, which holds the key alone."""

    models_endpoint: str = setting("", URL)
    """URL of the list of models.  Empty: ``/models`` below ``endpoint``."""

    thinking_tags: tuple[str, ...] = setting((), WORD)
    """Names of tags in which models of this service write their thinking, asked for it or not; what stands in them
    becomes thinking."""

    thinking_scan: str = setting("auto", Choices(SCANS))
    """Where these tags count: before the text (``start``); ``auto``, the same, but a closing tag that nothing opened is
    dropped; ``anywhere``; or ``open``, where answers begin with thinking and have the closing tag alone, because the
    template of the model wrote the opening one.  Then they are those of the first name, and an answer counts as text
    where the client has turned thinking off."""

    thinking_control: str = setting("auto", Choices(CONTROLS))
    """How the service is told whether to think: by ``reasoning_effort``, where only models that know ``none`` can be
    told not to; by the object ``thinking``, or ``reasoning``; by ``enable_thinking``, of the request or of its
    ``chat_template_kwargs``; by ``none`` of these; or ``auto``: as the client says it in Chat Completions, else by
    ``reasoning_effort``."""

    efforts: tuple[str, ...] = setting((), WORD)
    """How hard the service can be told to think, weakest first; ``none`` among them is how it is told not to.  Empty:
    as the list of models and OpenAI's names for them have it."""

    thinking_field: str = setting("auto", Choices(("auto", "reasoning_content", "reasoning")))
    """Member of earlier answers in which their thinking is handed back; ``auto``: that in which a client of Chat
    Completions sent it, else ``reasoning_content``.  Under which name it comes does not matter."""

    demands_thinking: bool = False
    """The service refuses earlier answers without thinking; those that have none are given a blank.  What it refuses
    for that reason is learnt in any case."""

    max_tools: int = setting(0, Bounds(0, 100_000))
    """The most tools that the service takes; a request with more is refused with both numbers.  0: not known."""

    max_tokens_field: str = setting("max_completion_tokens", Choices(("max_completion_tokens", "max_tokens")))
    """Field for the limit of the answer's tokens: ``max_completion_tokens``, or ``max_tokens`` for older services."""

    call_ids: str = setting("auto", Choices(("auto", "any", "nine")))
    """Which ids of tool calls the service takes: ``any`` that OpenAI takes, ``nine`` letters and digits, or ``auto``:
    nine where the host or the model is Mistral's.  Others are replaced, by the same ones in every request."""

    relay: str = setting("auto", Choices(("auto", "allow", "never")))
    """Whether requests of clients of the API by which it is asked may be passed on as they are, where
    ``stream.relay`` and the request allow it: ``auto`` (to OpenAI, the slice ``openai``; not to a server in
    ``custom``), ``allow`` or ``never``."""

    embedding_inputs: int = setting(0, Bounds(0, 100_000))
    """Most texts in one request for embeddings; a request with more is sent in parts.  0: as many as OpenAI takes, and
    256 of another service."""

    include_usage: bool = True
    """Ask for the tokens that a stream cost; to be switched off for a service that refuses ``stream_options``."""

    @property
    def configured(self) -> bool:
        """Whether the service is to be asked at all: there is a key, a sign-in, or an address of its own."""
        return bool(self.credentials_file) or super().configured

    def keyed(self, key: str) -> Self:
        """The same with *key* as the only credential, at the same service."""
        endpoint = self.endpoint or (CODEX_ENDPOINT if self.credentials_file else "")
        return evolve(super().keyed(key), credentials_file="", endpoint=endpoint)

    def simulated(self, url: str) -> Self:
        """The same with a simulator at *url* as the service, which is asked with the key itself."""
        path = "/backend-api/codex" if self.credentials_file else "/v1"
        own = super().simulated(f"{url}{path}")
        return evolve(own, token_url="", models_endpoint="", key_header="authorization")

    @staticmethod
    def conflicts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Setting and error message for values, by name, that are valid one by one but not together."""
        if values.get("thinking_scan", "auto") != "auto" and not values.get("thinking_tags"):
            yield "thinking_scan", "there are no tags to look for: set thinking_tags"
        if values.get("token_url") and not values.get("api_key"):
            yield "token_url", "there is no key to exchange: set api_key"
        if values.get("credentials_file"):
            others = ("api_key", "fallback_api_keys", "token_url", "aws_service")
            yield from (
                (name, "not together with credentials_file: set up one of them as custom.NAME")
                for name in others
                if values.get(name)
            )
            if values.get("api") == "chat":
                yield "api", "a sign-in of the Codex command is asked by the Responses API: set auto or responses"
