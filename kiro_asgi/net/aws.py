"""AWS credentials and signatures, from the variables, files and sign-ins of the machine.

Credentials and signatures are botocore's: the chain of AWS's own tools, and Signature Version 4.  Both block: the chain
reads files, runs programs and asks metadata services, once for as long as credentials last.  So a request is signed in
a worker thread, just before it is sent, again for each try: a signature is good for five minutes.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import Lock
from time import time
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kiro_asgi.errors import ConfigError, UpstreamDenied
from kiro_asgi.upstreams.base import UpstreamRequest

SIGNED: Final = frozenset({b"content-type"})
"""Headers that are signed, with those that signing adds; others are not, as a proxy may change them on the way."""


@define
class Signer:
    """Signs requests with the credentials that AWS's own tools would use.

    Raises:
        ConfigError: botocore is not installed, or the profile is not there.
    """

    _profile: str
    _region: str
    _service: str
    """Name of the service in signatures, for its lists of models as well."""

    _table: str
    """Name of the table of settings, for messages."""

    _setting: str = "profile"
    """Name of the setting that has the profile, for messages."""

    _session: Any = field(init=False, repr=False)
    _lock: Lock = field(init=False, factory=Lock, repr=False)
    """One thread looks for credentials; the others wait for what it finds."""

    @_session.default
    def _open(self) -> Any:
        try:
            from botocore.exceptions import ProfileNotFound  # type: ignore[import-untyped]
            from botocore.session import Session  # type: ignore[import-untyped]
        except ImportError:
            raise ConfigError(
                f"{self._table}: AWS credentials need botocore: pip install botocore, or set {self._table}.api_key",
                code="aws.botocore",
            ) from None
        session: Any = Session(profile=self._profile or None)
        try:
            session.get_scoped_config()
        except ProfileNotFound:
            place = f"{self._table}.{self._setting}"
            raise ConfigError(f"{place}: there is no profile {self._profile!r}", code="aws.profile") from None
        return session

    @property
    def region(self) -> str:
        """The region: the configured one, else the profile's; empty where neither is set."""
        return self._region or self._session.get_config_variable("region") or ""

    def sign(self, request: UpstreamRequest) -> UpstreamRequest:
        """*request* with its signature, for now.

        Raises:
            UpstreamDenied: Code ``credentials.aws``: there are no credentials, or they cannot be renewed.
        """
        from botocore.auth import SigV4Auth  # type: ignore[import-untyped]
        from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]

        signed = {name.decode(): value.decode() for name, value in request.headers if name in SIGNED}
        aws_request = AWSRequest(request.method, request.url, data=request.body, headers=signed)
        SigV4Auth(self._credentials(), self._service, self.region).add_auth(aws_request)
        added = tuple((name.lower().encode(), str(value).encode()) for name, value in aws_request.headers.items())
        ours = tuple((name, value) for name, value in request.headers if name not in dict(added))
        return evolve(request, headers=(*ours, *added), finish=None)

    def chosen(self) -> str:
        """Source and region of the credentials, for ``doctor``.

        Raises:
            UpstreamDenied: As `sign`.
        """
        self._credentials()
        found = self._session.get_credentials()
        return f"found by way of {found.method}, for {self.region}"

    def _credentials(self) -> Any:
        from botocore.exceptions import BotoCoreError

        try:
            with self._lock:
                found = self._session.get_credentials()
                frozen = None if found is None else found.get_frozen_credentials()
        except BotoCoreError as error:
            advice = "run aws sso login" if "SSO" in type(error).__name__ else "try aws sts get-caller-identity"
            raise UpstreamDenied(
                f"AWS credentials could not be loaded: {error}; {advice}", code="credentials.aws"
            ) from None
        if frozen is None:
            ours = f"{self._table}.api_key, {self._table}.{self._setting}"
            message = f"there are no AWS credentials: set {ours}, or what AWS's tools read"
            raise UpstreamDenied(message, code="credentials.aws")
        return frozen


@frozen
class ThisMachine:
    """The machine that the process runs on, as `kiro_asgi.upstreams.machine.Machine`."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of this process."""
        return os.environ

    def now(self) -> float:
        """Seconds since the epoch."""
        return time()

    def signer(self, profile: str, region: str, service: str, table: str, setting: str = "profile") -> Signer:
        """Make a `Signer`.

        Raises:
            ConfigError: As it does.
        """
        return Signer(profile, region, service, table, setting)
