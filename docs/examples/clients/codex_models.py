"""Codex's catalogue of models in; out the same with the models that are named, each like PATTERN but for its size."""

import json
import sys

PATTERN = "gpt-5.5"
SIZE = {"context_window": 200_000, "max_context_window": 200_000}

known = json.load(sys.stdin)["models"]
(pattern,) = (model for model in known if model["slug"] == PATTERN)
named = [{**pattern, **SIZE, "slug": name, "display_name": name} for name in sys.argv[1:]]
json.dump({"models": known + named}, sys.stdout, indent=2)
