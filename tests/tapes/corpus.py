"""The corpus: tapes of every simulated service through every API, and of what goes wrong, kept in ``corpus/``.

Beside them lie tapes of real clients, masked and trimmed, which are recorded by hand (`tests/clients`).

``python -m tests.tapes.corpus`` records them anew, which is only right where what clients are sent has changed on
purpose.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final

import anyio

from kiro_asgi import simulator
from tests.asgi.driver import Exchange, post
from tests.tapes.recording import MODELS, PATHS, question, services, tapes_of

__all__ = ["CORPUS", "cases"]

CORPUS = Path(__file__).parent / "corpus"

_PROMPTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "thinking": "sim:thinking",
        "refused-once": "sim:429-once",
        "torn": "sim:torn",
        "counting": "Count to 5",
    }
)
"""What is asked of the first service through one API, by the name of the tape."""


def cases() -> Mapping[str, Exchange]:
    """What is asked, by the name of the tape."""
    crossed = {
        f"{service}-{api}": question(api, "sim:tool", model, tools=True)
        for service, model in MODELS.items()
        for api in PATHS
    }
    prompts = {name: question("anthropic", prompt) for name, prompt in _PROMPTS.items()}
    sealed = {"model": MODELS["kiro"], "input": "sim:thinking", "include": ["reasoning.encrypted_content"]}
    return {**crossed, **prompts, "sealed": post(PATHS["responses"], sealed)}


async def record() -> None:
    """Ask all, and keep the tapes."""
    asked = cases()
    with TemporaryDirectory() as folder:
        async with simulator.serve() as sim:
            options = {"tapes": {"when": "all", "content": "full"}, **services(sim)}
            tapes = await tapes_of(sim, Path(folder), asked.values(), **options)
    for old in CORPUS.glob("*.tape.jsonl"):
        if old.name.removesuffix(".tape.jsonl") in asked:
            old.unlink()
    CORPUS.mkdir(exist_ok=True)
    for name, tape in zip(asked, tapes, strict=True):
        (CORPUS / f"{name}.tape.jsonl").write_bytes(tape.write())


if __name__ == "__main__":
    anyio.run(record)
