"""A takeover on real sockets: its steps, and everything that a peer can do wrong."""

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from rig.bounds import BOUND_S

from addon.serve import takeover_offer, takeover_protocol
from addon.serve.listening_sockets import Address, Port
from addon.serve.running_gateway import Running, TakeoverFailed, find_running
from addon.serve.takeover_offer import Offer
from addon.serve.takeover_protocol import socket_file

CONF = Address("127.0.0.1", 0)
WANTED = {"listen": CONF, "admin": CONF}


class Accepting:
    """Whether the running process accepts. ``changes`` has every change."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    async def pause(self) -> None:
        self.changes.append("paused")

    async def resume(self) -> None:
        self.changes.append("resumed")


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


@asynccontextmanager
async def offered(
    file: Path, ports: dict[str, Port], notify: str = "", *, replaces: bool = False
) -> AsyncIterator[tuple[Offer, Accepting]]:
    accepting = Accepting()
    offer = Offer(file, ports, accepting.pause, accepting.resume, notify)
    offer.start(replaces=replaces)
    try:
        async with asyncio.timeout(BOUND_S):
            yield offer, accepting
    finally:
        await offer.close()


async def _find(file: Path) -> Running:
    running = await asyncio.to_thread(find_running, file)
    assert running
    return running


async def _request(running: Running) -> dict[str, Port]:
    return await asyncio.to_thread(running.request_ports, WANTED)


def _connect(file: Path) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(BOUND_S)
    peer.connect(str(file))
    return peer


def _message(step: str) -> bytes:
    return json.dumps({"step": step}).encode()


async def test_all_sockets_go_to_the_new_process_and_the_old_one_ends(
    file: Path, ports: dict[str, Port]
) -> None:
    async with offered(file, ports, "/run/notify") as (offer, accepting):
        running = await _find(file)
        got = await _request(running)
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
    assert not _exists(file)


async def test_a_connection_that_waits_is_accepted_by_the_new_process(
    file: Path, ports: dict[str, Port]
) -> None:
    async with offered(file, ports):
        running = await _find(file)
        got = await _request(running)
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


@pytest.mark.parametrize("step", ["found", "sockets", "stopped"])
async def test_a_new_process_that_ends_changes_nothing(file: Path, ports: dict[str, Port], step: str) -> None:
    async with offered(file, ports) as (offer, accepting):
        running = await _find(file)
        if step != "found":
            for port in (await _request(running)).values():
                port.close()
        if step == "stopped":
            await running.stop_accepting()
        running.close()
        again = await _find(file)
        for port in (await _request(again)).values():
            port.close()
        assert not offer.taken.is_set()
        assert accepting.changes == (["paused", "resumed"] if step == "stopped" else [])
        await again.stop_accepting()
        await again.end()
        await offer.taken.wait()


HOSTILE = {
    "no JSON": b"\xff\xfe",
    "no object": b"[]",
    "another step": _message("serving"),
    "deep nesting": b"[" * 10_000,
    "more than one message may have": b"x" * 20_000,
}


@pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("is_late", [False, True])
async def test_a_peer_that_breaks_the_protocol_gets_nothing_and_blocks_no_one(
    file: Path, ports: dict[str, Port], message: bytes, is_late: bool
) -> None:
    async with offered(file, ports) as (offer, accepting):
        with _connect(file) as peer:
            if is_late:
                peer.send(_message("sockets?"))
                _, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, peer, 65_536, 253)
                for one in descriptors:
                    os.close(one)
            peer.send(message)
            assert await asyncio.to_thread(peer.recv, 65_536) == b""
        assert not offer.taken.is_set()
        assert accepting.changes == []
        (await _find(file)).close()


async def test_a_peer_that_hangs_is_left_behind(
    file: Path, ports: dict[str, Port], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover_offer, "ANSWER_S", 0.2)
    async with offered(file, ports) as (offer, accepting):
        with _connect(file) as silent:
            assert await asyncio.to_thread(silent.recv, 1) == b""
        with _connect(file) as silent:
            silent.send(_message("sockets?"))
            _, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, silent, 65_536, 253)
            silent.send(_message("ready"))
            assert json.loads(await asyncio.to_thread(silent.recv, 65_536)) == {"step": "stopped"}
            assert await asyncio.to_thread(silent.recv, 1) == b""
        assert accepting.changes == ["paused", "resumed"]
        assert not offer.taken.is_set()
        for one in descriptors:
            os.close(one)


async def test_a_running_process_that_goes_on_fails_the_new_one(file: Path, ports: dict[str, Port]) -> None:
    async with offered(file, ports) as (offer, _):
        running = await _find(file)
        for port in (await _request(running)).values():
            port.close()
        await running.stop_accepting()
        await offer.close()
        with pytest.raises(TakeoverFailed, match="the running gateway goes on: "):
            await running.end()


def _exists(file: Path) -> bool:
    return file.exists()


def _inode(file: Path) -> int:
    return file.stat().st_ino


def _start_other(*arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", DYING, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


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


@pytest.mark.parametrize("step", ["sockets", "stopped"])
async def test_the_sockets_live_on_when_the_running_process_is_killed(file: Path, step: str) -> None:
    with _start_other(str(file), step) as other:
        assert other.stdout
        other.stdout.readline()
        running = await _find(file)
        assert running.pid == other.pid
        got = await _request(running)
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
    assert _exists(file)
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
        running = await _find(file)
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
        (await _find(file)).close()


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
        running = await _find(file)
        with pytest.raises(TakeoverFailed, match=r"let the service manager reload it \(systemctl reload\)"):
            await _request(running)
        running.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_gets_nothing(file: Path, ports: dict[str, Port]) -> None:
    code = (
        "import os, socket, sys\n"
        "peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "if sys.argv[2] == 'after': peer.connect(sys.argv[1])\n"
        "os.setuid(65534)\n"
        "if sys.argv[2] == 'before': peer.connect(sys.argv[1])\n"
    )
    file.parent.chmod(0o755)
    async with offered(file, ports) as (offer, _):

        def connect() -> subprocess.CompletedProcess[Any]:
            command = [sys.executable, "-c", code, str(file), "before"]
            return subprocess.run(command, capture_output=True, timeout=BOUND_S, check=False)

        ended = await asyncio.to_thread(connect)
        assert b"PermissionError" in ended.stderr
        assert not offer.taken.is_set()


def test_the_peers_user_must_be_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        assert takeover_protocol.find_peer(one) == os.getpid()
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(takeover_protocol.Refused, match="belongs to another user"):
            takeover_protocol.find_peer(one)
