"""The ``kiro-asgi`` command.

Every command is a module with ``add_arguments(parser)`` and ``run(arguments, environ) -> exit status``.  A gateway that
serves for months shall not hold the code of the others.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Final

from kiro_asgi._version import __version__
from kiro_asgi.cli.terminal import discard_output, print_error, printer_on
from kiro_asgi.config.reading import CONFIG_VARIABLE
from kiro_asgi.errors import ConfigError
from kiro_asgi.observers.logs import LineFormatter

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "serve": "Run the gateway on its own, in front of the service or of a simulated one.",
        "demo": "Ask a simulated service one question through each API, and show the answers as they arrive.",
        "check": "Check the settings, and show those in effect; secrets are masked.",
        "explain": "Show how a request is rendered: for which upstream, by which rules, with what loss and payload.",
        "services": "Show the known services, and the settings that each of them stands for.",
        "login": "Sign in with a browser, and keep the token in a file that the gateway can use.",
        "doctor": "Check the whole chain from the settings to an answer, and show what to do about what is broken.",
        "keys": "Make, list, switch off, renew or remove keys of clients.",
        "usage": "Show usage by day, client, upstream and model, from the ledger that gateways with state.usage keep.",
        "replay": "Replay the exchange on a tape, and report whether the client would be sent the same.",
        "docs": "Print a page of the reference, made from the gateway's own tables: markers, settings, errors.",
        "tape": "Check, mask or trim a tape, or make a curl command or an HTTP archive of it.",
    }
)
"""Name of each command to its summary; the module of that name is imported only for the command that is run."""

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; *argv* without the program's name.

    Returns:
        0 on success, 1 when something is wrong with the settings or the environment, 130 after Ctrl-C.  A wrong command
        line exits with 2, as argparse does.
    """
    argv = sys.argv[1:] if argv is None else argv
    # The program's own options take no values, so the first word without a dash is the command.
    command = next((word for word in argv if not word.startswith("-")), "")
    arguments = _parser(command).parse_args(argv)
    config = getattr(arguments, "config", None)  # an option of most commands, see `serve.add_config`
    environ = {**os.environ, CONFIG_VARIABLE: config} if config else os.environ
    status = 1
    if logging.lastResort is not None:  # takes warnings where a command configures no logging, as all but serve do
        logging.lastResort.setFormatter(LineFormatter())
    try:
        return int(_module(command).run(arguments, environ))
    except* ConfigError as group:  # task groups wrap what leaves them
        for error in _members(group):
            print_error(printer_on(sys.stderr, os.environ), error)
    except* BrokenPipeError:
        discard_output()  # the reader has closed the pipe, as `head` does
    except* KeyboardInterrupt:
        status = INTERRUPTED
    return status


def _members(group: BaseExceptionGroup[ConfigError]) -> Iterator[ConfigError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _members(error)
        else:
            yield error


def _module(command: str) -> ModuleType:
    return import_module(f"kiro_asgi.cli.{command}")


def _parser(command: str) -> argparse.ArgumentParser:
    """The parser of the program, with the arguments of *command*."""
    description = "OpenAI, Anthropic and Gemini APIs in front of Kiro and other model services."
    parser = argparse.ArgumentParser(prog="kiro-asgi", description=description)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        parser_of_command = commands.add_parser(name, help=summary, description=summary)
        if name == command:
            _module(name).add_arguments(parser_of_command)
    return parser
