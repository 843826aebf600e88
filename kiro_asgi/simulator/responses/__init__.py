"""The simulated service in OpenAI's newer format: the Responses API, at the same addresses as Chat Completions."""

from __future__ import annotations

from typing import Final

from kiro_asgi.simulator.format import FormatEndpoint, SimulatedFormat, bearer
from kiro_asgi.simulator.markers import habit, repertoire
from kiro_asgi.simulator.openai import MODELS, RESPONSES_MODELS, model_list, unknown_model
from kiro_asgi.simulator.openai.encoder import INVALID, REFUSALS, envelope, refusal
from kiro_asgi.simulator.responses.encoder import ResponsesAnswerEncoder
from kiro_asgi.simulator.responses.reader import read
from kiro_asgi.simulator.responses.rules import RULES

RESPONSES: Final = SimulatedFormat(
    name="responses",
    endpoints=(FormatEndpoint.at(r"(?:/v1)?/responses", "POST", "chat"),),
    models=(*MODELS, *RESPONSES_MODELS),
    repertoire=repertoire(
        {},
        {"unrecognized": habit("status 400 as long as the request has this field", "name")},
        REFUSALS,
        refusal,
        lambda fields: envelope(*fields[1:]),
    ),
    refusals=REFUSALS,
    rules=RULES,
    read_key=bearer,
    read=lambda request, document: read(document),
    encoder=lambda request, question, used: ResponsesAnswerEncoder(question, used),
    model_list=model_list,
    token_count=lambda size: {"input_tokens": size},
    bad_request=lambda message: refusal(400, INVALID, None, message),
    unknown_model=unknown_model,
)
