"""Who is believed when Sentinels or nodes disagree, and what a node's answer means."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from pydantic import SecretStr
from rig.redis_speaker import all_slots_at, serving
from rig.server_process import HOST, free_ports

from addon.settings.redis_topology import Address, parse_redis_topology
from addon.store.rates.redis.nodes import Nodes, read_slots, slot_of

ASKED = Address("asked", 1)


@asynccontextmanager
async def looking(kind: str, ports: Sequence[int], path: str = "") -> AsyncIterator[Nodes]:
    """Look at the nodes once."""
    addresses = ",".join(f"{HOST}:{port}" for port in ports)
    nodes = Nodes(parse_redis_topology(SecretStr(f"redis+{kind}://{addresses}{path}")))
    try:
        await nodes.look()
        yield nodes
    finally:
        await nodes.close()


def bulk(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(one), one.encode()) for one in words)


async def test_the_sentinel_that_knows_the_last_failover_is_believed() -> None:
    old, new = free_ports(2)

    def sentinel(primary: int, epoch: int) -> dict[bytes, bytes]:
        facts = bulk("name", "tolls", "port", str(old), "config-epoch", str(epoch))
        return {b"GET-MASTER-ADDR-BY-NAME": bulk(HOST, str(primary)), b"MASTER": facts}

    async with AsyncExitStack() as stack:
        said = (sentinel(old, 8), sentinel(new, 12), sentinel(old, 8))
        ports = [await stack.enter_async_context(serving(one)) for one in said]
        nodes = await stack.enter_async_context(looking("sentinel", ports, "/tolls"))
        assert nodes.find(0) == nodes.find(16_383) == Address(HOST, new)


async def test_a_service_that_no_sentinel_knows_is_named() -> None:
    unknown = {b"GET-MASTER-ADDR-BY-NAME": b"*-1\r\n", b"MASTER": b"-ERR No such master with that name\r\n"}
    async with serving(unknown) as port, looking("sentinel", [port], "/tolls") as nodes:
        assert nodes.find(0) is None
        assert nodes.fault == "no Sentinel knows the service"


async def test_what_most_nodes_of_a_cluster_say_is_believed() -> None:
    old, new = free_ports(2)

    async with AsyncExitStack() as stack:
        ports = [
            await stack.enter_async_context(serving({b"SLOTS": all_slots_at(one)})) for one in (old, new, new)
        ]
        nodes = await stack.enter_async_context(looking("cluster", ports))
        assert nodes.find(5) == Address(HOST, new)


async def test_a_slot_without_a_node_is_nowhere() -> None:
    half = {b"SLOTS": b"*1\r\n*3\r\n:100\r\n:200\r\n*2\r\n$1\r\nh\r\n:7\r\n"}
    async with serving(half) as port, looking("cluster", [port]) as nodes:
        found = [nodes.find(slot) for slot in (99, 100, 200, 201)]
        assert found == [None, Address("h", 7), Address("h", 7), None]


@pytest.mark.parametrize("host", [None, "", "?"])
def test_a_node_that_does_not_know_its_host_is_the_one_that_was_asked(host: str | None) -> None:
    assert read_slots([[0, 16_383, [host, 7, "id"]]], ASKED) == ((0, 16_383, Address("asked", 7)),)


def test_the_replicas_of_a_slot_do_not_matter_and_ranges_are_sorted() -> None:
    said = [[5, 9, ["b", 2, "id", []], ["c", 3, "id", []]], [0, 4, ["a", "1", "id", []]]]
    assert read_slots(said, ASKED) == ((0, 4, Address("a", 1)), (5, 9, Address("b", 2)))


def test_the_keys_of_a_workspace_are_in_the_slot_of_its_hash_tag() -> None:
    assert slot_of("tollgate:{acme}:tokens") == slot_of("acme")
