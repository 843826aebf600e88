"""What a sign-in shows: to a user, or to a program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

from attrs import frozen

from kiro_asgi.cli.progress import Countdown
from kiro_asgi.cli.terminal import Output, Tone, output_on
from kiro_asgi.upstreams.kiro.signin import DeviceCode

__all__ = ["JsonScreen", "Screen", "TextScreen"]


class Screen(Protocol):
    """Where a sign-in is shown."""

    def code(self, code: DeviceCode) -> None:
        """Ask the user to confirm *code*."""
        ...

    def waiting(self, left: float) -> None:
        """Say that the user has *left* seconds."""
        ...

    def done(self, path: Path, endpoint: str) -> None:
        """Say where the token is, and what to set to use it."""
        ...

    def failed(self, message: str, code: str) -> None:
        """Say why there is none."""
        ...


@frozen
class TextScreen:
    """Sentences on standard output; progress and errors on standard error."""

    _output: Output
    _errors: Output
    _countdown: Countdown

    @classmethod
    def on(cls, output: TextIO, errors: TextIO, environ: Mapping[str, str]) -> TextScreen:
        """One that suits these streams."""
        waiting = Countdown.on(errors, environ, "waiting for you")
        return cls(output_on(output, environ), output_on(errors, environ), waiting)

    def code(self, code: DeviceCode) -> None:
        """The address on a line of its own, to be copied."""
        self._output.line("Open this page, and see that it shows the code ", (code.user_code, Tone.TITLE), ":")
        self._output.line()
        self._output.line("   ", (code.address, Tone.NAME))
        self._output.line()

    def waiting(self, left: float) -> None:
        """The time that is left."""
        self._countdown.show(left)

    def done(self, path: Path, endpoint: str) -> None:
        """The settings as lines for a shell."""
        self._countdown.end()
        words = f" The token is in {path}, which only you can read. To use it:"
        self._output.line(("You are signed in.", Tone.GOOD), words)
        self._output.line()
        for name, value in _settings(path, endpoint).items():
            self._output.line("   export ", (name, Tone.NAME), f"={shlex.quote(value)}")

    def failed(self, message: str, code: str) -> None:
        """One sentence."""
        self._countdown.end()
        self._errors.line(("kiro-asgi: ", Tone.BAD), message, hang=4)


@frozen
class JsonScreen:
    """One JSON object a line; ``event`` is ``code``, ``done`` or ``failed``."""

    def code(self, code: DeviceCode) -> None:
        """``address``, ``user_code``, ``expires_in`` (seconds)."""
        _put("code", address=code.address, user_code=code.user_code, expires_in=code.lifetime)

    def waiting(self, left: float) -> None:
        """Nothing."""

    def done(self, path: Path, endpoint: str) -> None:
        """``file``, ``settings`` (environment variable to value)."""
        _put("done", file=str(path), settings=_settings(path, endpoint))

    def failed(self, message: str, code: str) -> None:
        """``message``, ``code``."""
        _put("failed", message=message, code=code)


def _settings(path: Path, endpoint: str) -> dict[str, str]:
    names = {"KIRO_ASGI__KIRO__CREDENTIALS_FILE": str(path), "KIRO_ASGI__KIRO__AUTH_ENDPOINT": endpoint}
    return {name: value for name, value in names.items() if value}


def _put(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)
