"""Requests for embeddings to OpenAI itself, and to servers that copy its API."""

from __future__ import annotations

import json

import pytest

from kiro_asgi.errors import RequestError
from kiro_asgi.model.embeddings import EmbeddingPrompt
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.openai import OPENAI
from kiro_asgi.upstreams.openai.settings import OpenAISettings

KEY = Credential(CredentialKind.API_KEY, "sk")
MODEL = ModelCard("text-embedding-3-small", embeds=True)
PROMPT = EmbeddingPrompt("small", ("a cat", (5, 6)), 256, "query", "alice")


def embedder(**settings):
    made = OPENAI.make(Configured("openai", OPENAI, OpenAISettings(api_key="sk", **settings))).embedder
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        pytest.param({}, 2_048, id="openai"),
        pytest.param({"endpoint": "https://eu.api.openai.com/v1"}, 2_048, id="region"),
        pytest.param({"endpoint": "http://localhost:8000/v1"}, 256, id="other"),
        pytest.param({"embedding_inputs": 10}, 10, id="set"),
    ],
)
def test_a_service_takes_so_many_at_once(settings, size):
    assert embedder(**settings).size(MODEL) == size


def test_the_request_is_complete():
    """The service's name of the model, and base64 whatever the client wants."""
    request = embedder(endpoint="http://localhost:8000/v1").request(PROMPT, MODEL, KEY)

    assert (request.method, request.url) == ("POST", "http://localhost:8000/v1/embeddings")
    assert (b"authorization", b"Bearer sk") in request.headers
    assert json.loads(request.body) == {
        "model": "text-embedding-3-small",
        "input": ["a cat", [5, 6]],
        "encoding_format": "base64",
        "dimensions": 256,
        "input_type": "query",
        "user": "alice",
    }


def test_what_openai_lacks_is_refused_and_left_to_others():
    """It makes the same vectors for each purpose; another server may not."""
    with pytest.raises(RequestError, match="input_type: OpenAI makes the same embeddings") as caught:
        embedder().check(PROMPT, MODEL)
    assert caught.value.param == "input_type"
    embedder(endpoint="http://localhost:8000/v1").check(PROMPT, MODEL)


def test_a_sign_in_of_codex_has_no_embeddings():
    settings = OpenAISettings(endpoint="https://chatgpt.com/backend-api/codex", api_key="x")

    assert OPENAI.make(Configured("openai", OPENAI, settings)).embedder is None
