"""The circuits in Redis, shared by gateways on any number of machines, by its clock: one hash, one field a circuit.

A change reads a circuit, applies the rule, and writes it unless another process has changed it in the meantime. Only
failures cost these round trips: a provider that works writes nothing.
"""

import re

from addon.store.circuits import CircuitSnapshot
from addon.store.protocol import StoreUnavailable
from addon.store.redis.client import RedisClient, parse_time_us
from addon.store.redis.keys import CIRCUITS
from addon.store.redis.scripts import SWAP_CIRCUIT
from policies.circuit_breaker import CLOSED, Change, Circuit

KEPT_S = 86_400
"""How long the circuits are kept after their last change."""

_TRIES = 8
_WRITTEN = re.compile(r"(\d+):(\d+):(\d+)")


class RedisCircuits:
    """A ``CircuitTable`` in Redis."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def read(self) -> CircuitSnapshot:
        """See ``CircuitTable.read``."""
        async with self._client.timeout():
            time, fields = await self._client.transaction([("TIME",), ("HGETALL", CIRCUITS)])
        return CircuitSnapshot({name: _parse(text) for name, text in fields.items()}, parse_time_us(time))

    async def change(self, name: str, change: Change) -> tuple[Circuit, Circuit]:
        """See ``CircuitTable.change``."""
        async with self._client.timeout():
            for _ in range(_TRIES):
                time, text = await self._client.transaction([("TIME",), ("HGET", CIRCUITS, name)])
                before = _parse(text)
                after = change(before, parse_time_us(time))
                swap = (name, text or "", _text(after), KEPT_S)
                if before == after or await self._client.run(SWAP_CIRCUIT, [CIRCUITS], *swap) == "done":
                    return before, after
        raise StoreUnavailable("too many processes change a circuit at once")


def _parse(text: str | None) -> Circuit:
    """Return the circuit that ``_text`` wrote. The format of another version counts as closed."""
    written = _WRITTEN.fullmatch(text or "")
    return Circuit(*map(int, written.groups())) if written else CLOSED


def _text(circuit: Circuit) -> str:
    return "" if circuit == CLOSED else f"{circuit.failures}:{circuit.began_us}:{circuit.retry_us}"
