"""The ``kiro-asgi`` command.

Every command is a module with ``add_arguments(parser)`` and ``run(arguments, environ) -> exit status``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Final

from kiro_asgi._version import __version__
from kiro_asgi.cli import check, demo, doctor, explain, keys, login, replay, serve, tape, usage
from kiro_asgi.cli.terminal import discard_output, print_error, printer_on
from kiro_asgi.config.reading import CONFIG_VARIABLE
from kiro_asgi.errors import ConfigError

COMMANDS: Final[Mapping[str, ModuleType]] = MappingProxyType(
    {
        "serve": serve,
        "demo": demo,
        "check": check,
        "explain": explain,
        "login": login,
        "doctor": doctor,
        "keys": keys,
        "usage": usage,
        "replay": replay,
        "tape": tape,
    }
)


INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; *argv* without the program's name.

    Returns:
        0 on success, 1 when something is wrong with the settings or the environment, 130 after Ctrl-C.  A wrong command
        line exits with 2, as argparse does.
    """
    arguments = _parser().parse_args(argv)
    config = getattr(arguments, "config", None)  # an option of most commands, see `serve.add_config`
    environ = {**os.environ, CONFIG_VARIABLE: config} if config else os.environ
    status = 1
    try:
        return int(COMMANDS[arguments.command].run(arguments, environ))
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kiro-asgi", description="OpenAI and Anthropic APIs in front of Kiro.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    return parser
