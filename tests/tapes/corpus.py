"""The corpus: tapes of every simulated service through every API, and of what goes wrong, kept in ``corpus/``.

Beside them lie tapes of real clients, masked and trimmed, which are recorded by hand (`tests/clients`).

``python -m tests.tapes.corpus`` records them anew, which is only right where what clients are sent has changed on
purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final

import anyio

from kiro_asgi import create_app, simulator
from kiro_asgi.simulator.server import Simulator
from kiro_asgi.tapes import Tape
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, post
from tests.tapes.recording import MODELS, PATHS, question, read_all, services, tapes_of

__all__ = ["CORPUS", "cases", "following"]

CORPUS = Path(__file__).parent / "corpus"

_PROMPTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "thinking": "sim:thinking",
        "refused-once": "sim:once-429",
        "torn": "sim:torn",
        "counting": "Count to 5",
    }
)
"""What is asked of the first service through one API, by the name of the tape."""

_CUT: Final = "sim:cut-tool"


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


def following() -> Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    """What is asked after an answer whose call was cut, by the name of the tape: bodies for the Responses API."""
    return {
        "chained": lambda answer: {"input": "Go on.", "previous_response_id": answer["id"]},
        "told-of-a-cut": lambda answer: {"input": [_said(_CUT), *answer["output"], _said("Go on.")]},
    }


def _said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def _dialogue(sim: Simulator, folder: Path, then: Callable[[dict[str, Any]], dict[str, Any]]) -> Tape:
    """The tape of the second request."""
    app = create_app(settings_for(sim.url, {"tapes": {"path": str(folder), "when": "all", "content": "full"}}))
    asked = {"model": MODELS["kiro"], "tools": [{"type": "function", "name": "get_weather", "parameters": {}}]}
    first = await post(PATHS["responses"], {**asked, "input": _CUT}).run(app)
    await post(PATHS["responses"], {**asked, **then(first.json()), "stream": True}).run(app)
    await app.aclose()
    return read_all(folder)[-1]


async def record() -> None:
    """Ask all, and keep the tapes."""
    asked = cases()
    with TemporaryDirectory() as folder:
        async with simulator.serve() as sim:
            options = {"tapes": {"when": "all", "content": "full"}, **services(sim)}
            tapes = dict(zip(asked, await tapes_of(sim, Path(folder), asked.values(), **options), strict=True))
            for name, then in following().items():
                tapes[name] = await _dialogue(sim, Path(folder) / name, then)
    CORPUS.mkdir(exist_ok=True)
    for name, tape in tapes.items():
        (CORPUS / f"{name}.tape.jsonl").write_bytes(tape.write())


if __name__ == "__main__":
    anyio.run(record)
