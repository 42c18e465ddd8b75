"""A primary with its replica and three Sentinels, and a cluster of six nodes, with users and passwords, on loopback.

All times are short, and every node begins with the knowledge that it would gather otherwise: both start in 2 s or less.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import batched
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from redis.crc import key_slot

from rig.bounds import BOUND_S
from rig.redis_server import RedisServer
from rig.server_process import HOST, free_ports

SERVICE = "tolls"
PASSWORD = "obviously-fake-gateway"
_ADMIN = ("admin", "obviously-fake-admin")
GATEWAY_RIGHTS = (
    "~tollgate:* ~{tollgate}:* -@all +eval +evalsha +asking +select +cluster|slots"
    " +time +expire +pexpire +get +set +del +@list +@hash +@sortedset"
)
"""All that the gateway's user needs for the rates."""
_USERS = (
    "user default off",
    f"user {_ADMIN[0]} on >{_ADMIN[1]} ~* &* +@all",
)
_DATA = (
    *_USERS,
    f"user gateway on >{PASSWORD} {GATEWAY_RIGHTS}",
    f"masteruser {_ADMIN[0]}",
    f"masterauth {_ADMIN[1]}",
    "repl-diskless-sync-delay 0",
)
_SLOTS = 16_384
_INFO_PERIOD_MS = 1_000


class _Fleet:
    """Servers that start together, and end with the block."""

    def __init__(self) -> None:
        self.servers: list[RedisServer] = []
        self._running = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._running.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._running.close()

    def _start(self) -> None:
        raise NotImplementedError

    def _add(self, servers: Sequence[RedisServer]) -> None:
        self.servers += servers
        for server in servers:
            self._running.push(server.__exit__)
            server.begin()
        for server in servers:
            server.wait_until_it_answers()

    def primary_of(self, key: str) -> RedisServer:
        """Return the primary that has ``key``."""
        raise NotImplementedError

    def replacement_of(self, primary: RedisServer, key: str) -> RedisServer:
        """Wait until another server is the primary of ``key``, and return it."""
        found: list[RedisServer] = []

        def look() -> bool:
            found[:] = [self.primary_of(key)]
            return found[0] is not primary

        wait_until(look)
        return found[0]

    def server_at(self, port: int) -> RedisServer:
        return next(server for server in self.servers if server.port == port)


class SentinelFleet(_Fleet):
    """A primary with a replica, ``data``, and three Sentinels."""

    def __init__(self, program: Path) -> None:
        super().__init__()
        first, second, *ports = free_ports(5)
        made = _server(program, first, _DATA)
        self.data = [made, _server(program, second, (*_DATA, f"replicaof {HOST} {first}"))]
        self.sentinels = [
            RedisServer(
                program,
                user=_ADMIN[0],
                password=_ADMIN[1],
                port=port,
                more=tuple(_sentinel_lines(port, ports, first, second)),
                is_sentinel=True,
            )
            for port in ports
        ]
        addresses = ",".join(f"{HOST}:{port}" for port in ports)
        options = f"sentinel_username=watch&sentinel_password={PASSWORD}"
        self.url = f"redis+sentinel://gateway:{PASSWORD}@{addresses}/{SERVICE}?{options}"

    def primary_of(self, key: str) -> RedisServer:
        """Return the primary that the Sentinel with the last failover names."""
        said = []
        for sentinel in self.sentinels:
            if sentinel.is_running:
                facts = sentinel.command("SENTINEL", "MASTER", SERVICE)
                _, port = sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
                said.append((int(facts["config-epoch"]), int(port)))
        return self.server_at(max(said)[1])

    def fail_over(self, key: str) -> None:
        """Order a failover while the primary works, once the Sentinel has fresh word of the replica."""
        wait_until(self._can_order)

    def _can_order(self) -> bool:
        try:
            self.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE)
        except redis.ResponseError as error:
            if str(error).startswith("NOGOODSLAVE"):
                return False
            raise
        return True

    def is_whole(self) -> bool:
        """Return whether there are a primary and its replica, and all Sentinels know it."""
        roles = [server.command("INFO", "replication") for server in self.data]
        linked = [one for one in roles if one.get("master_link_status") == "up"]
        known = [sentinel.command("SENTINEL", "MASTER", SERVICE) for sentinel in self.sentinels]
        return (
            len(linked) == 1
            and len({one["port"] for one in known}) == 1
            and all(one["flags"] == "master" and int(one["num-slaves"]) == 1 for one in known)
        )

    def _start(self) -> None:
        self._add(self.data)
        wait_until(lambda: self.data[1].command("INFO", "replication")["master_link_status"] == "up")
        self._add(self.sentinels)
        for sentinel in self.sentinels:  # Otherwise an old primary is demoted 10 s later.
            sentinel.command("SENTINEL", "DEBUG", "INFO-PERIOD", _INFO_PERIOD_MS)


class ClusterFleet(_Fleet):
    """Three primaries, and a replica of each behind them. ``servers`` has the primaries first."""

    def __init__(self, program: Path, *, node_timeout_ms: int = 400) -> None:
        super().__init__()
        self._nodes = [
            (_id(str(number)), port, bus) for number, (port, bus) in enumerate(batched(free_ports(12), 2))
        ]
        lines = (
            *_DATA,
            "cluster-enabled yes",
            f"cluster-node-timeout {node_timeout_ms}",
            "cluster-require-full-coverage no",
            "cluster-replica-validity-factor 0",
            "cluster-config-file nodes.conf",
        )
        self._made = [
            _server(
                program,
                port,
                (*lines, f"cluster-port {bus}"),
                {"nodes.conf": "\n".join(self._lines_of(node))},
            )
            for node, (_, port, bus) in enumerate(self._nodes)
        ]
        addresses = ",".join(f"{HOST}:{port}" for _, port, _ in self._nodes)
        self.url = f"redis+cluster://gateway:{PASSWORD}@{addresses}"

    def fail_over(self, key: str) -> None:
        """Order a failover while the primary works."""
        name = self.id_of(self.primary_of(key))
        replica = next(one for one in self.servers if one.is_running and self._primary_id(one) == name)
        replica.command("CLUSTER", "FAILOVER")

    def is_whole(self) -> bool:
        """Return whether each primary has a replica that follows it."""
        roles = [server.command("ROLE") for server in self.servers]
        following = [one for one in roles if one[0] == "slave" and one[3] == "connected"]
        return len(following) == 3 and all(map(self._is_ok, self.servers))

    def move_slot(self, key: str, pause_s: float = 0.0) -> None:
        """Move the slot of ``key`` to another primary, with pauses in which it is on its way."""
        slot, source = key_slot(key.encode()), self.primary_of(key)
        target = next(one for one in self._primaries() if one is not source)
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        time.sleep(pause_s)
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            move = ("MIGRATE", HOST, target.port, "", 0, 5_000, "AUTH2", *_ADMIN, "KEYS", *keys)
            source.command(*move)
        time.sleep(pause_s)
        for server in (target, source):
            server.command("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def _primaries(self) -> list[RedisServer]:
        return [server for server in self.servers if server.command("ROLE")[0] == "master"]

    @staticmethod
    def _primary_id(server: RedisServer) -> str:
        """Return the id of the primary that a replica has, "-" for a primary."""
        nodes = server.command("CLUSTER", "NODES", raw=True).splitlines()
        return str(next(line.split()[3] for line in nodes if "myself" in line))

    def id_of(self, server: RedisServer) -> str:
        return str(server.command("CLUSTER", "MYID"))

    def primary_of(self, key: str) -> RedisServer:
        """Return the primary that most nodes say has ``key``."""
        slot = key_slot(key.encode())
        said: list[int] = []
        for server in self.servers:
            if server.is_running:
                for first, last, (_, port, *_), *_ in server.command("CLUSTER", "SLOTS", raw=True):
                    if first <= slot <= last:
                        said.append(port)
        return self.server_at(max(set(said), key=said.count))

    def _start(self) -> None:
        self._add(self._made)
        wait_until(lambda: all(self._is_ok(server) for server in self.servers))

    @staticmethod
    def _is_ok(server: RedisServer) -> bool:
        return "cluster_state:ok" in server.command("CLUSTER", "INFO", raw=True)

    def _lines_of(self, me: int) -> Iterator[str]:
        for number, (name, port, bus) in enumerate(self._nodes):
            primary = number % 3
            flags = ("myself," if number == me else "") + ("master" if number == primary else "slave")
            of = "-" if number == primary else self._nodes[primary][0]
            slots = f" {primary * _SLOTS // 3}-{(primary + 1) * _SLOTS // 3 - 1}" if number == primary else ""
            yield f"{name} {HOST}:{port}@{bus} {flags} {of} 0 0 {primary + 1} connected{slots}"
        yield "vars currentEpoch 3 lastVoteEpoch 0"


def wait_until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not _holds(holds):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def _holds(holds: Callable[[], Any]) -> bool:
    """Return whether it holds. A server closes its connections when it becomes a replica."""
    try:
        return bool(holds())
    except redis.ConnectionError:
        return False


def _server(
    program: Path, port: int, lines: Sequence[str], files: dict[str, str] | None = None
) -> RedisServer:
    return RedisServer(program, user=_ADMIN[0], password=_ADMIN[1], port=port, more=lines, files=files)


def _sentinel_lines(port: int, ports: Sequence[int], primary: int, replica: int) -> Iterator[str]:
    yield from _USERS
    yield f"user watch on >{PASSWORD} -@all +sentinel|get-master-addr-by-name +sentinel|master"
    yield f"sentinel myid {_id(str(port))}"
    yield f"sentinel monitor {SERVICE} {HOST} {primary} 2"
    yield f"sentinel auth-user {SERVICE} {_ADMIN[0]}"
    yield f"sentinel auth-pass {SERVICE} {_ADMIN[1]}"
    yield f"sentinel down-after-milliseconds {SERVICE} 300"
    yield f"sentinel failover-timeout {SERVICE} 2000"
    yield f"sentinel sentinel-user {_ADMIN[0]}"
    yield f"sentinel sentinel-pass {_ADMIN[1]}"
    yield f"sentinel known-replica {SERVICE} {HOST} {replica}"
    for other in ports:
        if other != port:
            yield f"sentinel known-sentinel {SERVICE} {HOST} {other} {_id(str(other))}"


def _id(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()
