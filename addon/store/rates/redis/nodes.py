"""The nodes of Redis: which has a slot, and one pipeline for each.

| kind | how the nodes are found |
|---|---|
| alone | the URL names the only one |
| Sentinel | the Sentinels name the primary, which has all slots |
| cluster | the nodes name the primary of each slot |

All Sentinels or nodes are asked at once. What most nodes say counts, or the Sentinel that knows the last failover: one
that is frozen or cut off delays little and misleads nobody. The addresses of the URL are asked every time, so the nodes
are found again after all have moved.
"""

import asyncio
import logging
import random
import time
from bisect import bisect_right
from collections import Counter
from functools import lru_cache
from itertools import batched
from typing import Any

from pydantic import SecretStr
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import RedisError

from addon.runtime.deadline import within
from addon.settings.redis_topology import Address, RedisTopology
from addon.store.protocol import TIMEOUT_S
from addon.store.rates.redis.pipeline import Pipeline

log = logging.getLogger("tollgate.store")

LOOK_S = 0.3
"""How long a look at the nodes waits for those that do not answer."""
LOOK_EVERY_S = 0.2
"""The shortest time from one look to the next, for each process."""
LOOK_AGAIN_S = 5.0
"""How old a look may be while nothing fails: Sentinels tell a primary that it was replaced some 10 s later."""
MOST_ASKED = 9

_SLOTS = 16_384

type View = tuple[tuple[int, int, Address], ...]
"""The first slot, the last slot and the primary of each range, sorted."""


class Nodes:
    """The nodes of ``topology``. No method waits longer than two looks at the nodes take.

    Raise ValueError for a URL that redis-py does not understand.
    """

    def __init__(self, topology: RedisTopology) -> None:
        self._topology = topology
        self.is_alone, self._is_cluster = topology.kind == "alone", topology.kind == "cluster"
        self._pipelines: dict[Address, Pipeline] = {}
        self._view: View = ()
        self._starts: list[int] = []
        self._moved: dict[int, Address] = {}
        """What nodes have said of single slots since the last look."""
        self._looking: asyncio.Task[None] | None = None
        self._looked_s = float("-inf")
        self.fault = "its nodes were not found yet"
        """Why the last look found nothing."""
        if self.is_alone:
            self._adopt(((0, _SLOTS - 1, topology.addresses[0]),))
            self.pipeline(topology.addresses[0])

    def find(self, slot: int) -> Address | None:
        """Return the primary that has ``slot``, as far as it is known."""
        if slot in self._moved:
            return self._moved[slot]
        at = bisect_right(self._starts, slot) - 1
        if at < 0 or slot > self._view[at][1]:
            return None
        return self._view[at][2]

    def pipeline(self, address: Address) -> Pipeline:
        """Return the pipeline of a node."""
        found = self._pipelines.get(address)
        if found is None:
            found = self._pipelines[address] = _open(self._topology.node_url(address))
        return found

    def move(self, slot: int, address: Address) -> None:
        """Note that ``slot`` is elsewhere, and look at the nodes soon."""
        self._moved[slot] = address
        self.look_soon()

    def look_around(self) -> None:
        """Ask the Sentinels in the background, if that is some time ago. The nodes of a cluster tell by themselves."""
        is_old = time.monotonic() - self._looked_s >= LOOK_AGAIN_S
        if is_old and not self._is_cluster:
            self.look_soon()

    def look_soon(self) -> None:
        """Look at the nodes in the background."""
        if self._looking is None and not self.is_alone:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def look(self) -> None:
        """Look at the nodes. Callers at the same time share one look."""
        self.look_soon()
        if self._looking is not None:
            await asyncio.wait([self._looking])

    async def close(self) -> None:
        """Close all connections."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for address in list(self._pipelines):
            await self._pipelines.pop(address).close()

    async def _look(self) -> None:
        try:
            await asyncio.sleep(self._looked_s + LOOK_EVERY_S - time.monotonic())
            view = await self._ask_most()
            if view and view != self._view:
                self._adopt(view)
            if view:
                self._moved.clear()
                await self._close_unused()
        finally:
            self._looking, self._looked_s = None, time.monotonic()

    def _adopt(self, view: View) -> None:
        if self._view:
            log.info("the nodes of Redis have changed")
        self._view = view
        self._starts = [first for first, _, _ in view]

    async def _close_unused(self) -> None:
        """Close the pipelines of what is no primary. What waits there is asked again elsewhere."""
        primaries = {address for _, _, address in self._view}
        for address in self._pipelines.keys() - primaries:
            await self._pipelines.pop(address).close()

    async def _ask_most(self) -> View | None:
        """Return what most nodes say, of those that answer in time, or the Sentinel that knows the last failover."""
        asking = [asyncio.create_task(self._ask(address)) for address in self._whom()]
        found: Counter[tuple[int, View]] = Counter()
        try:
            async with within(LOOK_S):
                for answer in asyncio.as_completed(asking):
                    if said := await answer:
                        found[said] += 1
                    if self._is_cluster and 2 * max(found.values(), default=0) > len(asking):
                        break
        except TimeoutError:
            self.fault = self.fault if found else "no answer"
        finally:
            for one in asking:
                one.cancel()
            await asyncio.wait(asking)
        (_, view), _ = max(found.items(), key=lambda one: (one[0][0], one[1]), default=((0, None), 0))
        return view

    def _whom(self) -> list[Address]:
        """Return whom to ask: all that the URL names, and some of the nodes that were found."""
        seeds = list(self._topology.addresses)
        known = {address for _, _, address in self._view}.difference(seeds) if self._is_cluster else ()
        most = max(MOST_ASKED - len(seeds), 1)
        return seeds + random.sample(sorted(known), min(len(known), most))

    async def _ask(self, address: Address) -> tuple[int, View] | None:
        """Return what one Sentinel or node says and the number of its last failover, None when it says nothing."""
        try:
            if self._is_cluster:
                slots = await self.pipeline(address).run("CLUSTER", "SLOTS")
                view, epoch = read_slots(slots, address), 0
            else:
                view, epoch = await self._ask_sentinel(address)
        except (RedisError, OSError) as error:
            self.fault = reason_of(error)
        except (ValueError, TypeError, IndexError, KeyError):
            self.fault = "an answer makes no sense"
        else:
            if view:
                return epoch, view
            self.fault = "no node has slots" if self._is_cluster else "no Sentinel knows the service"
        return None

    async def _ask_sentinel(self, address: Address) -> tuple[View, int]:
        """Ask in one write. The address is that of a new primary some time before the rest is."""
        pipeline, service = _open(self._topology.sentinel_url(address)), self._topology.service
        asked = (("GET-MASTER-ADDR-BY-NAME", service), ("MASTER", service))
        try:
            answers: list[Any] = await asyncio.gather(
                *(pipeline.run("SENTINEL", *words) for words in asked), return_exceptions=True
            )
        finally:
            await pipeline.close()
        if answers[0] is None:
            return (), 0  # It does not know the service, so it has no facts.
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return read_primary(answers[0]), int(dict(batched(answers[1], 2))["config-epoch"])


@lru_cache(maxsize=4096)
def slot_of(key: str) -> int:
    """Return the slot that a key is in."""
    return key_slot(key.encode())


def read_primary(answer: list[str]) -> View:
    """Return what the answer of a Sentinel says."""
    return ((0, _SLOTS - 1, Address(answer[0], int(answer[1]))),)


def read_slots(answer: list[Any], asked: Address) -> View:
    """Return what the answer of a node says. A node that does not know its own host has the one that was asked."""
    return tuple(
        sorted(
            (int(first), int(last), locate(primary[0], primary[1], asked))
            for first, last, primary, *_ in answer
        )
    )


def locate(host: str | None, port: int | str, asked: Address) -> Address:
    """Return an address that a node has named: without a host, it is the one of the node that was asked."""
    return Address(asked.host if host in (None, "", "?") else host.strip("[]"), int(port))


def connection_options() -> dict[str, Any]:
    """Return the options of all connections. The pipeline has the only timers."""
    return {
        # Socket timers would blame Redis when the event loop was blocked.
        "socket_timeout": None,
        "socket_connect_timeout": None,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": True,
    }


def _open(url: SecretStr) -> Pipeline:
    return Pipeline(ConnectionPool.from_url(url.get_secret_value(), **connection_options()), TIMEOUT_S)


_SHOWN_CHARS = 120


def reason_of(error: Exception) -> str:
    """Return a short reason without the arguments of the command, which may contain a client's text."""
    reason = str(error).partition(", with args")[0].partition("\n")[0]
    return reason[:_SHOWN_CHARS] or type(error).__name__
