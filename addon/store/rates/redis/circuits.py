"""The circuits in Redis, shared by gateways on any number of machines, by its clock: one hash, one field a circuit.

A change reads a circuit, applies the rule, and writes it unless another process has changed it in the meantime. Only
failures cost these round trips: a provider that works writes nothing.
"""

import re
from collections.abc import Sequence
from itertools import batched

from addon.store.protocol import StoreUnavailable
from addon.store.rates.circuits import CircuitSnapshot
from addon.store.rates.redis.client import ScriptClient
from addon.store.rates.redis.keys import CIRCUITS
from addon.store.rates.redis.scripts import READ_CIRCUITS, SWAP_CIRCUIT
from policies.circuit_breaker import CLOSED, Change, Circuit

KEPT_S = 86_400
"""How long the circuits are kept after their last change."""

_TRIES = 8
_WRITTEN = re.compile(r"(\d+):(\d+):(\d+)")


class RedisCircuits:
    """A ``CircuitTable`` in Redis."""

    def __init__(self, client: ScriptClient) -> None:
        self._client = client

    async def read(self) -> CircuitSnapshot:
        time, fields = await self._client.run(READ_CIRCUITS, [CIRCUITS])
        return CircuitSnapshot({name: _parse(text) for name, text in batched(fields, 2)}, parse_time_us(time))

    async def change(self, name: str, change: Change) -> tuple[Circuit, Circuit]:
        async with self._client.timeout():
            for _ in range(_TRIES):
                time, text = await self._client.run(READ_CIRCUITS, [CIRCUITS], name)
                before = _parse(text)
                after = change(before, parse_time_us(time))
                swap = (name, text or "", _text(after), KEPT_S)
                if before == after or await self._client.run(SWAP_CIRCUIT, [CIRCUITS], *swap) == "done":
                    return before, after
        raise StoreUnavailable("too many processes change a circuit at once")


def parse_time_us(time: Sequence[str]) -> int:
    """Return the answer of ``TIME`` in µs."""
    seconds, micros = map(int, time)
    return seconds * 1_000_000 + micros


def _parse(text: str | None) -> Circuit:
    """Return the circuit that ``_text`` wrote. The format of another version counts as closed."""
    written = _WRITTEN.fullmatch(text or "")
    return Circuit(*map(int, written.groups())) if written else CLOSED


def _text(circuit: Circuit) -> str:
    return "" if circuit == CLOSED else f"{circuit.failures}:{circuit.began_us}:{circuit.retry_us}"
