"""A takeover on real sockets: everything that a peer can do wrong."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rig.bounds import BOUND_S
from rig.takeovers import connect_to, encode_step, find_offer, offered, take_ports

from addon.serve import takeover_offer, takeover_protocol
from addon.serve.listening_sockets import Port
from addon.serve.running_gateway import TakeoverFailed


@pytest.mark.parametrize("step", ["found", "sockets", "stopped"])
async def test_a_new_process_that_ends_changes_nothing(file: Path, ports: dict[str, Port], step: str) -> None:
    async with offered(file, ports) as (offer, accepting):
        running = await find_offer(file)
        if step != "found":
            for port in (await take_ports(running)).values():
                port.close()
        if step == "stopped":
            await running.stop_accepting()
        running.close()
        again = await find_offer(file)
        for port in (await take_ports(again)).values():
            port.close()
        assert not offer.taken.is_set()
        assert accepting.changes == (["paused", "resumed"] if step == "stopped" else [])
        await again.stop_accepting()
        await again.end()
        await offer.taken.wait()


HOSTILE = {
    "no JSON": b"\xff\xfe",
    "no object": b"[]",
    "another step": encode_step("serving"),
    "deep nesting": b"[" * 10_000,
    "more than one message may have": b"x" * 20_000,
}


@pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("is_late", [False, True])
async def test_a_peer_that_breaks_the_protocol_gets_nothing_and_blocks_no_one(
    file: Path, ports: dict[str, Port], message: bytes, is_late: bool
) -> None:
    async with offered(file, ports) as (offer, accepting):
        with connect_to(file) as peer:
            if is_late:
                peer.send(encode_step("sockets?"))
                _, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, peer, 65_536, 253)
                for one in descriptors:
                    os.close(one)
            peer.send(message)
            assert await asyncio.to_thread(peer.recv, 65_536) == b""
        assert not offer.taken.is_set()
        assert accepting.changes == []
        (await find_offer(file)).close()


async def test_a_peer_that_hangs_is_left_behind(
    file: Path, ports: dict[str, Port], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover_offer, "ANSWER_S", 0.2)
    async with offered(file, ports) as (offer, accepting):
        with connect_to(file) as silent:
            assert await asyncio.to_thread(silent.recv, 1) == b""
        with connect_to(file) as silent:
            silent.send(encode_step("sockets?"))
            _, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, silent, 65_536, 253)
            silent.send(encode_step("ready"))
            assert json.loads(await asyncio.to_thread(silent.recv, 65_536)) == {"step": "stopped"}
            assert await asyncio.to_thread(silent.recv, 1) == b""
        assert accepting.changes == ["paused", "resumed"]
        assert not offer.taken.is_set()
        for one in descriptors:
            os.close(one)


async def test_a_running_process_that_goes_on_fails_the_new_one(file: Path, ports: dict[str, Port]) -> None:
    async with offered(file, ports) as (offer, _):
        running = await find_offer(file)
        for port in (await take_ports(running)).values():
            port.close()
        await running.stop_accepting()
        await offer.close()
        with pytest.raises(TakeoverFailed, match="the running gateway goes on: "):
            await running.end()


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
