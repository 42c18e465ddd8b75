"""The error of a taken port names the setting and the process that listens there."""

import errno
import os
import socket

import pytest

from addon.runtime.listening import bind
from addon.runtime.taken_ports import find_listener, name_setting


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_the_listener_of_a_port_is_found_by_name_and_pid(host: str, family: socket.AddressFamily) -> None:
    try:
        taken = socket.create_server((host, 0), family=family)
    except OSError as error:
        pytest.skip(f"this machine has no {host}: {error}")
    with taken:
        port = taken.getsockname()[1]
        found = find_listener(port)
    assert found
    assert found.endswith(f" (pid {os.getpid()})")
    assert find_listener(port) is None


def test_a_bound_socket_that_does_not_listen_is_no_listener() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert find_listener(bound.getsockname()[1]) is None


CASES = {
    "taken": (errno.EADDRINUSE, "is no port here: change [listen] port, or use serve --port"),
    "a host of another machine": (errno.EADDRNOTAVAIL, "is no port here: change [listen] host"),
    "a name that is no host": (socket.EAI_NONAME, "is no port here: change [listen] host"),
    "not allowed": (errno.EACCES, "is no port here: change [listen] port, or use serve --port"),
}


@pytest.mark.parametrize(("number", "said"), CASES.values(), ids=CASES)
def test_the_error_says_what_to_change(number: int, said: str) -> None:
    with pytest.raises(OSError, match="is no port here") as caught, name_setting("[listen]", "--port", 0):
        raise OSError(number, "is no port here")
    assert (caught.value.errno, caught.value.strerror) == (number, said)


def test_no_error_changes_nothing() -> None:
    with name_setting("[admin]", "--admin-port", 0):
        bind("127.0.0.1", 0).close()
