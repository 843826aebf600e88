"""Several processes that serve one socket: started, sent signals, and replaced when they die.

Workers ignore signals of the system: a terminal, and systemd, send one to every process, and each would come twice.
The first process passes them on, each as a byte on the worker's channel.  The end of the channel means that the first
process is gone.

hypercorn has workers too, but only for an application that it can import by its name.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

import anyio
from attrs import define, field

from kiro_asgi.cli.signals import ORDERS

_log = logging.getLogger("kiro_asgi")

_SERVING: Final = b"."
_WATCHED: Final = {*ORDERS, signal.SIGCHLD}


@define(eq=False)
class Orders:
    """Signals that the first process has passed on; its end counts as SIGTERM."""

    _channel: socket.socket
    _alone: bool = field(init=False, default=False)

    def __aiter__(self) -> Orders:
        return self

    async def __anext__(self) -> signal.Signals:
        if self._alone:
            await anyio.sleep_forever()
        await anyio.wait_readable(self._channel)
        data = self._channel.recv(1)
        self._alone = not data
        return signal.Signals(data[0]) if data else signal.SIGTERM

    def serving(self) -> None:
        """Report to the first process that this one serves."""
        with suppress(OSError):  # it is gone, which `__anext__` notices
            self._channel.send(_SERVING)


@define(eq=False)
class _Worker:
    pid: int
    number: int
    channel: socket.socket

    def send(self, order: signal.Signals) -> None:
        with suppress(OSError):  # it has died
            self.channel.send(bytes([order]))

    def has_served(self) -> bool:
        with suppress(OSError):
            return self.channel.recv(1, socket.MSG_DONTWAIT) == _SERVING
        return False


@define(eq=False)
class Workers:
    """*count* processes, each of which runs *work*.

    One that dies is replaced.  Where one exits before it serves, its replacement would, too: then all end.

    Args:
        count: Number of processes.
        listener: The socket that they share; closed here when they are to end, or clients would wait there in vain.
        work: Serves, and obeys its orders; the number is from 0 on, a replacement has that of its predecessor.
        reload: Reads the settings anew, for workers that are started later; whether they can work.
        buried: Called with the id of each process that has died.
    """

    _count: int
    _listener: socket.socket
    _work: Callable[[Orders, int], None]
    _reload: Callable[[], bool]
    _buried: Callable[[int], None]
    _workers: dict[int, _Worker] = field(init=False, factory=dict)
    _ending: bool = field(init=False, default=False)
    _failed: bool = field(init=False, default=False)

    def run(self, started: Callable[[], None]) -> int:
        """Call *started* when there are workers, wait for their end, and return the exit status."""
        # Blocked from here on, so that a signal that comes while workers are started waits for sigwait.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        try:
            for number in range(self._count):
                self._start(number)
            started()
            while self._workers:
                received = signal.Signals(signal.sigwait(_WATCHED))
                if received is signal.SIGCHLD:
                    self._reap()
                elif received is signal.SIGHUP:
                    if self._reload():
                        self._send_all(received)
                else:
                    self._end(received)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return int(self._failed)

    def _end(self, order: signal.Signals) -> None:
        self._ending = True
        self._send_all(order)
        self._listener.close()

    def _send_all(self, order: signal.Signals) -> None:
        for worker in self._workers.values():
            worker.send(order)

    def _reap(self) -> None:
        """Reap processes that have died, and replace them."""
        for worker in tuple(self._workers.values()):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if not pid:
                continue
            del self._workers[pid]
            served, code = worker.has_served(), os.waitstatus_to_exitcode(status)
            worker.channel.close()
            self._buried(pid)
            how = f"signal {-code}" if code < 0 else f"status {code}"
            if self._ending:
                self._failed |= code != 0
            elif served or code < 0:
                _log.error("worker %d has died (%s), and is replaced", pid, how)
                self._start(worker.number)
            else:
                _log.error("worker %d has ended (%s) before it served anything, so all others end as well", pid, how)
                self._failed = True
                self._end(signal.SIGINT)

    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        sys.stdout.flush()  # or both processes would hold, and print, what is buffered
        if pid := os.fork():
            theirs.close()
            self._workers[pid] = _Worker(pid, number, ours)
        else:
            ours.close()
            self._run_worker(theirs, number)

    def _run_worker(self, channel: socket.socket, number: int) -> NoReturn:
        """Work, and end this process with ``os._exit``: the cleanup of the first process must not run here."""
        status = 1
        try:
            for other in self._workers.values():
                other.channel.close()  # else their end would not be seen when the first process is gone
            for each in ORDERS:
                signal.signal(each, _ignore)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
            self._work(Orders(channel), number)
            status = 0
        except BaseException:  # noqa: BLE001 - the process ends here
            traceback.print_exc()
        finally:
            logging.shutdown()
            sys.stderr.flush()
            os._exit(status)


def _ignore(number: int, frame: object) -> None:
    """Ignore the signal here, but not in programs that are run from here, as SIG_IGN would."""
