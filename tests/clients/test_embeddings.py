"""LangChain's class for embeddings, in front of each service that makes them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kiro_asgi.simulator.embeddings import vector
from tests.clients import surroundings
from tests.conformance.gateways import EVERY_SERVICE, KEY, Gateway, watched

SCRIPT: Final = Path(__file__).parent / "frameworks" / "with_embeddings.py"
MODELS: Final = {
    "openai/text-embedding-3-small": (1_536, 256),
    "copy/text-embedding-3-small": (1_536, 256),
    "gemini/gemini-embedding-001": (3_072, 768),
    "bedrock/amazon.titan-embed-text-v2:0": (1_024, 512),
    "bedrock/cohere.embed-v4:0": (1_536, 512),
}
"""Model to the length of its vectors, and to a shorter one."""

MANY: Final = 300
"""Texts: more than any service but OpenAI takes at once."""

SERVICES: Final = {
    "KIRO_ASGI__BEDROCK__API_KEY": "key",
    "KIRO_ASGI__BEDROCK__ENDPOINT": "{service}",
    "KIRO_ASGI__CUSTOM__COPY__ENDPOINT": "{service}/v1",
    "KIRO_ASGI__CUSTOM__COPY__API_KEY": "key",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with watched(tmp_path_factory.mktemp("embeddings"), **EVERY_SERVICE, **SERVICES) as running:
        yield running


@pytest.fixture(scope="module")
def told(served: Gateway, frameworks: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script reports, by question."""
    home = tmp_path_factory.mktemp("home")
    models = {model: shorter for model, (_, shorter) in MODELS.items()}
    given = {"base": served.base, "key": KEY, "many": MANY, "models": models, "none": "claude-sonnet-4.5"}
    output = surroundings.Gateway(served.base).run(
        str(frameworks), str(SCRIPT), folder=home, home=home, given=json.dumps(given), PYTHONDONTWRITEBYTECODE="1"
    )
    return {line.pop("name"): line for line in map(json.loads, output.splitlines())}


def beginning(text: str, length: int) -> list[float]:
    """The first numbers of the vector that the simulated services make of a text."""
    return list(struct.unpack("<2f", struct.pack("<2f", *vector(text, length)[:2])))


@pytest.mark.parametrize("model", MODELS)
def test_vectors_come_in_the_order_of_the_texts(told: dict[str, Any], model: str) -> None:
    """However many requests a service needs for them; one text, and vectors that are shorter, as well."""
    length, shorter = MODELS[model]
    vectors, lengths = told[f"{model} many"]["value"]

    assert lengths == [length]
    assert vectors == [pytest.approx(beginning(f"text {number}", length), rel=1e-6) for number in range(MANY)]
    assert told[f"{model} one"]["value"] == vectors[0]
    assert told[f"{model} shorter"]["value"] == shorter


def test_a_service_without_embeddings_is_refused(told: dict[str, Any]) -> None:
    """As the library's user sees it."""
    raised = told["refused"]["raised"]

    assert "BadRequestError" in raised["classes"]
    assert "has no embeddings; name an embedding model of" in raised["message"]
