"""The ports and the socket file of a process that another takes over."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.takeovers import CONF

from addon.serve.listening_sockets import Port
from addon.serve.takeover_protocol import socket_file


@pytest.fixture
def ports() -> Iterator[dict[str, Port]]:
    opened = {section: Port.open(CONF) for section in ("listen", "admin")}
    opened["listen"].add_up_to(3)
    yield opened
    for port in opened.values():
        port.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return socket_file(tmp_path / "tollgate.db", tmp_path / "proxy.conf")
