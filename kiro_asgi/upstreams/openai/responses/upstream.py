"""How a server that speaks the Responses API is asked.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, evolve, setters

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.base import Credential, ModelCard, Rendered, Traits, Upstream
from kiro_asgi.upstreams.openai.options import is_guaranteed
from kiro_asgi.upstreams.openai.responses.adapting import refused_field
from kiro_asgi.upstreams.openai.responses.answer import stages
from kiro_asgi.upstreams.openai.responses.request import document, estimate_tokens, statistics
from kiro_asgi.upstreams.openai.server import OpenAIServer
from kiro_asgi.wire.json import dumps

__all__ = ["ResponsesUpstream"]


@define(kw_only=True, on_setattr=setters.frozen)
class ResponsesUpstream(OpenAIServer):
    """Asks by the Responses API; holds no state and no secret."""

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
