"""``Offer``: offers the listening sockets of a running gateway to a new process."""

import asyncio
import logging
import os
import socket
import stat
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from addon.serve.listening_sockets import Ports
from addon.serve.takeover_protocol import (
    ANSWER_S,
    Refused,
    describe_fault,
    encode,
    find_peer,
    receive,
    short_path,
)

log = logging.getLogger("tollgate.takeover")

READY_S: Final = 120.0
"""How long the running process waits until the new one has started."""


class Offer:
    """The running process's side: it offers its ``ports`` at ``file``, to one new process at a time.

    ``pause`` stops accepting without closing a socket, and ``resume`` accepts again. ``taken`` is set when a new
    process serves; ``successor`` is its process id.
    """

    def __init__(
        self,
        file: Path,
        ports: Ports,
        pause: Callable[[], Awaitable[None]],
        resume: Callable[[], Awaitable[None]],
        notify_address: str = "",
    ) -> None:
        self.taken = asyncio.Event()
        self.successor = 0
        self._file = file
        self._ports = ports
        self._pause, self._resume = pause, resume
        self._notify_address = notify_address
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._inode = 0

    def start(self, *, replaces: bool) -> None:
        """Offer the ports from now on. ``replaces``: also if another process still offers its own there.

        If that is not possible, log it: calls can be served all the same.
        """
        if sys.platform != "linux":
            return
        try:
            if not replaces and self._is_used():
                log.info("this gateway can't be taken over: another one with this proxy.conf can")
                return
            self._socket = self._listen()
        except OSError as error:
            log.warning("this gateway can't be taken over: %s: %s", self._file, error)
            return
        self._task = asyncio.create_task(self._serve(self._socket))

    async def close(self) -> None:
        """Offer the ports no more."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._socket:
            self._socket.close()
            with suppress(OSError):
                if self._file.stat().st_ino == self._inode:
                    self._file.unlink()

    def _is_used(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe, short_path(self._file) as path:
            probe.settimeout(ANSWER_S)
            try:
                probe.connect(path)
            except (FileNotFoundError, ConnectionRefusedError):
                return False
        return True

    def _listen(self) -> socket.socket:
        """Return a socket that listens at the file. An old file there is replaced."""
        new = self._file.with_suffix(f".{os.getpid()}")
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ExitStack() as failed, short_path(new) as path:
            failed.callback(listening.close)
            new.unlink(missing_ok=True)
            listening.bind(path)
            # No process can connect before ``listen``.
            new.chmod(stat.S_IRUSR | stat.S_IWUSR)
            listening.listen(1)
            self._inode = new.stat().st_ino
            new.replace(self._file)
            failed.pop_all()
        listening.setblocking(False)
        return listening

    async def _serve(self, listening: socket.socket) -> None:
        while True:
            await _wait_until_readable(listening)
            try:
                # Not ``sock_accept``: when that is cancelled, it may lose a connection without closing it.
                connection, _ = listening.accept()
            except BlockingIOError:
                continue
            with connection:
                connection.setblocking(False)
                try:
                    await self._hand_over(connection)
                    return
                except (OSError, Refused) as error:
                    log.warning("no takeover: %s", describe_fault(error), extra={"event": "takeover failed"})

    async def _hand_over(self, connection: socket.socket) -> None:
        """Hand the ports to the process at the other end. Raise OSError or Refused when that fails."""
        successor = find_peer(connection)
        # A refusal comes after the question. Otherwise the other process gets an error of its socket instead.
        await receive(connection, "sockets?", ANSWER_S)
        self._check_service(connection, successor)
        self._send_sockets(connection)
        await receive(connection, "ready", READY_S)
        await self._pause()
        try:
            connection.send(encode("stopped"))
            await receive(connection, "serving", ANSWER_S)
            # This fails if the new process has ended since.
            connection.send(encode("taken over"))
        except BaseException:
            await self._resume()
            raise
        self.successor = successor
        self.taken.set()

    def _check_service(self, connection: socket.socket, successor: int) -> None:
        """Refuse a process that the service manager would not know as a part of the same service."""
        if self._notify_address and _control_group(successor) != _control_group(os.getpid()):
            reason = "it runs as a service, so let the service manager reload it (systemctl reload)"
            connection.send(encode("refused", reason=reason))
            raise Refused(f"process {successor} is not in the same service")

    def _send_sockets(self, connection: socket.socket) -> None:
        listed = {
            section: (port.address and (port.address.host, port.address.port), len(port.sockets))
            for section, port in self._ports.items()
        }
        descriptors = [one.fileno() for port in self._ports.values() for one in port.sockets]
        message = encode("sockets", ports=listed, notify=self._notify_address)
        socket.send_fds(connection, [message], descriptors)


async def _wait_until_readable(readable: socket.socket) -> None:
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(readable, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(readable)


def _control_group(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    except OSError:
        return ""
