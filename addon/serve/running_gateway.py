"""The running gateway, as a new process sees it that takes its listening sockets over."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal

from addon.serve.listening_sockets import Address, Port, Ports
from addon.serve.takeover_protocol import (
    ANSWER_S,
    MAX_BYTES,
    MAX_DESCRIPTORS,
    Refused,
    decode,
    describe_fault,
    encode,
    find_peer,
    receive,
    short_path,
)

log = logging.getLogger("tollgate.takeover")

END_S: Final = 60.0
"""How long the new process, which serves by then, waits for the last message."""

EXIT_S: Final = 2.0
"""How long a process may take to exit after the system closed its sockets."""


class TakeoverFailed(Exception):  # noqa: N818  (like WorkerFailed: no fault of the caller)
    """The new process can't take over. The message is one line for operators; the running process goes on."""


def find_running(file: Path) -> "Running | None":
    """Return the gateway that offers its sockets at ``file``, or None. Raise TakeoverFailed when it can't be asked."""
    if sys.platform != "linux":
        raise TakeoverFailed("--takeover needs Linux")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(ANSWER_S)
    with ExitStack() as failed:
        failed.callback(connection.close)
        try:
            with short_path(file) as path:
                connection.connect(path)
            running = Running(connection)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except (OSError, Refused) as error:
            raise TakeoverFailed(
                f"the running gateway can't be asked at {file}: {describe_fault(error)}"
            ) from error
        failed.pop_all()
    return running


class Running:
    """The running process, as the new one sees it. Raise TakeoverFailed when it does not keep to the protocol."""

    def __init__(self, connection: socket.socket) -> None:
        self.pid = find_peer(connection)
        self._process = os.pidfd_open(self.pid)
        self._connection = connection
        self.notify_address = ""

    def request_ports(self, wanted: Mapping[str, Address]) -> Ports:
        """Return the ports of the running process. Raise also when an address differs from the ``wanted`` one."""
        try:
            self._connection.send(encode("sockets?"))
            message, descriptors, _, _ = socket.recv_fds(self._connection, MAX_BYTES, MAX_DESCRIPTORS)
            sockets = [socket.socket(fileno=one) for one in descriptors]
            fields = decode(message, "sockets")
            ports = _make_ports(fields["ports"], sockets)
            self.notify_address = str(fields["notify"])
        except (OSError, Refused, KeyError, TypeError, ValueError) as error:
            raise TakeoverFailed(f"the running gateway gave no sockets: {describe_fault(error)}") from error
        with ExitStack() as failed:
            for port in ports.values():
                failed.callback(port.close)
            for section, port in ports.items():
                _check_address(section, port, wanted[section])
            failed.pop_all()
        return ports

    async def stop_accepting(self) -> None:
        """Say that everything here has started, and wait until the running process accepts no more connections.

        Return as well when it has died: then its sockets live on here.
        """
        try:
            await self._send("ready")
            await receive(self._connection, "stopped", ANSWER_S)
        except (OSError, Refused) as error:
            if not await self._is_dead():
                raise TakeoverFailed(f"the running gateway goes on: {describe_fault(error)}") from error
            log.warning("the process %d died during the takeover", self.pid)

    async def end(self) -> None:
        """Say that this process accepts now, and wait until the other has decided to end, or has died."""
        try:
            await self._send("serving")
            await receive(self._connection, "taken over", END_S)
        except (OSError, Refused) as error:
            if not await self._is_dead():
                raise TakeoverFailed(f"the running gateway goes on: {describe_fault(error)}") from error
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection. Before ``end``, the running process then goes on."""
        self._connection.close()
        if self._process >= 0:
            os.close(self._process)
            self._process = -1

    async def _send(self, step: str) -> None:
        self._connection.setblocking(False)
        async with asyncio.timeout(ANSWER_S):
            await asyncio.get_running_loop().sock_sendall(self._connection, encode(step))

    async def _is_dead(self) -> bool:
        loop, exited = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._process, exited.set)
        try:
            async with asyncio.timeout(EXIT_S):
                return await exited.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._process)


def _make_ports(listed: Mapping[str, Any], sockets: list[socket.socket]) -> Ports:
    ports = {}
    for section in ("listen", "admin"):
        address, count = listed[section]
        ports[section] = Port(Address(str(address[0]), int(address[1])) if address else None, sockets[:count])
        del sockets[:count]
        if not ports[section].sockets:
            raise Refused(f"it has no socket of [{section}]")
    return ports


def _check_address(section: str, running: Port, wanted: Address) -> None:
    """Raise TakeoverFailed when the new process should listen on another address than the running one."""
    kept = running.address
    if kept is None:
        return
    if wanted.host != kept.host:
        differs: Literal["host", "port"] = "host"
    elif wanted.port not in (0, kept.port, running.number):
        differs = "port"
    else:
        return
    values = getattr(wanted, differs), getattr(kept, differs)
    raise TakeoverFailed(
        f"[{section}] {differs} is {values[0]} here and {values[1]} in the running gateway:"
        " a takeover keeps the address, so stop it and start again"
    )
