"""A pytest plugin: every import of httpcore gets its maintained fork, ``pytest -p tests.httpcore2_instead``."""

from __future__ import annotations

import sys

import httpcore2

sys.modules["httpcore"] = httpcore2
