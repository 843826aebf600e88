"""The simulated service of the Codex command: the Responses API at another address, for those who signed in.

Source: https://github.com/openai/codex, ``codex-rs/codex-api``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from kiro_asgi.simulator.codex.checks import RULES, sign_in_fault
from kiro_asgi.simulator.encoding import AnswerEncoder
from kiro_asgi.simulator.format import FormatEndpoint, Question
from kiro_asgi.simulator.markers import habit, repertoire
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.openai.encoder import REFUSALS as OPENAI_REFUSALS
from kiro_asgi.simulator.openai.encoder import envelope
from kiro_asgi.simulator.pieces import TokensUsed
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.responses import RESPONSES
from kiro_asgi.simulator.responses.encoder import ResponsesAnswerEncoder
from kiro_asgi.simulator.scripts import Script, json_answer

RESETS: Final = 3 * 86_400
"""Seconds until the limits are reset."""

REFUSALS: Final[Mapping[str, tuple[int, str | None, str | None, str]]] = {
    **OPENAI_REFUSALS,
    "quota": (429, "usage_limit_reached", None, "The usage limit has been reached"),
    "overage": (429, "usage_not_included", None, "Your plan does not include Codex."),
    "token-invalid": (401, None, "token_invalidated", "Your authentication token has been invalidated."),
}
"""As of OpenAI's."""

MODELS: Final = tuple(Model(name, 272_000, 128_000, family="gpt") for name in ("gpt-5.2", "gpt-5.1-codex-max"))


def refusal(status: int, kind: str | None, code: str | None, message: str, retry_after: str = "") -> Script:
    """A refusal before the stream; of a spent limit with the time of its reset."""
    document = envelope(str(kind or ""), code, message)
    headers: tuple[tuple[str, str], ...] = (("retry-after", retry_after),) if retry_after else ()
    if kind == "usage_limit_reached":
        document["error"] |= {"plan_type": "plus", "resets_in_seconds": RESETS}
        headers += (
            ("x-codex-primary-used-percent", "100"),
            ("x-codex-primary-window-minutes", "10080"),
            ("x-codex-primary-reset-after-seconds", str(RESETS)),
        )
    return json_answer(status, document, headers)


def _detail(message: str) -> Script:
    return json_answer(400, {"detail": message})


def _check_sign_in(request: RecordedRequest) -> Script | None:
    fault = sign_in_fault(request)
    return json_answer(401, envelope("", "token_expired", fault)) if fault else None


def _encoder(request: RecordedRequest, question: Question, used: TokensUsed) -> AnswerEncoder:
    """The service names no media type of its streams."""
    made = ResponsesAnswerEncoder(question, used)
    made.content_type = ""
    return made


def model_list(models: tuple[Model, ...], query: Mapping[str, str]) -> Mapping[str, Any]:
    """The list; empty for a request that names no version of the command."""
    levels = [{"effort": level, "description": level} for level in ("low", "medium", "high", "xhigh")]
    entries = [
        {
            "slug": model.id,
            "display_name": model.id,
            "visibility": "list",
            "supported_in_api": True,
            "context_window": model.window,
            "supported_reasoning_levels": levels,
            "input_modalities": ["text", "image"],
        }
        for model in models
    ]
    return {"models": entries if query.get("client_version") else []}


def usage(models: tuple[Model, ...], query: Mapping[str, str]) -> Mapping[str, Any]:
    """What is used of the account's limits."""
    window = {"used_percent": 25, "limit_window_seconds": 604_800, "reset_after_seconds": RESETS}
    return {"plan_type": "plus", "rate_limit": {"allowed": True, "limit_reached": False, "primary_window": window}}


CODEX: Final = evolve(
    RESPONSES,
    name="codex",
    endpoints=(
        FormatEndpoint.at(r"/backend-api/codex/responses", "POST", "chat"),
        FormatEndpoint.at(r"/backend-api/codex/models", "GET", "models"),
        FormatEndpoint.at(r"/backend-api/wham/usage", "GET", "models"),
    ),
    models=MODELS,
    repertoire=repertoire(
        {},
        {"unrecognized": habit("status 400 as long as the request has this field", "name")},
        REFUSALS,
        refusal,
        lambda fields: envelope(*fields[1:]),
    ),
    refusals=REFUSALS,
    rules=RULES,
    check_signature=_check_sign_in,
    encoder=_encoder,
    model_list=model_list,
    other_lists={"/backend-api/wham/usage": usage},
    bad_request=_detail,
    unknown_model=lambda model: _detail(
        f"The '{model}' model is not supported when using Codex with a ChatGPT account."
    ),
)
