"""A whole gateway process on a simulated loop: its calls, its pool, its client connections, and a real SQLite store.

``WireServer`` accepts connections in place of mitmproxy. Everything else is the gateway's own code.
"""

import asyncio
import sqlite3
from collections import defaultdict
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from addon.calls.call import begin, fail, serve
from addon.calls.dependencies import Dependencies
from addon.calls.in_flight import InFlightCalls
from addon.calls.public_catalog import PublicCatalog
from addon.calls.request_body import BodyBudget
from addon.calls.request_id import make_request_ids
from addon.calls.responses import make_error_response
from addon.calls.unrelayed_answers import UnrelayedAnswers
from addon.settings.settings import Settings
from addon.store.measured import MeasuredStore
from addon.store.money.sqlite.store import SqliteStore
from addon.store.money.verify.verify import verify
from addon.store.protocol import MAINTENANCE_INTERVAL_S, StoreUnavailable, WalletEntry
from addon.telemetry.metrics import Metrics
from addon.text.errors import refusal_error
from addon.upstream.access_tokens import AccessTokens
from addon.upstream.connector import SocketConnector
from addon.upstream.place_speeds import PlaceSpeeds
from addon.upstream.platform_keys import PlatformKeys
from addon.upstream.pool import Pool
from addon.wire.connection import WireSettings
from addon.wire.stream import ClientLeft, Stream
from rig.conservation import assert_given_back, assert_pool_empty
from rig.simulation.processes import Process
from rig.simulation.run import World
from rig.simulation.wire_server import WireServer
from rig.stores import die


@dataclass(frozen=True, slots=True)
class LedgerContents:
    """The content of the database after a gateway ended: rows by rowid, balances of wallets, number of holds.

    ``attempts`` has the rows of that table by call, in the order of their numbers.
    """

    rows: list[dict[str, Any]]
    wallets_nanousd: dict[str, int]
    holds: int
    discrepancies: list[str]
    attempts: dict[str, list[dict[str, Any]]]


class SimulatedGateway:
    """One gateway process with the ledger ``database``. ``stop`` drains it."""

    def __init__(self, world: World, settings: Settings, database: Path) -> None:
        self._world, self._database = world, database
        self._process = Process(world.loop)
        self.metrics = Metrics("simulated")
        self.store = SqliteStore(database, world.clock)
        self._measured = MeasuredStore(self.store, self.metrics)
        self.pool = Pool(SocketConnector())
        self.deps = self._make_deps(settings)
        refused = WireSettings(
            lambda refusal: make_error_response(refusal_error(refusal), [], close=True), clock=world.clock
        )
        self._server = WireServer(world, self._serve, refused)

    def _make_deps(self, settings: Settings) -> Dependencies:
        bodies, clock = BodyBudget(), self._world.clock
        platform_keys, speeds = PlatformKeys(self.metrics, clock), PlaceSpeeds(clock)
        platform_keys.use_settings(settings)
        return Dependencies(
            settings=settings,
            catalog=PublicCatalog(settings.models),
            store=self._measured,
            pool=self.pool,
            platform_keys=platform_keys,
            speeds=speeds,
            access_tokens=AccessTokens(self.pool, clock=clock),
            in_flight=InFlightCalls(self._measured, platform_keys, speeds, self.metrics, bodies, clock),
            unrelayed=UnrelayedAnswers(),
            bodies=bodies,
            clock=clock,
            new_id=make_request_ids(self._world.token_hex),
        )

    @property
    def port(self) -> int:
        """The port for clients."""
        return self._server.port

    async def start(self) -> None:
        """Listen, as a separate process."""
        await self._process.run(self._start())

    async def kill(self) -> None:
        """End it like ``kill -9``."""
        self._process.kill()
        await die(self.store)

    async def _start(self) -> None:
        await self.store.maintain()
        self._maintenance = asyncio.create_task(self._maintain())
        await self._server.start()

    async def stop(self, drain_timeout_s: float | None = None) -> None:
        """End like a process that gets SIGTERM: drain, cut off, settle. Fail if anything is left."""
        in_flight = self.deps.in_flight
        self._server.close_when_idle()
        try:
            async with asyncio.timeout(drain_timeout_s):
                await in_flight.idle.wait()
                await self._server.wait_until_gone()
        except TimeoutError:
            in_flight.is_drain_over = True
            self.deps.unrelayed.close()
        self._server.cut_off()
        await self._server.wait_until_gone()
        await in_flight.close()
        self._maintenance.cancel()
        await asyncio.gather(self._maintenance, return_exceptions=True)
        await self.deps.access_tokens.close()
        assert_given_back(self.deps, self._server.connections, lambda: self._measured.held)
        await self.pool.close()
        assert_pool_empty(self.pool)
        await self.store.close()

    async def credit(self, workspace: str, amount_nanousd: int) -> None:
        """Put money into a wallet."""
        entry = WalletEntry(f"{workspace}/first", self._world.clock.now(), workspace, amount_nanousd, "first")
        assert await self.store.credit(entry)

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTENANCE_INTERVAL_S)
            with suppress(StoreUnavailable):
                await self.store.maintain()

    async def _serve(self, stream: Stream) -> None:
        call = begin(self.deps)
        try:
            try:
                await serve(call, stream, self.deps)
            except ClientLeft:
                raise
            except Exception as error:  # noqa: BLE001  (as the gateway does)
                self._world.loop.call_exception_handler(
                    {"message": f"call {call.exchange.id}", "exception": error}
                )
                await fail(call, stream, self.deps)
        except ClientLeft:
            pass


def read_ledger(database: Path) -> LedgerContents:
    """Return the content of the ledger after the gateway has ended."""
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM usage ORDER BY rowid")]
        wallets = connection.execute(
            "SELECT workspace, sum(amount_nanousd) FROM wallet_entries GROUP BY 1 ORDER BY 1"
        )
        balances = {workspace: balance for workspace, balance in wallets}  # noqa: C416  (they are rows)
        [(holds,)] = connection.execute("SELECT count(*) FROM holds")
        attempts: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in connection.execute("SELECT * FROM attempts ORDER BY call_id, number"):
            attempts[row["call_id"]].append(dict(row))
        connection.row_factory = None
        return LedgerContents(rows, balances, holds, verify(connection), dict(attempts))
