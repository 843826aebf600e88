"""The formats that are simulated in addition to Kiro's, and the endpoints of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kiro_asgi.simulator.anthropic import ANTHROPIC
from kiro_asgi.simulator.bedrock import BEDROCK
from kiro_asgi.simulator.codex import CODEX
from kiro_asgi.simulator.format import FormatEndpoint, SimulatedFormat
from kiro_asgi.simulator.gemini import GEMINI
from kiro_asgi.simulator.markers import REPERTOIRE, MarkerEntry
from kiro_asgi.simulator.openai import OPENAI
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.responses import RESPONSES

FORMATS: Final = (GEMINI, ANTHROPIC, OPENAI, RESPONSES, CODEX, BEDROCK)
"""The one list of them; their endpoints are tried in this order.  A new one is a folder and an entry here."""

FORMAT_MARKERS: Final[Mapping[str, Mapping[str, MarkerEntry]]] = MappingProxyType(
    {form.name: form.repertoire.entries_beside(REPERTOIRE) for form in FORMATS}
)
"""Format to the markers that it knows and Kiro does not."""


def find_endpoint(request: RecordedRequest) -> tuple[SimulatedFormat, FormatEndpoint] | None:
    """Return the format and the endpoint of *request*; ``None``: it is for the Kiro service, or unknown."""
    known = ((form, endpoint) for form in FORMATS for endpoint in form.endpoints)
    return next(((form, endpoint) for form, endpoint in known if endpoint.matches(request)), None)
