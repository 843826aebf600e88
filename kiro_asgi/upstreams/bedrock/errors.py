"""What exceptions mean at Bedrock alone.

Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html (a resource is a model
there, and a model's own error has 424), and CommonErrors.html
"""

from __future__ import annotations

import re
from typing import Final

from kiro_asgi.errors import UnknownModel, UpstreamFault, UpstreamOverloaded
from kiro_asgi.failures.meanings import Own

PROFILE: Final = "inference_profile_required"

MEANINGS: Final = Own(
    words={
        "ResourceNotFoundException": (UnknownModel, "model_not_found"),
        "ServiceUnavailableException": (UpstreamOverloaded, "overloaded"),
        "ModelNotReadyException": (UpstreamOverloaded, "model_not_ready"),
    },
    phrases=((re.compile(r"on-demand throughput isn", re.I), UnknownModel, PROFILE),),
    hints={PROFILE: " (ask for the id of an inference profile, or set bedrock.geography)"},
    statuses={424: (UpstreamFault, "model_error"), 503: (UpstreamOverloaded, "overloaded")},
)
