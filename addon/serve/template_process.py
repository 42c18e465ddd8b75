"""The template process of ``worker_template``: it imports the modules of a worker, and forks a worker for each order.

An order comes on a socket of the supervisor: one byte with the worker's descriptors, its length, then JSON. The answer
is the pid, or ``NO_PID``. The process has one thread, no event loop, and no file but this socket and stderr.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from addon.runtime.quick_imports import without_collection

TEMPLATE_NAME: Final = "tollgate-forker"
WORKER_NAME: Final = "tollgate-worker"
"""The names in `ps -o comm`, of at most 15 bytes."""

NUMBER_BYTES: Final = 8
NO_PID: Final = 2**64 - 1
MAX_DESCRIPTORS: Final = 253
"""What Linux passes in one message. Source: unix(7), SCM_MAX_FD."""


def has_one_thread() -> bool:
    """Return whether this process may fork. A fork copies threads in the middle of their work."""
    return len(os.listdir("/proc/self/task")) == 1


class _Order(NamedTuple):
    """Which worker to fork."""

    number: int
    environment: Mapping[str, str]
    descriptors: Sequence[int]


def run_template(channel: socket.socket, modules: Sequence[str], mask: Iterable[int]) -> int:
    """Fork a worker for each order, until the supervisor is gone. Return only in a worker: its exit status.

    Workers get the signals that ``mask`` does not block.
    """
    try:
        _leave_supervisor(channel.fileno())
        # The collector never visits the objects of these modules, so they stay in shared memory.
        with without_collection():
            for module in modules:
                import_module(module)
        if not has_one_thread():
            os._exit(0)
        order = _serve_orders(channel)
        channel.close()
        return _run_worker(order, mask)
    except Exception as error:  # noqa: BLE001  (code of the supervisor that called this must not handle it)
        sys.excepthook(type(error), error, error.__traceback__)
        return 1


def _serve_orders(channel: socket.socket) -> _Order:
    """Fork a worker for each order. Return only in a worker: its order."""
    while True:
        order = _read_order(channel)
        try:
            pid = _fork_orphan()
        except OSError:
            pid = NO_PID
        if not pid:
            return order
        # Else later workers have them too, and no one sees that this one has closed them.
        for descriptor in order.descriptors:
            os.close(descriptor)
        channel.sendall(pid.to_bytes(NUMBER_BYTES))


def _leave_supervisor(kept: int) -> None:
    """Let go of the terminal, and of all files of the supervisor but stderr and ``kept``."""
    os.setpgid(0, 0)
    _set_name(TEMPLATE_NAME)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor != kept:
            with suppress(OSError):
                os.close(descriptor)


def _read_order(channel: socket.socket) -> _Order:
    """Wait for an order. End this process when the supervisor is gone."""
    message, descriptors, *_ = socket.recv_fds(channel, 1, MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    if not message:
        os._exit(0)
    number, environment = json.loads(_read(channel, int.from_bytes(_read(channel, NUMBER_BYTES))))
    return _Order(number, environment, descriptors)


def _read(channel: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        piece = channel.recv(length - len(found))
        if not piece:
            os._exit(0)
        found += piece
    return found


def _fork_orphan() -> int:
    """Fork a process whose parent has ended. Return its pid here, and 0 in it. Raises OSError."""
    reading, writing = os.pipe()
    try:
        between = os.fork()
        if not between:
            pid = _fork_or_exit()
            if not pid:
                return 0
            os.write(writing, pid.to_bytes(NUMBER_BYTES))
            os._exit(0)
        # After this, the supervisor is the parent.
        _, status = os.waitpid(between, 0)
        if status:
            raise OSError("no process can be forked")
        return int.from_bytes(os.read(reading, NUMBER_BYTES))
    finally:
        os.close(reading)
        os.close(writing)


def _fork_or_exit() -> int:
    try:
        return os.fork()
    except OSError:
        os._exit(1)


def _run_worker(order: _Order, mask: Iterable[int]) -> int:
    """Do what a new interpreter does with the command line of a worker. Return the exit status."""
    os.setpgid(0, 0)
    _set_name(WORKER_NAME)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    stdin, *others = order.descriptors
    os.dup2(stdin, 0)
    os.close(stdin)
    os.environ.clear()
    os.environ.update(order.environment)
    return int(import_module("addon.serve.worker").main(order.number, others))


def _set_name(name: str) -> None:
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name, encoding="ascii")
