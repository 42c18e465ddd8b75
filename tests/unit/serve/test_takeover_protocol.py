"""A takeover on real sockets: its steps, and who may take over from whom."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.takeovers import CONF, find_offer, offered, take_ports

from addon.serve import takeover_offer
from addon.serve.listening_sockets import Address, Port
from addon.serve.running_gateway import TakeoverFailed, find_running
from addon.serve.takeover_protocol import socket_file


async def test_all_sockets_go_to_the_new_process_and_the_old_one_ends(
    file: Path, ports: dict[str, Port]
) -> None:
    async with offered(file, ports, "/run/notify") as (offer, accepting):
        running = await find_offer(file)
        got = await take_ports(running)
        assert (running.pid, running.notify_address) == (os.getpid(), "/run/notify")
        assert [len(got[section].sockets) for section in ("listen", "admin")] == [3, 1]
        assert {section: port.number for section, port in got.items()} == {
            section: port.number for section, port in ports.items()
        }
        assert accepting.changes == []
        await running.stop_accepting()
        assert accepting.changes == ["paused"]
        assert not offer.taken.is_set()
        await running.end()
        await offer.taken.wait()
        assert (offer.successor, accepting.changes) == (os.getpid(), ["paused"])
        for port in (*ports.values(), *got.values()):
            port.close()
    assert not exists(file)


async def test_a_connection_that_waits_is_accepted_by_the_new_process(
    file: Path, ports: dict[str, Port]
) -> None:
    async with offered(file, ports):
        running = await find_offer(file)
        got = await take_ports(running)
        with closing(socket.create_connection(("127.0.0.1", ports["admin"].number), BOUND_S)) as client:
            await running.stop_accepting()
            await running.end()
            for port in ports.values():
                port.close()
            accepted, _ = got["admin"].sockets[0].accept()
            with accepted:
                accepted.sendall(b"!")
            assert client.recv(1) == b"!"
        for port in got.values():
            port.close()


def exists(file: Path) -> bool:
    return file.exists()


def _inode(file: Path) -> int:
    return file.stat().st_ino


DYING = """
import asyncio, sys
from pathlib import Path
from addon.serve.takeover_offer import Offer
from addon.serve.listening_sockets import Address, Port

async def nothing():
    if sys.argv[2] == "stopped":
        sys.stdin.read()

async def main():
    ports = {section: Port.open(Address("127.0.0.1", 0)) for section in ("listen", "admin")}
    Offer(Path(sys.argv[1]), ports, nothing, nothing).start(replaces=False)
    print(flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


def _start_other(*arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", DYING, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize("step", ["sockets", "stopped"])
async def test_the_sockets_live_on_when_the_running_process_is_killed(file: Path, step: str) -> None:
    with _start_other(str(file), step) as other:
        assert other.stdout
        other.stdout.readline()
        running = await find_offer(file)
        assert running.pid == other.pid
        got = await take_ports(running)
        if step == "sockets":
            other.kill()
            await running.stop_accepting()
        else:
            stopping = asyncio.create_task(running.stop_accepting())
            await asyncio.sleep(0)
            other.kill()
            await stopping
        await running.end()
        socket.create_connection(("127.0.0.1", got["listen"].number), BOUND_S).close()
        for port in got.values():
            port.close()
    # The file of a killed process is in no one's way.
    assert exists(file)
    assert await asyncio.to_thread(find_running, file) is None


ADDRESSES: dict[str, tuple[Callable[[int], Address], str | None]] = {
    "the same": (lambda _: CONF, None),
    "the bound port": (lambda bound: Address("127.0.0.1", bound), None),
    "another port": (
        lambda _: Address("127.0.0.1", 1),
        r"\[admin\] port is 1 here and 0 in the running gateway",
    ),
    "another host": (lambda _: Address("::1", 0), r"\[admin\] host is ::1 here and 127.0.0.1 in the running"),
}


@pytest.mark.parametrize(("wanted", "reason"), ADDRESSES.values(), ids=ADDRESSES)
async def test_another_address_is_refused(
    file: Path, ports: dict[str, Port], wanted: Callable[[int], Address], reason: str | None
) -> None:
    async with offered(file, ports):
        running = await find_offer(file)
        admin = wanted(ports["admin"].number)
        if reason is None:
            got = await asyncio.to_thread(running.request_ports, {"listen": CONF, "admin": admin})
            for port in got.values():
                port.close()
        else:
            with pytest.raises(TakeoverFailed, match=reason):
                await asyncio.to_thread(running.request_ports, {"listen": CONF, "admin": admin})
        running.close()


async def test_the_file_is_for_its_owner_only_and_its_path_may_be_long(
    tmp_path: Path, ports: dict[str, Port]
) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    file = socket_file(folder / "tollgate.db", tmp_path / "proxy.conf")
    async with offered(file, ports):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        (await find_offer(file)).close()


async def test_only_a_successor_replaces_an_offer(file: Path, ports: dict[str, Port]) -> None:
    async with offered(file, ports):
        first = _inode(file)
        async with offered(file, ports):
            assert _inode(file) == first
        assert _inode(file) == first
        async with offered(file, ports, replaces=True):
            assert _inode(file) != first


async def test_a_process_outside_the_service_is_told_to_reload_it(
    file: Path, ports: dict[str, Port], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = iter(["0::/system.slice/tollgate.service", "0::/user.slice"])
    monkeypatch.setattr(takeover_offer, "_control_group", lambda _: next(groups))
    async with offered(file, ports, "/run/notify"):
        running = await find_offer(file)
        with pytest.raises(TakeoverFailed, match=r"let the service manager reload it \(systemctl reload\)"):
            await take_ports(running)
        running.close()
