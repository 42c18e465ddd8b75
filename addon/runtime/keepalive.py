"""TCP keepalive for connections of clients and to providers: the kernel finds out that a silent peer is gone."""

import socket
from contextlib import suppress
from typing import Final

KEEPALIVE_S: Final = 60
"""How long a connection is silent before its peer's kernel is asked whether it is there."""

_OPTIONS: Final = {"TCP_KEEPIDLE": KEEPALIVE_S, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}


def keep_alive(sock: socket.socket) -> None:
    """Turn keepalive on. A socket that was closed meanwhile is left alone. Source: tcp(7)."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS.items():
            if option := getattr(socket, name, None):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
