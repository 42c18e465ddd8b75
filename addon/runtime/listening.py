"""Listening sockets, and the URL at which clients reach them."""

import socket
from ipaddress import IPv6Address, ip_address

LISTEN_BACKLOG = 1024


def bind(host: str, port: int) -> socket.socket:
    """Return the only listening TCP socket of a port. Raises OSError with a message that names the address."""
    return bound(host, port, listens=True)


def base_url(host: str, port: int, *, tls: bool = False) -> str:
    """Return the URL of ``host`` and ``port``, without a path."""
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the address. Any other name than ``localhost`` is not loopback."""
    try:
        address = ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def bound(host: str, port: int, *, shared: bool = False, listens: bool = False) -> socket.socket:
    """Return a bound TCP socket, ``shared`` with SO_REUSEPORT. Raises OSError with a message that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off Nagle's algorithm only if the protocol is given. Without it, an answer may take 40 ms more.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
        if listens:
            # Two sockets may be bound to the same port while neither listens, so only this finds a port that is taken.
            sock.listen(LISTEN_BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"can't listen on {host}:{port}: {error.strerror}") from error
    return sock
