"""What the pages show as files, as modules: they import nothing of ours but public names."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["EXAMPLES", "example"]

EXAMPLES: Final = Path(__file__).parent.parent / "docs" / "examples"


@cache
def example(name: str) -> ModuleType:
    """The module that ``docs/examples`` has by this *name*."""
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
