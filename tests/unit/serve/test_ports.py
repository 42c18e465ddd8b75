"""A port is reserved for one gateway, and only its workers share it."""

import socket
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from addon.runtime.listening import bind
from addon.serve.ports import join, reserve


@pytest.fixture
def port() -> int:
    with closing(bind("127.0.0.1", 0)) as once:
        found: int = once.getsockname()[1]
    return found


@pytest.mark.parametrize("first", [bind, reserve])
@pytest.mark.parametrize("second", [bind, reserve])
def test_only_one_socket_can_take_a_port(
    port: int, first: Callable[[str, int], socket.socket], second: Callable[[str, int], socket.socket]
) -> None:
    with first("127.0.0.1", port):
        for host in ("127.0.0.1", "0.0.0.0"):
            with pytest.raises(OSError, match=rf"can't listen on {host}:{port}: Address already in use"):
                second(host, port)
    second("127.0.0.1", port).close()


def test_a_reserved_port_is_shared_by_joined_sockets_and_serves_no_one_without_them(port: int) -> None:
    with reserve("127.0.0.1", port), join("127.0.0.1", port), join("127.0.0.1", port):
        socket.create_connection(("127.0.0.1", port)).close()
        for other in (bind, reserve):
            with pytest.raises(OSError, match="Address already in use"):
                other("127.0.0.1", port)
    with reserve("127.0.0.1", port):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        for other in (bind, reserve):
            with pytest.raises(OSError, match="Address already in use"):
                other("127.0.0.1", port)


@pytest.mark.parametrize("second", [bind, reserve])
def test_a_port_is_free_again_though_connections_of_a_single_gateway_linger_on_it(
    port: int, second: Callable[[str, int], socket.socket]
) -> None:
    with bind("127.0.0.1", port) as listening:
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = listening.accept()
        # The end that closes first keeps the address in the state TIME_WAIT.
        accepted.close()
        assert client.recv(1) == b""
        client.close()
    with second("127.0.0.1", port), ExitStack() as joined:
        if second is reserve:
            joined.enter_context(join("127.0.0.1", port))
