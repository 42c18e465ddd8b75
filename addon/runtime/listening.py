"""The public port: one process has it alone, or a supervisor reserves it and only its workers share it.

With SO_REUSEPORT the kernel gives each new connection to one of the sockets that listen, and would as gladly give some
to another gateway of the same user. So only who is alone on a port may reserve it. Source: socket(7).
"""

import socket

LISTEN_BACKLOG = 1024


def bind(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket, alone on its port. Raises OSError with a message that names the address."""
    return _bound(host, port, listens=True)


def reserve(host: str, port: int) -> socket.socket:
    """Return a bound socket that never listens: while it is open, ``join`` alone can listen there. Raises OSError."""
    with bind(host, port) as alone:
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved = _bound(host, alone.getsockname()[1], shared=True)
        # Whoever binds with this option goes by the sockets that do not listen, but for those without it.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return reserved


def join(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a reserved port, beside those of other workers. Raises OSError."""
    return _bound(host, port, shared=True, listens=True)


def base_url(host: str, port: int, *, tls: bool = False) -> str:
    """Return where clients reach ``host``, without a path."""
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _bound(host: str, port: int, *, shared: bool = False, listens: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off Nagle's algorithm only where the protocol is said: 40 ms an answer otherwise.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
        if listens:
            # Two sockets may be bound to one port as long as neither listens.
            sock.listen(LISTEN_BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"can't listen on {host}:{port}: {error.strerror}") from error
    return sock
