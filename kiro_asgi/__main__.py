"""``python -m kiro_asgi``."""

from __future__ import annotations

import sys

from kiro_asgi.cli import main

if __name__ == "__main__":
    sys.exit(main())
