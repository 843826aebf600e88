"""Files as the Codex command keeps its sign-in in."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from time import time
from typing import Any

ACCOUNT = "acc-0123"
AUTH = "https://api.openai.com/auth"


def jwt(number: int = 1, **claims: Any) -> str:
    """A token with these claims, another one for each *number*; it ends in an hour unless they say otherwise."""
    given = {"exp": int(time()) + 3600, AUTH: {"chatgpt_account_id": ACCOUNT}, **claims, "jti": f"canary-{number}"}
    return ".".join(map(_part, ({"alg": "RS256"}, given, "signature")))


def _part(value: Any) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def signed_in(access: str, **tokens: Any) -> dict[str, Any]:
    """The members of the file, as ``codex login`` writes them."""
    kept = {"id_token": jwt(99), "access_token": access, "refresh_token": "rt-canary-refresh", "account_id": ACCOUNT}
    return {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "tokens": {name: value for name, value in {**kept, **tokens}.items() if value is not None},
        "last_refresh": "2026-11-20T09:00:00.000000Z",
    }


def write(path: Path, document: Any) -> Path:
    """Write the file in place, as the command does."""
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    path.chmod(0o600)
    return path
