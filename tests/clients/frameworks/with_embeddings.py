"""LangChain's class for embeddings: of texts, one and many, whole and shorter, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

from asking import GIVEN, OPENAI_BASE, report
from langchain_openai import OpenAIEmbeddings

TEXTS = [f"text {number}" for number in range(GIVEN["many"])]


def made_by(model: str, **more: Any) -> OpenAIEmbeddings:
    """Without looking at the length of texts, for which it would have to know each model's tokens."""
    options = {"base_url": OPENAI_BASE, "api_key": GIVEN["key"], "check_embedding_ctx_length": False, "max_retries": 0}
    return OpenAIEmbeddings(model=model, **options, **more)


async def many(model: str) -> Any:
    """The first numbers of each vector, and the lengths that there are."""
    vectors = await made_by(model).aembed_documents(TEXTS)
    return [[vector[:2] for vector in vectors], sorted({len(vector) for vector in vectors})]


async def one(model: str) -> Any:
    return (await made_by(model).aembed_query(TEXTS[0]))[:2]


async def shorter(model: str, dimensions: int) -> Any:
    return len(await made_by(model, dimensions=dimensions).aembed_query(TEXTS[0]))


async def main() -> None:
    for model, dimensions in GIVEN["models"].items():
        await report(f"{model} many", many(model))
        await report(f"{model} one", one(model))
        if dimensions:
            await report(f"{model} shorter", shorter(model, dimensions))
    await report("refused", one(GIVEN["none"]))


asyncio.run(main())
