"""Sign in with a browser, and keep the token in a file that the gateway can use.

The browser may be on another device: it only has to reach the page whose address is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from types import ModuleType

from kiro_asgi.cli.serve import add_config
from kiro_asgi.config import Settings
from kiro_asgi.config.reading import CONFIG_VARIABLE
from kiro_asgi.upstreams.manifest import manifests_in

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    _service().add_arguments(parser)
    add_config(parser)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Sign in; 0 when the token is in its file."""
    if arguments.config:
        environ = {**environ, CONFIG_VARIABLE: arguments.config}
    return int(_service().run(arguments, environ))


def _service() -> ModuleType:
    """Who gives tokens to users who sign in: one kind of service does."""
    return next(manifest.login() for _, manifest in manifests_in(Settings) if manifest.login is not None)
