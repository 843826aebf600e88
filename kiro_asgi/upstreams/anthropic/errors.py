"""What words mean at the Messages API alone.

Source: https://docs.anthropic.com/en/api/errors
"""

from __future__ import annotations

import re
from typing import Final

from kiro_asgi.errors import UnknownModel
from kiro_asgi.failures.meanings import Own

MEANINGS: Final = Own(phrases=((re.compile(r"^model: ", re.I), UnknownModel, "model_not_found"),))
