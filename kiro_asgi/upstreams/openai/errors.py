"""What a status means at OpenAI's APIs alone.

Source: https://platform.openai.com/docs/guides/error-codes: 503 is "The engine is currently overloaded".
"""

from __future__ import annotations

from typing import Final

from kiro_asgi.errors import UpstreamOverloaded
from kiro_asgi.failures.meanings import Own

MEANINGS: Final = Own(statuses={503: (UpstreamOverloaded, "overloaded")})
