"""The sockets that systemd gives a service, and the states that a service reports to it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from rig.bounds import BOUND_S

from addon.serve.systemd import ServiceManager, take_service_manager, take_sockets

PRINTS = (
    "import fcntl, os, sys\n"
    "given = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 100) for one in sys.argv[1:]]\n"
    "for number, one in enumerate(given):\n"
    "    os.dup2(one, 3 + number)\n"
    "from addon.serve.systemd import take_sockets\n"
    "os.environ['LISTEN_PID'] = str(os.getpid())\n"
    "taken = take_sockets(os.environ)\n"
    "print([one.getsockname()[1] for one in taken.public], [one.getsockname()[1] for one in taken.admin])\n"
    "print(any(name.startswith('LISTEN_') for name in os.environ))\n"
    "print(any(one.get_inheritable() for one in (*taken.public, *taken.admin)))\n"
)


def _start(descriptors: list[int], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``PRINTS`` with these descriptors from 3 on, as systemd does."""
    return subprocess.run(
        [sys.executable, "-c", PRINTS, *map(str, descriptors)],
        env=os.environ | {"LISTEN_FDS": str(len(descriptors))} | variables,
        pass_fds=descriptors,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("tollgate.socket:admin", "[{0}] [{1}]"),
        ("admin:tollgate.socket", "[{1}] [{0}]"),
        ("", "[{0}, {1}] []"),
        ("connections", "[{0}, {1}] []"),
    ],
)
def test_sockets_are_taken_by_name(names: str, expected: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ended = _start([one.fileno(), other.fileno()], LISTEN_FDNAMES=names)
        ports = one.getsockname()[1], other.getsockname()[1]
    assert ended.stdout.splitlines() == [expected.format(*ports), "False", "False"], ended.stderr


def test_a_descriptor_that_does_not_listen_is_refused(tmp_path: Path) -> None:
    with socket.socket() as silent, socket.socket(socket.AF_UNIX) as local, open(os.devnull) as no_socket:
        local.bind(str(tmp_path / "socket"))
        local.listen()
        for one in (silent, local):
            said = _start([one.fileno()]).stderr
            assert "descriptor 3 of LISTEN_FDS is not a listening TCP socket" in said
        assert "descriptor 3 of LISTEN_FDS: " in _start([no_socket.fileno()]).stderr


@pytest.mark.parametrize("variables", [{}, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}, {"LISTEN_FDS": "1"}])
def test_sockets_for_another_process_are_left_alone(variables: dict[str, str]) -> None:
    taken = take_sockets(variables)
    assert (taken.public, taken.admin, variables) == ([], [], {})


@pytest.mark.parametrize("is_abstract", [False, True])
def test_messages_reach_the_service_manager(tmp_path: Path, is_abstract: bool) -> None:
    address = f"@tollgate-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address.replace("@", "\0", 1) if is_abstract else address)
        manager.settimeout(BOUND_S)
        environment = {"NOTIFY_SOCKET": address}
        take_service_manager(environment).notify("READY=1", "MAINPID=7")
        assert manager.recv(1024) == b"READY=1\nMAINPID=7"
        assert environment == {}


def test_a_service_manager_that_is_gone_or_absent_stops_nothing(tmp_path: Path) -> None:
    ServiceManager(str(tmp_path / "nothing")).notify("READY=1")
    ServiceManager("").notify("READY=1")
