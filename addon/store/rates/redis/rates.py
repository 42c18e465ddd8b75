"""The rates of a fleet in Redis: tokens of requests and circuits. All of it may be lost.

If Redis forgets everything, each workspace has one more minute's RPM, circuits are closed, and the next check names the
ledger and the fleet again. Every key expires by itself.
"""

from pydantic import SecretStr

from addon.store.protocol import StoreUnavailable
from addon.store.rates.circuits import CircuitTable
from addon.store.rates.redis.circuits import RedisCircuits
from addon.store.rates.redis.client import ScriptClient
from addon.store.rates.redis.keys import IDENTITY, takes_of
from addon.store.rates.redis.scripts import CLAIM, TAKE_TOKEN, bucket_arguments

IDENTITY_S = 86_400
"""How long the identity is kept after the last check of any gateway."""


class OtherLedger(StoreUnavailable):
    """These are the rates of another ledger. A gateway does not start with them."""


class RedisRates:
    """The rates at ``url``, of the fleet whose ledger is ``ledger_id``. Its methods raise ``StoreUnavailable``.

    Raise ``StoreUnavailable`` for a wrong URL. The first call connects to Redis.
    """

    def __init__(self, url: SecretStr, ledger_id: str, fleet: str) -> None:
        self._client = ScriptClient(url)
        self._identity = (ledger_id, fleet, IDENTITY_S)
        self.empty_buckets: set[str] = set()
        """The workspaces whose bucket had no token at the last take of this process."""
        self.circuits: CircuitTable = RedisCircuits(self._client)

    async def check(self) -> None:
        """Prove that Redis can be written and that these are the rates of this ledger, or ``OtherLedger``.

        Called once a second, it also keeps what names them, and finds a primary that was replaced unnoticed.
        """
        self._client.look_around()
        other = await self._client.run(CLAIM, [IDENTITY], *self._identity)
        if other != "ours":
            raise OtherLedger(
                f"{self._client.place} has the rates of another ledger, of the fleet {other[0]!r};"
                " gateways on several machines need one ledger: give each the same [ledger] url"
            )

    async def take_token(self, workspace: str, limit_rpm: int) -> int:
        """Take one token from the workspace's bucket and return 0, or return in how many µs a token is back.

        A token is back 60 s after it was taken, by Redis's clock. It may be lost when Redis does not answer.
        """
        outcome, *wait_us = await self._client.run(
            TAKE_TOKEN, (takes_of(workspace),), *bucket_arguments(limit_rpm)
        )
        if outcome == "taken":
            self.empty_buckets.discard(workspace)
            return 0
        self.empty_buckets.add(workspace)
        return int(*wait_us)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
