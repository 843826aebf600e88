"""The machine that asks, as an upstream is handed it: what settings leave to its variables, clock and credentials.

Upstreams do no I/O, and AWS keeps credentials and regions in a dozen places.  So whoever sets an upstream up hands it
the machine, `kiro_asgi.net.aws.ThisMachine`; without one it can only be described.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from attrs import frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.base import UpstreamRequest


class Signer(Protocol):
    """Signs requests with the credentials that AWS's own tools would use."""

    @property
    def region(self) -> str:
        """The region: the configured one, else the profile's; empty where neither is set."""
        ...

    def sign(self, request: UpstreamRequest, /) -> UpstreamRequest:
        """*request* with its signature, for now.  May block.

        Raises:
            UpstreamDenied: Code ``credentials.aws``: there are no credentials, or they cannot be renewed.
        """
        ...

    def chosen(self) -> str:
        """Source and region of the credentials, for ``doctor``.  May block.

        Raises:
            UpstreamDenied: As `sign`.
        """
        ...


class Machine(Protocol):
    """What an upstream may ask a machine for."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of the process: those that a vendor's own tools read."""
        ...

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def signer(self, profile: str, region: str, service: str, table: str, setting: str = "profile") -> Signer:
        """Make the signer for an AWS service.

        Args:
            profile: Profile of AWS's configuration files; empty for the default one.
            region: Region of the service; empty for the profile's.
            service: Name of the service in signatures.
            table: Name of the table of settings, for messages.
            setting: Name of the setting that has the profile, for messages.

        Raises:
            ConfigError: botocore is not installed, or the profile is not there.
        """
        ...


@frozen
class _NoMachine:
    """One without variables and credentials, for an upstream that is only described."""

    environ: Mapping[str, str] = MappingProxyType({})

    def now(self) -> float:
        return 0.0

    def signer(self, profile: str, region: str, service: str, table: str, setting: str = "profile") -> Signer:
        raise ConfigError(f"{table}: AWS credentials are found on a machine, and none was given", code="aws.machine")


NO_MACHINE: Final = _NoMachine()
