"""The interface of systemd to a service: inherited sockets, and notifications.

Sources: sd_listen_fds(3), sd_notify(3). Each is a few lines, so no library is needed.
"""

import logging
import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass, field

log = logging.getLogger("tollgate.systemd")

_FIRST_DESCRIPTOR = 3
_SEND_TIMEOUT_S = 1.0

ADMIN = "admin"
"""The name of a descriptor (``FileDescriptorName=``) that is for the admin port. All others are for the public port."""


@dataclass(frozen=True, slots=True)
class InheritedSockets:
    """The listening sockets of ``.socket`` units."""

    public: list[socket.socket] = field(default_factory=list)
    admin: list[socket.socket] = field(default_factory=list)


def take_sockets(environment: MutableMapping[str, str]) -> InheritedSockets:
    """Return the sockets that systemd passed to this process, and remove their variables.

    Raise OSError when one is not a listening TCP socket.
    """
    pid, count = environment.pop("LISTEN_PID", ""), environment.pop("LISTEN_FDS", "")
    names = environment.pop("LISTEN_FDNAMES", "").split(":")
    inherited = InheritedSockets()
    if pid != str(os.getpid()) or not count.isdecimal():
        return inherited
    for number in range(int(count)):
        one = _listening_socket(_FIRST_DESCRIPTOR + number)
        is_admin = number < len(names) and names[number] == ADMIN
        (inherited.admin if is_admin else inherited.public).append(one)
    return inherited


def _listening_socket(descriptor: int) -> socket.socket:
    try:
        found = socket.socket(fileno=descriptor)
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise OSError(error.errno, f"descriptor {descriptor} of LISTEN_FDS: {error.strerror}") from error
    if (
        found.family not in (socket.AF_INET, socket.AF_INET6)
        or found.proto != socket.IPPROTO_TCP
        or not listens
    ):
        raise OSError(f"descriptor {descriptor} of LISTEN_FDS is not a listening TCP socket (Accept=no)")
    found.set_inheritable(False)
    return found


class ServiceManager:
    """The service manager that started this process, or none. A message that can't be sent is logged."""

    def __init__(self, address: str) -> None:
        self.address = address

    def notify(self, *assignments: str) -> None:
        """Send ``assignments`` such as ``READY=1``, if there is a service manager."""
        if not self.address:
            return
        # A name that begins with @ is in the abstract namespace.
        to = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(_SEND_TIMEOUT_S)
                sender.sendto("\n".join(assignments).encode(), to)
        except OSError as error:
            log.warning("the service manager can't be notified: %s", error)


def take_service_manager(environment: MutableMapping[str, str]) -> ServiceManager:
    """Return the service manager that ``NOTIFY_SOCKET`` names, and remove the variable: it is not for workers."""
    return ServiceManager(environment.pop("NOTIFY_SOCKET", ""))
