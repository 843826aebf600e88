"""The stages of an answer, one file each; and what somebody needs who adds one from outside."""

from __future__ import annotations

from kiro_asgi.stages.base import Pipeline, Stage, StageFactory

__all__ = ["Pipeline", "Stage", "StageFactory"]
