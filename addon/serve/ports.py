"""The public port of several workers. The supervisor reserves it, and only its workers share it.

With SO_REUSEPORT the kernel spreads new connections over all sockets that listen on a port, also those of another
gateway of the same user. So the supervisor reserves the port before workers share it. Source: socket(7).
"""

import socket

from addon.runtime.listening import bind, bound


def reserve(host: str, port: int) -> socket.socket:
    """Return a bound socket that never listens. While it is open, only ``join`` can listen there. Raises OSError."""
    with bind(host, port) as exclusive:
        exclusive.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved = bound(host, exclusive.getsockname()[1], shared=True)
        # Without this option, the socket also keeps out sockets that have the option.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return reserved


def join(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a reserved port, next to those of other workers. Raises OSError."""
    return bound(host, port, shared=True, listens=True)
