"""The small operations beside the chat: profiles, usage, tools of the service itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_map

__all__ = ["PROFILE_ARN", "mcp", "profiles", "usage_limits"]

PROFILE_ARN: Final = "arn:aws:codewhisperer:us-east-1:123456789012:profile/SIMULATED"


def profiles(arns: tuple[str, ...]) -> dict[str, Any]:
    """The answer to ``ListAvailableProfiles``."""
    entries = [
        {"arn": arn, "profileName": f"Simulated {number}", "status": "ACTIVE", "profileType": "Q_DEVELOPER"}
        for number, arn in enumerate(arns, 1)
    ]
    return {"profiles": entries, "nextToken": None}


def usage_limits(
    *, used: float = 12.5, limit: float = 1000.0, resets_at: float = 4_000_000_000.0, plan: str = "KIRO PRO"
) -> dict[str, Any]:
    """The answer to ``GetUsageLimits``; *resets_at* in seconds since the epoch."""
    counted = {
        "resourceType": "CREDIT",
        "displayName": "Credit",
        "displayNamePlural": "Credits",
        "unit": "INVOCATIONS",
        "currentUsage": int(used),
        "currentUsageWithPrecision": used,
        "usageLimit": int(limit),
        "usageLimitWithPrecision": limit,
        "currentOverages": 0,
        "overageCap": 0,
        "overageRate": 0.04,
        "nextDateReset": resets_at,
    }
    return {
        "nextDateReset": resets_at,
        "daysUntilReset": 30,
        "limits": [],
        "usageBreakdownList": [counted],
        "subscriptionInfo": {"type": "Q_DEVELOPER_STANDALONE_PRO", "subscriptionTitle": plan},
        "overageConfiguration": {"overageStatus": "DISABLED"},
        "userInfo": {"userId": "simulated", "email": "someone@example.org"},
    }


WEB_SEARCH: Final[Mapping[str, Any]] = {
    "name": "web_search",
    "description": "Search the web.",
    "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}


def _search(query: str) -> dict[str, Any]:
    page = {
        "title": f"About {query}",
        "url": "https://example.org/simulated",
        "snippet": f"A simulated page about {query}.",
        "publishedDate": 1_750_000_000_000,
        "id": "1",
        "domain": "example.org",
        "maxVerbatimWordLimit": 30,
        "publicDomain": False,
    }
    found = {"results": [page], "totalResults": 1, "query": query, "error": None}
    return {"content": [{"type": "text", "text": json.dumps(found)}], "isError": False}


def mcp(document: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON-RPC answer to a call of ``/mcp``; ``tools/call`` knows ``web_search`` only."""
    frame = {"jsonrpc": "2.0", "id": document.get("id")}
    parameters = as_map(document.get("params"))
    match document.get("method"):
        case "initialize":
            server = {"name": "kiro-asgi simulator", "version": "1"}
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": server,
            }
        case "tools/list":
            result = {"tools": [WEB_SEARCH]}
        case "tools/call" if parameters.get("name") == "web_search":
            result = _search(str(as_map(parameters.get("arguments")).get("query", "")))
        case _:
            return {**frame, "error": {"code": -32601, "message": "Method not found"}}
    return {**frame, "result": result}
