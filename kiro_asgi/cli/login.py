"""Sign in with a browser, and keep the token in a file that the gateway can use.

The browser may be on another device: it only has to reach the page whose address is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from kiro_asgi.cli.named import Command, login_of
from kiro_asgi.cli.serve import add_config
from kiro_asgi.config import Settings
from kiro_asgi.config.installed import UPSTREAMS, offered
from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.manifest import manifests_in


class _Installed(argparse.ArgumentParser):
    """The options of an upstream from outside, which is imported when its sign-in is chosen."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Declare them, and parse."""
        try:
            _service(self.prog.rpartition(" ")[2]).add_arguments(self)
        except ConfigError as error:
            self.error(error.message)
        add_config(self)
        return super().parse_known_args(args, namespace)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options: those of the built-in service, and a command for each installed upstream."""
    _service("").add_arguments(parser)
    add_config(parser)
    if names := offered(UPSTREAMS):
        services = parser.add_subparsers(
            dest="service", metavar="UPSTREAM", parser_class=_Installed, help="one from outside"
        )
        for name in names:
            services.add_parser(name)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Sign in; 0 when the token is in its file."""
    return int(_service(getattr(arguments, "service", None) or "").run(arguments, environ))


def _service(name: str) -> Command:
    """Find the sign-in of the upstream of this *name*, or of the built-in one that has one.

    Raises:
        ConfigError: There is no such upstream, or it has no sign-in, or one that cannot be imported.
    """
    if name:
        return login_of(UPSTREAMS.installed(name))
    return next(login_of(manifest) for _, manifest in manifests_in(Settings) if manifest.login)
