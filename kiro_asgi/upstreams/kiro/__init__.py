"""The Kiro service (formerly Amazon Q Developer, CodeWhisperer): a streaming API of its own behind AWS-style doors."""

from __future__ import annotations

from typing import Final

from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.manifest import Manifest

__all__ = ["KIRO"]

KIRO: Final = Manifest(name="kiro", title="Kiro", settings=KiroSettings)
