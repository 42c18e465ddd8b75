"""The listening sockets of a gateway: how they are opened, handed on, and spread over workers.

A socket that listens has a queue of connections that no process has accepted yet. The kernel resets them when the last
process closes the socket. So a gateway's sockets outlive its workers and, in a takeover, the gateway.

With SO_REUSEPORT the kernel spreads new connections over all sockets that listen on a port, also those of another
gateway of the same user. So the first socket takes the port exclusively before others share it. Source: socket(7).
"""

import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from addon.runtime.listening import base_url, bind, bound

MAX_SOCKETS = 200
"""The most sockets of one port; more workers share them. A takeover passes all in one message, of at most 253."""


@dataclass(frozen=True, slots=True)
class Address:
    """The host and port of a section of proxy.conf, or of an option in its place. Port 0 means any free port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Port:
    """The listening sockets of one section, ``listen`` or ``admin``.

    ``address`` is the configured one, or None for sockets of systemd, which has its own configuration.
    """

    address: Address | None
    sockets: list[socket.socket] = field(default_factory=list)

    @classmethod
    def open(cls, address: Address) -> Self:
        """Return one new socket on a port that no other gateway uses. Raises OSError."""
        exclusive = bind(address.host, address.port)
        # Only now may others share the port, also those of a later takeover with more workers.
        exclusive.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        return cls(address, [exclusive])

    @property
    def number(self) -> int:
        """The bound port."""
        return int(self.sockets[0].getsockname()[1])

    def url(self, *, tls: bool) -> str:
        """Return the URL of the port."""
        host, port = self.sockets[0].getsockname()[:2]
        return base_url(self.address.host if self.address else host, port, tls=tls)

    def add_up_to(self, count: int) -> None:
        """Add sockets until there are ``count``. Add none if the system lets none share the port."""
        with suppress(OSError):
            while len(self.sockets) < count:
                host, port = self.sockets[0].getsockname()[:2]
                self.sockets.append(bound(host, port, shared=True, listens=True))

    def copies(self) -> list[socket.socket]:
        """Return the same sockets with descriptors of their own, to close one without the other."""
        return [one.dup() for one in self.sockets]

    def close(self) -> None:
        """Close the sockets in this process."""
        for one in self.sockets:
            one.close()


type Ports = dict[str, Port]
"""The ports by section: ``listen`` and ``admin``."""


def spread(
    addresses: Iterable[Sequence[int]], workers: Sequence[int], serving: Collection[int]
) -> Mapping[int, list[int]]:
    """Return which sockets each worker accepts on. Pure.

    ``addresses`` has the numbers of the sockets that share an address: each worker gets a part of each address, and
    workers share a socket where there are fewer sockets. The sockets of workers that do not serve go to the others.
    """
    spreads: dict[int, list[int]] = {worker: [] for worker in workers}
    others = [worker for worker in workers if worker in serving]
    for sockets in addresses:
        for turn in range(max(len(sockets), len(workers))):
            worker, one = workers[turn % len(workers)], sockets[turn % len(sockets)]
            if worker not in serving:
                if not others:
                    continue
                worker = others[turn % len(others)]
            if one not in spreads[worker]:
                spreads[worker].append(one)
    return spreads


def group_by_address(sockets: Sequence[socket.socket]) -> list[list[int]]:
    """Return the positions of the sockets that share an address, for each address."""
    groups: dict[object, list[int]] = {}
    for number, one in enumerate(sockets):
        groups.setdefault(one.getsockname(), []).append(number)
    return list(groups.values())
