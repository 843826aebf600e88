"""Settings of services that are asked with a key, each in its own API."""

from __future__ import annotations

from attrs import field, frozen

__all__ = ["AnthropicSettings", "DirectSettings", "GeminiSettings", "OpenAISettings"]


@frozen(kw_only=True)
class DirectSettings:
    """What all of them have."""

    api_key: str = field(default="", repr=False)
    """Key of the service; no variable but this setting's own is read for it.  Empty for a service that wants none."""

    fallback_api_keys: tuple[str, ...] = field(default=(), repr=False)
    """More keys, tried in this order where the key before them is refused or its quota is spent."""

    endpoint: str = ""
    """Base URL of the service.  Empty: its public one."""

    headers: tuple[str, ...] = field(default=(), repr=False)
    """Headers that every request gets besides, each as ``name=value``; never shown, since a value may be a secret."""

    user_agent: str = ""
    """What we call ourselves.  Empty: ``kiro-asgi/<version>``."""

    proxy: str = field(default="", repr=False)
    """URL of an HTTP proxy for all connections to the service, as for ``kiro.proxy``.  Empty: none."""

    first_token_timeout: float = 60.0
    """Seconds from sending the request to the first upstream event, and one more for every 4,000 tokens of the prompt.
    Models of these services think without being asked, and say nothing meanwhile."""

    thinking_first_token_timeout: float = 180.0
    """The same at least, where the client asked for thinking."""

    models_ttl: float = 3600.0
    """Seconds that a fetched model list is believed.  It is asked for in the background while requests go on as the
    built-in table has it, and corrects that.  0: only who asks for the list, or for a name that is not known, waits for
    it, each time."""

    model_aliases: tuple[str, ...] = ()
    """Names of your own for models of this service, each as ``name=model``."""

    replay_thinking: bool = True
    """Hand thinking of earlier answers back: to Gemini and Anthropic what they have signed, to others than OpenAI that
    speak Chat Completions what nobody has; OpenAI takes none."""

    @property
    def configured(self) -> bool:
        """Whether the service is to be asked at all: there is a key, or an address of its own."""
        return any((self.api_key, self.fallback_api_keys, self.endpoint))


@frozen(kw_only=True)
class GeminiSettings(DirectSettings):
    """The Gemini API."""

    safety_threshold: str = ""
    """From which probability on the service blocks harmful content, for all categories.  Empty: its own default."""


@frozen(kw_only=True)
class AnthropicSettings(DirectSettings):
    """The Messages API of Anthropic, or of who speaks it."""

    version: str = "2023-06-01"
    """Version of the API that requests name."""

    betas: tuple[str, ...] = ()
    """Names of betas that every request asks for, besides the client's."""

    bearer: bool = False
    """Present the key as ``Authorization: Bearer``, as some gateways want it, instead of as ``x-api-key``."""


@frozen(kw_only=True)
class OpenAISettings(DirectSettings):
    """The API of OpenAI, or of one of the many who speak Chat Completions."""

    token_url: str = ""
    """Where a key is exchanged for the token that the service wants instead, by GET.  Empty: the key itself is used."""

    token_scheme: str = "bearer"
    """How the key is presented there: ``bearer`` or ``token``, as in ``Authorization: token …``."""

    thinking_tags: tuple[str, ...] = ()
    """Names of tags in which models of this service write their thinking, asked for it or not; what stands in them
    becomes thinking."""

    max_tokens_field: str = "max_completion_tokens"
    """What the service calls the longest answer: ``max_completion_tokens``, or ``max_tokens`` as older ones do."""

    call_ids: str = "auto"
    """Which ids of tool calls the service takes: ``any`` that OpenAI takes, ``nine`` letters and digits, or ``auto``:
    nine where the host or the model is Mistral's.  Others are replaced, by the same ones in every request."""

    relay: str = "auto"
    """Whether requests of clients of Chat Completions may go to the server as they are, where ``stream.relay`` and the
    request allow it: ``auto`` (to OpenAI, the slice ``openai``; not to a server in ``custom``), ``allow`` or
    ``never``."""

    include_usage: bool = True
    """Ask for the tokens that a stream cost; to be switched off for a service that refuses ``stream_options``."""
