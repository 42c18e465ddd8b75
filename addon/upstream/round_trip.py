"""The time that a byte takes to the other end of a connection and back, as the kernel measured it."""

import asyncio
import socket
import struct
from typing import Final

_MIN_RTT: Final = struct.Struct("=148xI")
"""``tcpi_min_rtt`` in ``struct tcp_info`` of linux/tcp.h, in microseconds."""
_NOT_MEASURED: Final = 2**32 - 1


def read_min_rtt_s(transport: asyncio.BaseTransport) -> float | None:
    """Return the shortest round trip of a TCP connection, None where the system does not know it."""
    sock, option = transport.get_extra_info("socket"), getattr(socket, "TCP_INFO", None)
    if sock is None or option is None:
        return None
    try:
        [microseconds] = _MIN_RTT.unpack(sock.getsockopt(socket.IPPROTO_TCP, option, _MIN_RTT.size))
    except (OSError, struct.error):  # The socket is closed, or the kernel is old.
        return None
    return None if microseconds == _NOT_MEASURED else microseconds / 1e6
