"""A takeover: a new process gets the listening sockets of the running one, over a unix socket next to the ledger.

Each message is one JSON object. Every wait has a bound. Until the last message, the running process can go on as if
nothing had happened, and it does so when the new one ends, is late, or sends anything else.

| message | from | then |
|---|---|---|
| `sockets?` | new | |
| `sockets` | running | has the addresses, and the descriptors of the sockets |
| `ready` | new | all services of the new process have started |
| `stopped` | running | the running process accepts no connection; they wait in the queues of the sockets |
| `serving` | new | the new process accepts |
| `taken over` | running | the running process drains and ends |

The running process may send `refused` instead, with a reason. Only a process of the same user may connect. No secret is
sent. Source: unix(7), SO_PEERCRED and SCM_RIGHTS.
"""

import asyncio
import json
import logging
import os
import socket
import stat
import struct
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal

from addon.serve.listening_sockets import Address, Port

log = logging.getLogger("tollgate.takeover")

ANSWER_S: Final = 10.0
"""How long one side waits for a message that the other can send at once."""

READY_S: Final = 120.0
"""How long the running process waits until the new one has started."""

END_S: Final = 60.0
"""How long the new process, which serves by then, waits for the last message."""

EXIT_S: Final = 2.0
"""How long a process may take to exit after the system closed its sockets."""

MAX_BYTES: Final = 16_384
MAX_DESCRIPTORS: Final = 253
"""The most that the system passes in one message. Source: unix(7)."""

_MAX_PATH_BYTES = 107
_CREDENTIALS = struct.Struct("3i")

type Ports = dict[str, Port]
"""The ports by section: ``listen`` and ``admin``."""


class TakeoverFailed(Exception):  # noqa: N818  (like WorkerFailed: no fault of the caller)
    """The new process can't take over. The message is one line for operators; the running process goes on."""


class Refused(Exception):  # noqa: N818
    """The other side broke the rules of this protocol. The message says how."""


def socket_file(database: Path, conf_file: Path) -> Path:
    """Return the path of the unix socket of the deployment that ``conf_file`` describes."""
    name = sha256(os.fsencode(conf_file)).hexdigest()[:12]
    return database.with_name(f"takeover-{name}.sock")


@contextmanager
def _short(file: Path) -> Iterator[str]:
    """Give a path of ``file`` that fits into the address of a unix socket."""
    if len(os.fsencode(file)) <= _MAX_PATH_BYTES:
        yield str(file)
        return
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{file.name}"
    finally:
        os.close(folder)


def _peer(connection: socket.socket) -> int:
    """Return the process id of the peer. Raise Refused when it is another user's process."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    if user != os.geteuid():
        raise Refused(f"process {pid} belongs to another user")
    return int(pid)


def _encode(step: str, **fields: object) -> bytes:
    return json.dumps({"step": step, **fields}).encode()


def _decode(message: bytes, step: str) -> dict[str, Any]:
    """Return the fields of a message that must be ``step``. Raise Refused when it is not."""
    if not message:
        raise Refused("it ended")
    try:
        fields = json.loads(message)
    except (ValueError, RecursionError):
        fields = None
    if isinstance(fields, dict) and fields.get("step") == "refused":
        raise Refused(str(fields.get("reason")))
    if not isinstance(fields, dict) or fields.get("step") != step:
        raise Refused(f"it did not send the message {step!r}")
    return fields


def _describe(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time; another takeover may be under way"
    return str(error)


def find_running(file: Path) -> "Running | None":
    """Return the gateway that offers its sockets at ``file``, or None. Raise TakeoverFailed when it can't be asked."""
    if sys.platform != "linux":
        raise TakeoverFailed("--takeover needs Linux")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(ANSWER_S)
    with ExitStack() as failed:
        failed.callback(connection.close)
        try:
            with _short(file) as path:
                connection.connect(path)
            running = Running(connection)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except (OSError, Refused) as error:
            raise TakeoverFailed(
                f"the running gateway can't be asked at {file}: {_describe(error)}"
            ) from error
        failed.pop_all()
    return running


class Running:
    """The running process, as the new one sees it. Raise TakeoverFailed when it does not keep to the protocol."""

    def __init__(self, connection: socket.socket) -> None:
        self.pid = _peer(connection)
        self._process = os.pidfd_open(self.pid)
        self._connection = connection
        self.notify_address = ""

    def request_ports(self, wanted: Mapping[str, Address]) -> Ports:
        """Return its ports. Raise also when an address differs from the ``wanted`` one."""
        try:
            self._connection.send(_encode("sockets?"))
            message, descriptors, _, _ = socket.recv_fds(self._connection, MAX_BYTES, MAX_DESCRIPTORS)
            sockets = [socket.socket(fileno=one) for one in descriptors]
            fields = _decode(message, "sockets")
            ports = _make_ports(fields["ports"], sockets)
            self.notify_address = str(fields["notify"])
        except (OSError, Refused, KeyError, TypeError, ValueError) as error:
            raise TakeoverFailed(f"the running gateway gave no sockets: {_describe(error)}") from error
        with ExitStack() as failed:
            for port in ports.values():
                failed.callback(port.close)
            for section, port in ports.items():
                _check_address(section, port, wanted[section])
            failed.pop_all()
        return ports

    async def stop_accepting(self) -> None:
        """Say that everything here has started, and wait until it accepts no more connections.

        Return as well when it has died: then its sockets live on here.
        """
        try:
            await self._send("ready")
            await _receive(self._connection, "stopped", ANSWER_S)
        except (OSError, Refused) as error:
            if not await self._is_dead():
                raise TakeoverFailed(f"the running gateway goes on: {_describe(error)}") from error
            log.warning("the process %d died during the takeover", self.pid)

    async def end(self) -> None:
        """Say that this process accepts now, and wait until the other has decided to end, or has died."""
        try:
            await self._send("serving")
            await _receive(self._connection, "taken over", END_S)
        except (OSError, Refused) as error:
            if not await self._is_dead():
                raise TakeoverFailed(f"the running gateway goes on: {_describe(error)}") from error
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
            await asyncio.get_running_loop().sock_sendall(self._connection, _encode(step))

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
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe, _short(self._file) as path:
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
        with ExitStack() as failed, _short(new) as path:
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
                    log.warning("no takeover: %s", _describe(error), extra={"event": "takeover failed"})

    async def _hand_over(self, connection: socket.socket) -> None:
        """Hand the ports to the process at the other end. Raise OSError or Refused when that fails."""
        successor = _peer(connection)
        self._check_service(connection, successor)
        await _receive(connection, "sockets?", ANSWER_S)
        self._send_sockets(connection)
        await _receive(connection, "ready", READY_S)
        await self._pause()
        try:
            connection.send(_encode("stopped"))
            await _receive(connection, "serving", ANSWER_S)
            # This fails if the new process has ended since.
            connection.send(_encode("taken over"))
        except BaseException:
            await self._resume()
            raise
        self.successor = successor
        self.taken.set()

    def _check_service(self, connection: socket.socket, successor: int) -> None:
        """Refuse a process that the service manager would not know as a part of the same service."""
        if self._notify_address and _control_group(successor) != _control_group(os.getpid()):
            reason = "it runs as a service, so let the service manager reload it (systemctl reload)"
            connection.send(_encode("refused", reason=reason))
            raise Refused(f"process {successor} is not in the same service")

    def _send_sockets(self, connection: socket.socket) -> None:
        listed = {
            section: (port.address and (port.address.host, port.address.port), len(port.sockets))
            for section, port in self._ports.items()
        }
        descriptors = [one.fileno() for port in self._ports.values() for one in port.sockets]
        message = _encode("sockets", ports=listed, notify=self._notify_address)
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


async def _receive(connection: socket.socket, step: str, bound_s: float) -> None:
    async with asyncio.timeout(bound_s):
        _decode(await asyncio.get_running_loop().sock_recv(connection, MAX_BYTES), step)
