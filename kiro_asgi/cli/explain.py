"""Show how a request is rendered: for which upstream, by which rules, with what loss and payload.

It sends no requests.  The exit status is 1 when the request would be refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kiro_asgi.asgi.exchange.explain import explain
from kiro_asgi.cli.serve import add_config
from kiro_asgi.cli.terminal import Printer, Tone, printer_on
from kiro_asgi.config import Settings
from kiro_asgi.config.installed import DIALECTS, offered
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.errors import ConfigError, KiroAsgiError
from kiro_asgi.model.rules import Loss


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("request", metavar="FILE", help="a client's request body; - reads standard input")
    apis = [*(api.name for api in BUILTIN), *offered(DIALECTS)]
    parser.add_argument("--api", choices=apis, help="which API it is for; guessed from the body otherwise")
    parser.add_argument(
        "--upstream", metavar="NAME", help="upstream to use, instead of the one that the model's name selects"
    )
    parser.add_argument("--model-window", metavar="TOKENS", type=int, help="context window, instead of the model's")
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object on standard output")
    add_config(parser)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the report."""
    settings = Settings.from_env(environ)
    try:
        body = sys.stdin.buffer.read() if arguments.request == "-" else Path(arguments.request).read_bytes()
        report = explain(body, settings, arguments.api, arguments.upstream, arguments.model_window)
    except OSError as error:
        raise ConfigError(f"{arguments.request}: {error.strerror}", code="explain.file") from error
    except ConfigError:
        raise  # a fault of the settings, not of the request
    except KiroAsgiError as error:
        report = {"ok": False, "error": error.message, "code": error.code, "param": error.param}
    output = printer_on(sys.stdout, environ)
    if arguments.json:
        output.json(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(output, report)
    return 0 if report["ok"] else 1


def _print(output: Printer, report: Mapping[str, Any]) -> None:
    if not report["ok"]:
        output.line(("refused: ", Tone.BAD), report["error"], hang=9)
        if report["param"]:
            output.line(("place:   ", Tone.NAME), report["param"])
        return
    facts = ((f"{name}: ", report[name]) for name in ("api", "upstream", "model"))
    output.line(*(part for name, value in facts for part in ((name, Tone.NAME), f"{value}   ")))
    if not report["built_in"]:
        output.line(
            "This model is not built in: it is treated as an ordinary one, and works only if the service has it."
        )
    if report["hint"]:
        output.line((report["hint"], Tone.WARNING))
    output.line()
    if report["as_it_is"]:
        output.line("The upstream speaks this API: the request goes through as it is, but for the model's name.")
        output.line()
    else:
        _print_reason(output, report["translated_because"])
        _print_rules(output, report["rules"])
    if report["stages"]:
        output.line(
            ("stages of installed packages: ", Tone.NAME), ", ".join(report["stages"]), "; each sees the answer"
        )
        output.line()
    for wire, name in report["tool_names"].items():
        output.line(f"tool {name} is called {wire}")
    for wire, name in report["argument_names"].items():
        output.line(f"argument {name} is called {wire}")
    output.line(("sizes: ", Tone.NAME), ", ".join(f"{name} {value:,}" for name, value in report["sizes"].items()))
    output.line()
    output.json(json.dumps(report["payload"], indent=2, ensure_ascii=False))


def _print_reason(output: Printer, reason: Mapping[str, str]) -> None:
    """Print why a request is translated although the service has its API; where it has another, the reason is clear."""
    if reason and reason["reason"] != "service.other":
        output.line(f"The upstream speaks this API, but the request is translated ({reason['reason']}).")
        output.line(reason["what"].replace("``", ""))
        output.line()


def _print_rules(output: Printer, rows: list[dict[str, Any]]) -> None:
    if not rows:
        output.line(("No rule had anything to do: nothing is lost.", Tone.GOOD))
        output.line()
        return
    heading = {"rule": "RULE", "times": "TIMES", "place": "FIRST PLACE", "loss": "LOSS", "what": "WHAT"}
    widths = {key: max(len(str(row[key])) for row in (heading, *rows)) for key in ("rule", "times", "place", "loss")}
    for row in (heading, *rows):
        tone = Tone.TITLE if row is heading else Tone.BAD if row["loss"] == Loss.CONTENT.value else Tone.TEXT
        cells = "  ".join(f"{row[key]!s:{width}}" for key, width in widths.items())
        output.line((cells, tone), f"  {row['what']}", hang=4)
    lost = [row for row in rows if row["loss"] == Loss.CONTENT.value]
    output.line()
    output.line("lost: " + ("; ".join(f"{row['rule']} ({row['times']})" for row in lost) or "nothing"), hang=4)
    output.line()
