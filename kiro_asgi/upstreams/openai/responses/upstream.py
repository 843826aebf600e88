"""How a server that speaks the Responses API is asked.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from attrs import define, evolve, frozen, setters

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.limits import REQUEST_DEPTH
from kiro_asgi.model.features import Ask
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.base import Credential, ModelCard, Rendered, Traits, Upstream, UpstreamRequest
from kiro_asgi.upstreams.openai.models import efforts_of, refuses_sampling
from kiro_asgi.upstreams.openai.options import is_guaranteed
from kiro_asgi.upstreams.openai.responses.adapting import ASKS, refused_field
from kiro_asgi.upstreams.openai.responses.answer import stages
from kiro_asgi.upstreams.openai.responses.request import INCLUDE, SEALED, document, estimate_tokens, statistics
from kiro_asgi.upstreams.openai.server import OpenAIServer, forwarded
from kiro_asgi.wire.json import dumps, loads


@frozen
class ResponsesForwarding:
    """Sends a client's own request on.  Nothing is stored at the service: what it would look up goes along, sealed."""

    upstream: ResponsesUpstream
    dialect = "openai_responses"
    tagged = False

    def differs(self, asks: Set[Ask], model: ModelCard) -> bool:
        """Whether a rule or a setting has something to do for *asks*; see `kiro_asgi.upstreams.openai.rules`."""
        return any(ask in asks for ask in self.upstream.adapted(model))

    def request(
        self,
        body: bytes,
        credential: Credential,
        headers: Iterable[tuple[bytes, bytes]],
        model: ModelCard,
        stream: bool,
    ) -> UpstreamRequest:
        """The same request to the service; of the client's *headers* those go on that belong to the API."""
        asked = loads(body, max_depth=REQUEST_DEPTH)
        wanted, given = asked.get(INCLUDE) or [], asked.get("input")
        seals = efforts_of(model.id) != () and INCLUDE not in self.upstream.without
        if seals and asked.get("store") is not False and type(wanted) is list and SEALED not in wanted:
            asked[INCLUDE] = [*wanted, SEALED]
        if type(given) is list:
            asked["input"] = [item for item in given if not _is_lost(item)]
        sent = dumps({**asked, "store": False})
        return self.upstream.asked("/responses", sent, credential, forwarded(headers))


def _is_lost(item: object) -> bool:
    """Whether *item* is reasoning of which nothing came but an id, under which nobody has stored it."""
    return (
        type(item) is dict and item.get("type") == "reasoning" and not (item.keys() & {"encrypted_content", "content"})
    )


@define(kw_only=True, on_setattr=setters.frozen)
class ResponsesUpstream(OpenAIServer):
    """Asks by the Responses API; holds no state and no secret."""

    takes_text: bool = True
    """Whether the server has tools that take a text; elsewhere they are functions."""

    forwards: bool = True
    """Whether requests of clients that speak the API may go to the server as they are."""

    @property
    def forwarding(self) -> ResponsesForwarding | None:
        """How a client's own bytes go to it; ``None`` where it is not to be sent them."""
        return ResponsesForwarding(self) if self.forwards else None

    def adapted(self, model: ModelCard) -> Iterator[Ask]:
        """Features that requests for *model* do not carry as a client of the API may ask for them, or not at all."""
        if not self.replay_thinking:
            yield Ask.THOUGHTS
        if efforts_of(model.id) == ():
            yield Ask.EFFORT
        if refuses_sampling(model.id):
            yield Ask.SAMPLING
        yield from (ASKS[name] for name in self.without if name in ASKS)

    @property
    def traits(self) -> Traits:
        """What is refused is refused for every request to the same model."""
        return Traits(verbose=True, learns=True)

    def render(self, prompt: Prompt, model: ModelCard, credential: Credential, conversation: str = "") -> Rendered:
        """Render *prompt* as a request; *conversation* is where the service looks for what it remembers of it.

        Raises:
            RequestError: The prompt holds something that the service cannot be asked; ``param`` names the place, and
                the message the rule.
        """
        custom = self.is_custom(credential.endpoint or self.endpoint)
        written = document(
            prompt,
            model,
            service=self.name if self.replay_thinking else "",
            custom=custom,
            takes_text=self.takes_text,
            conversation=conversation,
            without=self.without,
        )
        form = written.body.get("text", {}).get("format", {})
        return Rendered(
            self.asked("/responses", dumps(written.body), credential),
            written.tool_names,
            stop=prompt.sampling.stop,
            notes=written.notes,
            document=written.body,
            formed=not custom and is_guaranteed(form),
        )

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Fresh stages, bytes to `Delta`, for an answer of this media type.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        return stages(content_type, self.new_id, self.name)

    def adapt_after_error(self, error: KiroAsgiError, rendered: Rendered) -> Upstream | None:
        """This upstream as it has to ask again after *error* was the answer to *rendered*; ``None`` where asking
        differently is no remedy, or was tried already."""
        name = refused_field(error, rendered.document, self.without)
        return evolve(self, without=(*self.without, name)) if name else None

    def estimate_tokens(self, rendered: Rendered, estimator: Estimator) -> float:
        """Tokens that the model will read for what was rendered."""
        return estimate_tokens(rendered.document, estimator)

    def statistics(self, rendered: Rendered) -> Mapping[str, int]:
        """``bytes``, ``messages``, ``tools``, ``tool_results``, ``images``, and the characters of ``system``."""
        return statistics(rendered.document, len(rendered.request.body))
