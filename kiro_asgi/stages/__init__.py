"""The stages of an answer, and the interface for applications that add their own."""

from __future__ import annotations

from kiro_asgi.stages.base import Pipeline, Stage, StageFactory
from kiro_asgi.stages.text_stage import TextStage, unfinished

__all__ = ["Pipeline", "Stage", "StageFactory", "TextStage", "unfinished"]
