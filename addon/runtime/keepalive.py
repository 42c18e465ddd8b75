"""TCP keepalive for connections of clients and to providers. With it, the kernel notices that a peer is gone."""

import socket
from contextlib import suppress
from typing import Final

KEEPALIVE_S: Final = 60
"""A connection that is silent for this long gets its first probe."""

_OPTIONS: Final = {"TCP_KEEPIDLE": KEEPALIVE_S, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}


def keep_alive(sock: socket.socket) -> None:
    """Turn keepalive on. Ignore a socket that is already closed. Source: tcp(7)."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS.items():
            if option := getattr(socket, name, None):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
