"""The running simulator, as a test sees it."""

from __future__ import annotations

from kiro_asgi.simulator.record import Journal
from kiro_asgi.simulator.scripts import Script
from kiro_asgi.simulator.service import CHAT, Answerer, Service

__all__ = ["Simulator"]


class Simulator(Journal):
    """A running simulator: where it is, what it was asked, and what it shall answer.

    Every method may be called from any thread.
    """

    def __init__(self, url: str, service: Service, keep: int) -> None:
        super().__init__(keep)
        self.url = url
        """Base URL, without a slash at the end."""

        self.service = service
        self.accounts = service.accounts
        self.calls = service.calls
        """Operation to how often it was asked for, e.g. ``calls["RefreshToken"]``."""

    def enqueue(self, *scripts: Script, operation: str = CHAT) -> None:
        """Answer the next requests for *operation* with *scripts*, one each, whatever they ask."""
        self.service.enqueue(*scripts, operation=operation)

    def answer_with(self, answerer: Answerer | None) -> None:
        """Ask *answerer* first about every request; where it returns ``None``, go on as usual."""
        self.service.answer_with(answerer)

    def revoke(self, token: str) -> None:
        """Refuse this access token with 403 from now on."""
        self.accounts.revoked.add(token)
