"""A model service that needs no credential: real bytes over a real socket, and every fault on demand.

For test suites::

    with kiro_asgi.simulator.running() as simulator:           # a thread with its own loop
        gateway = create_app(...)                              # kiro.endpoint = simulator.url

    async with kiro_asgi.simulator.serve() as simulator:       # in this loop, asyncio or trio
        ...

At the same address it has the APIs of Gemini, Anthropic, OpenAI and Amazon Bedrock too; every script can be encoded in
each of them.

The answer follows from the prompt: marker words (`MARKERS`, `FORMAT_MARKERS`) choose an answer or a fault, a prompt
without one gets the default answer.  `Simulator.enqueue` and `Simulator.answer_with` override both;
`Simulator.requests` has the requests that came.
"""

from __future__ import annotations

from kiro_asgi.simulator.formats import FORMAT_MARKERS
from kiro_asgi.simulator.kiro.accounts import PROFILE_ARN, usage_limits
from kiro_asgi.simulator.kiro.models import MODELS
from kiro_asgi.simulator.markers import MARKERS, markers_as_markdown
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.pieces import Event, ExceptionFrame, Hit, picture, search
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import (
    CloseEarly,
    CorruptChecksum,
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
from kiro_asgi.simulator.server import Simulator, running, serve

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
