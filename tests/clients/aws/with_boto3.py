"""boto3, as AWS's users have it: every way to ask Bedrock, signed, and what it makes of the answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

GIVEN = json.load(sys.stdin)
SESSION = boto3.Session("AKIDSIMULATED", "simulated", region_name="us-east-1")
ONCE = Config(retries={"total_max_attempts": 1})
RUNTIME = SESSION.client("bedrock-runtime", endpoint_url=GIVEN["url"], config=ONCE)
CONTROL = SESSION.client("bedrock", endpoint_url=GIVEN["url"], config=ONCE)


def report(name: str, ask: Callable[[], Any]) -> None:
    try:
        seen = {"value": ask()}
    except (ClientError, EventStreamError) as error:
        seen = {"thrown": error.response["Error"]["Code"]}
    print(json.dumps({"name": name, **seen}))


def question(words: str, **more: Any) -> dict[str, Any]:
    return {"modelId": GIVEN["model"], "messages": [{"role": "user", "content": [{"text": words}]}], **more}


def text(events: Iterable[dict[str, Any]]) -> str:
    return "".join(event.get("contentBlockDelta", {}).get("delta", {}).get("text", "") for event in events)


def streamed(words: str) -> list[str]:
    events = list(RUNTIME.converse_stream(**question(words))["stream"])
    return [text(events), next(event["messageStop"]["stopReason"] for event in events if "messageStop" in event)]


def collected(words: str) -> list[str]:
    answer = RUNTIME.converse(**question(words))
    return [answer["output"]["message"]["content"][0]["text"], answer["stopReason"]]


def invoked() -> list[str]:
    body = {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": GIVEN["text"]}],
    }
    answer = RUNTIME.invoke_model_with_response_stream(modelId=GIVEN["model"], body=json.dumps(body))
    events = [json.loads(event["chunk"]["bytes"]) for event in answer["body"]]
    words = "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    return [words, events[-1]["type"]]


report("streamed", lambda: streamed(GIVEN["text"]))
report("collected", lambda: collected(GIVEN["text"]))
report("invoked", invoked)
report("broken", lambda: streamed(GIVEN["broken"]))
report("listed", lambda: len(CONTROL.list_foundation_models()["modelSummaries"]) > 0)
SESSION = boto3.Session("AKIDSIMULATED", "another", region_name="us-east-1")
RUNTIME = SESSION.client("bedrock-runtime", endpoint_url=GIVEN["url"], config=ONCE)
report("forged", lambda: collected(GIVEN["text"]))
