"""Known services: what each is sent, an answer in its own form, and a refusal in its own words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi import Settings
from kiro_asgi.config.leaves import leaves
from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    RequestError,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamThrottled,
    UpstreamTokenInvalid,
)
from kiro_asgi.model.events import Stop, StopReason, TextDelta, ThinkingDelta, TokenUsage
from kiro_asgi.model.prompt import Prompt, Role, Sampling, Text, Thinking, ThinkingMode, ThinkingPart, Tool, Turn
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.opaque import SameApi
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.manifest import set_up
from kiro_asgi.upstreams.openai.services import SERVICES
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from kiro_asgi.upstreams.settings import Setup
from tests.helpers import run
from tests.upstreams.openai.chunks import DONE, chunk, sse

KEY = Credential(CredentialKind.API_KEY, "sk-secret")
MODEL = ModelCard("some-model")
OWN_PLACE = "https://me.example/v1"

HISTORY = Prompt(
    "some-model",
    (
        Turn(Role.USER, (Text("Hi"),)),
        Turn(Role.ASSISTANT, (ThinkingPart("hm"), Text("Hello"))),
        Turn(Role.USER, (Text("And?"),)),
        Turn(Role.ASSISTANT, (Text("Nothing"),)),
        Turn(Role.USER, (Text("Go on"),)),
    ),
    sampling=Sampling(max_tokens=100),
    tools=(Tool("look", schema={"type": "object", "properties": {}}),),
)
OFF = Thinking(ThinkingMode.DISABLED)
HARD = Thinking(ThinkingMode.ENABLED, effort="high")


def _each(names: str, **fields: Any) -> dict[str, Mapping[str, Any]]:
    """The same *fields* for each of *names*."""
    return dict.fromkeys(names.split(), fields)


SWITCHED_OFF: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **_each("deepseek moonshot zai", thinking={"type": "disabled"}),
        **_each("qwen siliconflow", enable_thinking=False),
        **_each("openrouter together", reasoning={"enabled": False}),
        **_each("mistral fireworks ollama", reasoning_effort="none"),
        **_each("nvidia vllm sglang llama-cpp", chat_template_kwargs={"enable_thinking": False, "thinking": False}),
        **_each("cerebras xai lm-studio", reasoning_effort="low"),  # the weakest that there is
        "perplexity": {"reasoning_effort": "minimal"},
        **_each("minimax groq huggingface github-models azure litellm"),
    }
)
"""Fields by which each is told not to think, by its documentation."""

THOUGHT_HARD: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "deepseek": {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        **_each("moonshot zai", thinking={"type": "enabled"}),
        **_each("qwen siliconflow", enable_thinking=True),
        **_each("openrouter together", reasoning={"enabled": True, "effort": "high"}),
        **_each("nvidia vllm sglang llama-cpp", chat_template_kwargs={"enable_thinking": True, "thinking": True}),
        "minimax": {},
    }
)
"""The same to think hard; ``reasoning_effort`` where there is no entry."""

CONTROLS = ("thinking", "enable_thinking", "chat_template_kwargs", "reasoning", "reasoning_effort")

NAMED = {"groq", "cerebras", "openrouter", "together", "ollama", "vllm"}
"""Those whose answers have thinking as ``reasoning``, by their documentation."""

REFUSALS: Mapping[str, tuple[int, Any, type[KiroAsgiError]]] = MappingProxyType(
    {
        "deepseek": (
            402,
            {"error": {"message": "Insufficient Balance", "code": "invalid_request_error"}},
            UpstreamQuotaSpent,
        ),
        "moonshot": (
            429,
            {"error": {"message": "The engine is currently overloaded", "type": "engine_overloaded_error"}},
            KiroAsgiError,
        ),
        "zai": (429, {"error": {"code": "1302", "message": "Rate limit reached for requests"}}, UpstreamThrottled),
        "qwen": (
            401,
            {"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}, "request_id": "r"},
            UpstreamTokenInvalid,
        ),
        "siliconflow": (429, {"code": 50505, "message": "Model service overloaded.", "data": None}, KiroAsgiError),
        "minimax": (
            400,
            {"type": "error", "error": {"type": "bad_request_error", "message": "invalid params", "http_code": "400"}},
            UpstreamRejected,
        ),
        "openrouter": (
            402,
            {"error": {"code": 402, "message": "Insufficient credits", "metadata": {}}, "user_id": "u"},
            UpstreamQuotaSpent,
        ),
        "mistral": (
            422,
            {
                "object": "error",
                "message": {"detail": [{"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}]},
            },
            KiroAsgiError,
        ),
        "groq": (413, {"error": {"message": "Request too large for model", "type": "tokens"}}, KiroAsgiError),
        "cerebras": (
            400,
            {
                "message": "reasoning_effort is not supported",
                "type": "invalid_request_error",
                "param": "reasoning_effort",
            },
            UpstreamRejected,
        ),
        "xai": (
            400,
            {"code": "Client specified an invalid argument", "error": "Argument not supported: stop"},
            UpstreamRejected,
        ),
        "together": (
            401,
            {"error": {"message": "Invalid API key provided", "type": "invalid_request_error"}},
            UpstreamTokenInvalid,
        ),
        "fireworks": (
            400,
            {
                "error": {
                    "object": "error",
                    "type": "invalid_request_error",
                    "message": "The prompt is too long: 200000",
                }
            },
            KiroAsgiError,
        ),
        "perplexity": (
            401,
            {"error": {"message": "Invalid API key", "type": "invalid_api_key", "code": 401}},
            UpstreamTokenInvalid,
        ),
        "nvidia": (
            401,
            {"status": 401, "title": "Unauthorized", "detail": "Authentication failed"},
            UpstreamTokenInvalid,
        ),
        "huggingface": (429, {"error": "You have been rate limited"}, UpstreamThrottled),
        "github-models": (
            429,
            {"error": {"code": "RateLimitReached", "message": "Rate limit of 8 per 86400s exceeded"}},
            KiroAsgiError,
        ),
        "azure": (
            400,
            {"error": {"code": "content_filter", "message": "The response was filtered", "status": 400}},
            KiroAsgiError,
        ),
        "ollama": (404, {"error": {"message": "model 'x' not found", "type": "not_found_error"}}, KiroAsgiError),
        "vllm": (
            400,
            {"error": {"message": "This model's maximum context length is 4096 tokens.", "type": "BadRequestError"}},
            ContextTooLong,
        ),
        "sglang": (
            400,
            {
                "object": "error",
                "message": "The input (9000 tokens) is longer than the model's context length (4096 tokens).",
            },
            KiroAsgiError,
        ),
        "lm-studio": (400, {"error": "Model unloaded."}, KiroAsgiError),
        "llama-cpp": (
            503,
            {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
            UpstreamOverloaded,
        ),
        "litellm": (
            401,
            {
                "error": {
                    "message": "Authentication Error, Invalid proxy server token",
                    "type": "auth_error",
                    "code": "401",
                }
            },
            UpstreamTokenInvalid,
        ),
    }
)
"""Status, body and kind of an error, in each service's own form."""


def setup_of(name: str, **settings: Any) -> Setup:
    """The service as an operator has it who names it and nothing else."""
    table = {"service": name, "api_key": "sk-secret", **settings}
    if "endpoint" not in SERVICES[name].settings:
        table.setdefault("endpoint", OWN_PLACE)
    [configured] = set_up(Settings.from_mapping({"custom": {"one": table}}))
    return configured.make()


def upstream_of(name: str, **settings: Any) -> OpenAIUpstream:
    upstream = setup_of(name, **settings).upstream
    assert isinstance(upstream, OpenAIUpstream)
    return upstream


def body(name: str, prompt: Prompt, **settings: Any) -> Mapping[str, Any]:
    return upstream_of(name, **settings).render(prompt, MODEL, KEY).document


each = pytest.mark.parametrize("name", SERVICES)


@each
def test_a_row_names_settings_and_where_its_facts_are_from(name: str) -> None:
    """Settings exist, values differ from their defaults, and the source can be looked up."""
    row, known = SERVICES[name], leaves(Settings, ["custom.one"])

    for setting, value in row.settings.items():
        assert known[f"custom.one.{setting}"].default != value, setting
    assert row.source.startswith("https://")
    assert date.fromisoformat(row.dated) <= date.today()
    assert name == row.name


@each
def test_the_address_and_the_key(name: str) -> None:
    """Requests go where the documentation says, with the key where the service looks for it."""
    upstream = upstream_of(name)
    request = upstream.render(HISTORY, MODEL, KEY).request
    place = SERVICES[name].settings.get("endpoint", OWN_PLACE)

    assert request.url == f"{place}/chat/completions"
    sent = dict(request.headers)
    if name == "azure":
        assert sent[b"api-key"] == b"sk-secret"
        assert b"authorization" not in sent
    else:
        assert sent[b"authorization"] == b"Bearer sk-secret"
    listing = "https://models.github.ai/catalog/models" if name == "github-models" else f"{place}/models"
    assert upstream.models_request(KEY).url == listing


@each
def test_thinking_is_switched_off_and_graded_in_its_own_words(name: str) -> None:
    """The client says it in one way, and each service is told in its own."""
    off, hard = (body(name, evolve(HISTORY, thinking=thinking)) for thinking in (OFF, HARD))

    assert {key: off[key] for key in CONTROLS if key in off} == SWITCHED_OFF[name]
    expected = THOUGHT_HARD.get(name, {"reasoning_effort": "high"})
    assert {key: hard[key] for key in CONTROLS if key in hard} == expected
    silent = body(name, HISTORY)
    assert not [key for key in CONTROLS if key in silent]


@each
def test_thinking_goes_back_under_its_own_name(name: str) -> None:
    """It goes where it is wanted, and each answer has some where the service demands it."""
    first, second = (message for message in body(name, HISTORY)["messages"] if message["role"] == "assistant")
    field = "reasoning" if name in NAMED else "reasoning_content"

    if name in ("mistral", "perplexity"):
        assert first.keys() == second.keys() == {"role", "content"}
    else:
        assert first[field] == "hm"
        assert second.get(field) == (" " if name in ("deepseek", "moonshot") else None)
        assert len({"reasoning", "reasoning_content"} & first.keys()) == 1


@each
def test_the_length_and_the_counts_are_asked_for_by_its_fields(name: str) -> None:
    """Of the two names of the length it is sent one, and the option for counts where it takes that."""
    sent = body(name, HISTORY)
    newer = name in ("groq", "cerebras", "xai", "azure", "vllm", "litellm")

    assert ("max_completion_tokens" in sent, "max_tokens" in sent) == (newer, not newer)
    assert ("stream_options" in sent) is (name not in ("mistral", "perplexity"))


@each
def test_an_answer_in_its_own_form(name: str) -> None:
    """Thinking, text, end and counts are read, whatever their names are there."""
    field = "reasoning" if name in NAMED else "reasoning_content"
    usage: dict[str, Any] = {"prompt_tokens": 10, "completion_tokens": 5}
    usage |= {
        "deepseek": {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6},
        "moonshot": {"cached_tokens": 4},
    }.get(name, {"prompt_tokens_details": {"cached_tokens": 4}})
    last = chunk(finish="stop", usage=usage)
    if name == "groq":
        last = chunk(finish="stop", x_groq={"usage": usage})
    events = sse(chunk({"role": "assistant", field: "hm"}), chunk({"content": "Hi"}), last) + DONE
    found = run(Pipeline(*upstream_of(name).decoder("text/event-stream"), SameApi("", "")), [events])

    assert [delta for delta in found if isinstance(delta, ThinkingDelta | TextDelta)] == [
        ThinkingDelta("hm"),
        TextDelta("Hi"),
    ]
    assert Stop(StopReason.END) in found
    [counted] = [delta for delta in found if isinstance(delta, TokenUsage)]
    assert (counted.input_tokens, counted.cache_read_tokens, counted.output_tokens) == (6, 4, 5)


@each
def test_a_refusal_in_its_own_form(name: str) -> None:
    """The kind of error is found, and the message is the service's own."""
    status, content, kind = REFUSALS[name]
    error = upstream_of(name).fault(status, (), json.dumps(content).encode())

    assert isinstance(error, kind), (type(error), error.message)
    words = content.get("message", content.get("error", content.get("detail")))
    words = words.get("message", words) if isinstance(words, dict) else words
    if isinstance(words, str):
        assert words[:20] in error.message


def test_every_value_can_be_set_otherwise() -> None:
    """What the operator sets counts, be it the default of services that are not known."""
    sent = body(
        "deepseek",
        evolve(HISTORY, thinking=OFF),
        thinking_control="reasoning_effort",
        efforts=(),
        demands_thinking=False,
        max_tokens_field="max_completion_tokens",
    )

    assert "thinking" not in sent
    assert sent["max_completion_tokens"] == 100
    assert "reasoning_content" not in sent["messages"][3]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("thinking is enabled but reasoning_content is missing in assistant tool call message at index 1", "blank"),
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", "blank"),
        ("messages.1.reasoning_content: Field required", "blank"),
        ("reasoning_content cannot be empty for assistant messages with tool calls", "blank"),
        ("each assistant message needs reasoning_content while thinking is on", "blank"),
        ("Expected reasoning_content at messages[3]", "blank"),
        ("Invalid request: unexpected turn, reasoning_content is missing", "blank"),
        ("The `reasoning_content` must not be empty.", "blank"),
        ("property 'reasoning_content' is unsupported", "none"),
        ("reasoning_content is not required and not allowed here", "none"),
        ("messages[1]: extra fields not permitted: reasoning_content", "none"),
        ("reasoning_content must not be sent", "none"),
    ],
)
def test_missed_and_refused_are_two_things(words: str, field: str) -> None:
    """What is missed is filled in on every answer; what is refused is left out; and neither is tried twice."""
    upstream = OpenAIUpstream(endpoint=OWN_PLACE)
    error = UpstreamRejected(words)
    adapted = upstream.adapt_after_error(error, upstream.render(HISTORY, MODEL, KEY))
    assert isinstance(adapted, OpenAIUpstream)
    again = adapted.render(HISTORY, MODEL, KEY)

    answers = [message for message in again.document["messages"] if message["role"] == "assistant"]
    found = [message.get("reasoning_content") for message in answers]
    assert found == (["hm", " "] if field == "blank" else [None, None])
    assert adapted.adapt_after_error(error, again) is None
    assert "adapted.reasoning" in [note.rule for note in again.notes]


def test_too_many_tools_are_refused_with_both_numbers() -> None:
    """Who reads the error knows what to change."""
    tools = tuple(Tool(f"t{number}", schema={"type": "object", "properties": {}}) for number in range(137))
    with pytest.raises(RequestError, match="at most 128, and the request has 137"):
        body("groq", evolve(HISTORY, tools=tools))


def test_a_client_that_knows_the_server_is_believed() -> None:
    """Where nobody has set how a server is told, it is told as the client says it."""
    for said, control in (
        ("chat_template_kwargs", {"enable_thinking": False, "thinking": False}),
        ("enable_thinking", False),
    ):
        thinking = Thinking(ThinkingMode.DISABLED, said=said)
        upstream = OpenAIUpstream(endpoint=OWN_PLACE)
        assert upstream.render(evolve(HISTORY, thinking=thinking), MODEL, KEY).document[said] == control
        assert said not in OpenAIUpstream().render(evolve(HISTORY, thinking=thinking), MODEL, KEY).document
