"""A port belongs to one gateway, its sockets may be more, and every one of them is accepted on by some worker."""

import socket
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from addon.runtime.listening import bind
from addon.serve.listening_sockets import Address, Port, group_by_address, spread


@pytest.fixture
def port() -> int:
    with closing(bind("127.0.0.1", 0)) as once:
        found: int = once.getsockname()[1]
    return found


def _open(host: str, port: int) -> "closing[Port]":
    return closing(Port.open(Address(host, port)))


@pytest.mark.parametrize("first", [bind, _open])
@pytest.mark.parametrize("second", [bind, _open])
def test_only_one_gateway_can_take_a_port(
    port: int, first: Callable[[str, int], "closing[Port]"], second: Callable[[str, int], "closing[Port]"]
) -> None:
    with first("127.0.0.1", port):
        for host in ("127.0.0.1", "0.0.0.0"):
            with pytest.raises(OSError, match=rf"can't listen on {host}:{port}: Address already in use"):
                second(host, port)
    with second("127.0.0.1", port):
        pass


def test_sockets_that_were_added_share_the_port_which_no_other_gateway_can_take(port: int) -> None:
    with _open("127.0.0.1", port) as opened:
        opened.add_up_to(3)
        assert [one.getsockname()[1] for one in opened.sockets] == [port] * 3
        with ExitStack() as clients:
            for _ in range(64):
                clients.enter_context(socket.create_connection(("127.0.0.1", port)))
            queued = [_accept_all(one) for one in opened.sockets]
        assert sum(queued) == 64
        assert all(queued)  # A fair spread leaves one out once in 60 thousand million runs.
        for other in (bind, _open):
            with pytest.raises(OSError, match="Address already in use"):
                other("127.0.0.1", port)


def _accept_all(listening: socket.socket) -> int:
    listening.setblocking(False)
    count = 0
    while True:
        try:
            accepted, _ = listening.accept()
        except BlockingIOError:
            return count
        accepted.close()
        count += 1


def test_a_socket_that_shares_its_port_with_no_other_is_left_alone() -> None:
    with closing(bind("127.0.0.1", 0)) as exclusive:
        given = Port(None, [exclusive])
        given.add_up_to(4)
        assert given.sockets == [exclusive]
        assert given.url(tls=True) == f"https://127.0.0.1:{given.number}"


def test_the_connections_that_wait_outlive_one_of_two_descriptors(port: int) -> None:
    with _open("127.0.0.1", port) as opened, socket.create_connection(("127.0.0.1", port)) as client:
        (copy,) = opened.copies()
        opened.close()
        with copy, copy.accept()[0] as accepted:
            accepted.send(b"!")
            assert client.recv(1) == b"!"


def test_a_port_is_free_again_though_connections_of_a_gateway_linger_on_it(port: int) -> None:
    with bind("127.0.0.1", port) as listening:
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = listening.accept()
        # The end that closes first keeps the address in the state TIME_WAIT.
        accepted.close()
        assert client.recv(1) == b""
        client.close()
    with _open("127.0.0.1", port) as opened:
        opened.add_up_to(2)
        assert len(opened.sockets) == 2


SPREADS = {
    "one socket each": ([[0, 1]], [1, 2], [1, 2], {1: [0], 2: [1]}),
    "fewer workers": ([[0, 1, 2]], [1, 2], [1, 2], {1: [0, 2], 2: [1]}),
    "one worker": ([[0, 1, 2]], [1], [1], {1: [0, 1, 2]}),
    "fewer sockets": ([[0]], [1, 2, 3], [1, 2, 3], {1: [0], 2: [0], 3: [0]}),
    "a part of each address": ([[0, 1], [2, 3]], [1, 2], [1, 2], {1: [0, 2], 2: [1, 3]}),
    "two addresses with one socket each": ([[0], [1]], [1, 2], [1, 2], {1: [0, 1], 2: [0, 1]}),
    "a dead worker": ([[0, 1]], [1, 2], [2], {1: [], 2: [0, 1]}),
    "two dead workers of three": ([[0, 1, 2]], [1, 2, 3], [2], {1: [], 2: [0, 1, 2], 3: []}),
    "none serves": ([[0, 1]], [1, 2], [], {1: [], 2: []}),
}


@pytest.mark.parametrize(("addresses", "workers", "serving", "expected"), SPREADS.values(), ids=SPREADS)
def test_every_socket_is_accepted_on_while_a_worker_serves(
    addresses: list[list[int]], workers: list[int], serving: list[int], expected: dict[int, list[int]]
) -> None:
    found = spread(addresses, workers, serving)
    assert {worker: sorted(sockets) for worker, sockets in found.items()} == expected


def test_sockets_are_grouped_by_their_address() -> None:
    with _open("127.0.0.1", 0) as one, _open("127.0.0.1", 0) as other:
        one.add_up_to(2)
        assert group_by_address([*one.sockets, *other.sockets]) == [[0, 1], [2]]
