"""What is wrong, printed so that the reader knows what to do."""

from __future__ import annotations

from collections.abc import Sequence

from kiro_asgi.cli.terminal import Output, Tone
from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import families, leaves
from kiro_asgi.errors import ConfigError

__all__ = ["print_error", "print_problem", "variables_in"]


def print_error(output: Output, error: ConfigError) -> None:
    """Print why a command ends: every reason, what to set, and the notes that the command has added."""
    heading, *reasons = error.message.split("\n  ")
    if reasons:
        output.line(("kiro-asgi: ", Tone.BAD), heading, hang=4)
    for reason in reasons or (heading,):
        print_problem(output, "" if reasons else "kiro-asgi: ", reason)
    for note in getattr(error, "__notes__", ()):
        output.line(note, hang=4)


def print_problem(output: Output, label: str, problem: str) -> None:
    """Print one problem behind its *label*, and which variables set what it names."""
    indent = "" if label else "  "
    output.line(indent, (label, Tone.BAD), problem, hang=4)
    if variables := ", ".join(variables_in(problem)):
        output.line("    -> in the environment: ", (variables, Tone.NAME), hang=7)


def variables_in(text: str) -> Sequence[str]:
    """The environment variables of the settings that *text* names by their paths, e.g. ``client.api_keys``."""
    words = dict.fromkeys(word.strip(".,:;()'\"") for word in text.split())
    members = [table for word in words if (table := word.rpartition(".")[0]).partition(".")[0] in families(Settings)]
    known = leaves(Settings, members)
    return [known[word].env for word in words if "." in word and word in known and known[word].env not in text]
