"""A model service that needs no credential: real bytes over a real socket, and every fault on demand.

For test suites::

    with kiro_asgi.simulator.running() as simulator:           # a thread with its own loop
        gateway = create_app(...)                              # kiro.endpoint = simulator.url

    async with kiro_asgi.simulator.serve() as simulator:       # in this loop, asyncio or trio
        ...

At the same address it speaks the formats of Gemini, Anthropic and OpenAI too; every script can be said in all of them.

What is answered follows from the prompt: marker words (`MARKERS`, `FORMAT_MARKERS`) choose an answer or a fault,
anything else gets small talk.  `Simulator.enqueue` and `Simulator.answer_with` override both; `Simulator.requests`
tells what was asked.
"""

from __future__ import annotations

from kiro_asgi.simulator.auxiliary import PROFILE_ARN, usage_limits
from kiro_asgi.simulator.builders import (
    Trailers,
    answer,
    json_answer,
    plain_answer,
    refusal,
    tagged_thinking,
    text,
    thinking,
    tool_call,
    tool_calls_interleaved,
    words,
)
from kiro_asgi.simulator.catalogue import MODELS, Model
from kiro_asgi.simulator.control import Simulator
from kiro_asgi.simulator.formats import FORMAT_MARKERS
from kiro_asgi.simulator.pieces import Hit, picture, search
from kiro_asgi.simulator.record import RecordedRequest
from kiro_asgi.simulator.scenarios import MARKERS, markers_as_markdown
from kiro_asgi.simulator.scripts import (
    CloseEarly,
    CorruptChecksum,
    Event,
    ExceptionFrame,
    HalfClose,
    Head,
    Layout,
    Pause,
    RawBytes,
    Repeat,
    Reset,
    Script,
    Stall,
    Step,
    TornFrame,
)
from kiro_asgi.simulator.server import running, serve

__all__ = [
    "FORMAT_MARKERS",
    "MARKERS",
    "MODELS",
    "PROFILE_ARN",
    "CloseEarly",
    "CorruptChecksum",
    "Event",
    "ExceptionFrame",
    "HalfClose",
    "Head",
    "Hit",
    "Layout",
    "Model",
    "Pause",
    "RawBytes",
    "RecordedRequest",
    "Repeat",
    "Reset",
    "Script",
    "Simulator",
    "Stall",
    "Step",
    "TornFrame",
    "Trailers",
    "answer",
    "json_answer",
    "markers_as_markdown",
    "picture",
    "plain_answer",
    "refusal",
    "running",
    "search",
    "serve",
    "tagged_thinking",
    "text",
    "thinking",
    "tool_call",
    "tool_calls_interleaved",
    "usage_limits",
    "words",
]
