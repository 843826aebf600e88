"""``python -m kiro_asgi``."""

from __future__ import annotations

import sys

from kiro_asgi.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
