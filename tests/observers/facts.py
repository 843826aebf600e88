"""Facts of a call that never was."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from kiro_asgi.model.events import Metering, Usage, UsageSource
from kiro_asgi.observers import AttemptFacts, CallFacts, EndFacts, Outcome, PlanFacts

CALL = CallFacts(
    request_id="req_1",
    api="anthropic",
    method="POST",
    path="/v1/messages",
    route="/v1/messages",
    principal="alice",
    headers=((b"x-api-key", b"canary-key"), (b"user-agent", b"test")),
    time=1_800_000_000.0,
    started=100.0,
)
PLAN = PlanFacts(
    number=2,
    upstream="kiro",
    provider="aws.kiro",
    model="claude-sonnet-4.5",
    listed=True,
    credential="kiro.api_key",
    streamed=True,
    rules=("turns.merged", "sampling.ignored"),
    host="runtime.us-east-1.kiro.dev",
    port=443,
    parameters={"max_tokens": 64_000, "temperature": 0.5},
    response_id="msg_1",
    context_window=200_000,
    input_estimate=90,
    output_factor=1.0,
    started=100.5,
)
USAGE = Usage(
    input_tokens=100,
    output_tokens=21,
    cache_read_tokens=7,
    input_source=UsageSource.CONTEXT,
    output_source=UsageSource.UPSTREAM,
    cache_source=UsageSource.UPSTREAM,
    metering=Metering(0.25, "credit"),
)
END = EndFacts(
    status=200,
    outcome=Outcome.COMPLETE,
    error="",
    code="",
    model="sonnet",
    upstream="kiro",
    plan=PLAN,
    usage=USAGE,
    finish="end",
    notices={"call.cut": 1},
    preparation=0.25,
    seconds=2.5,
    first_content=0.75,
    content_seconds=1.0,
)
ATTEMPT = AttemptFacts(
    plan=PLAN,
    outcome=Outcome.COMPLETE,
    status=200,
    error="",
    code="",
    seconds=2.0,
    first_content=0.25,
    usage=USAGE,
    finish="end",
)


def refused(error: str = "Unauthorized", status: int = 401, **more: Any) -> EndFacts:
    """The end of a call that got no answer."""
    nothing: dict[str, Any] = {
        "plan": None,
        "usage": None,
        "finish": "",
        "notices": {},
        "first_content": None,
        "preparation": None,
    }
    return evolve(END, status=status, outcome=Outcome.REFUSED, error=error, content_seconds=0.0, **{**nothing, **more})
