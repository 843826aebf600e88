"""What words mean at the Gemini API alone.

Source: https://ai.google.dev/gemini-api/docs/troubleshooting: 503 is "The service may be temporarily overloaded or
down".
"""

from __future__ import annotations

from typing import Final

from kiro_asgi.errors import UpstreamOverloaded, UpstreamRateExceeded
from kiro_asgi.failures.meanings import Own

_OVERLOADED: Final = (UpstreamOverloaded, "UNAVAILABLE")

MEANINGS: Final = Own(
    words={"RATE_LIMIT_EXCEEDED": (UpstreamRateExceeded, "RATE_LIMIT_EXCEEDED")}, statuses={503: _OVERLOADED}
)
