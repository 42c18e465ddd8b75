"""The evidence of a call: its answer, its attempts, its row, its cost and its holds."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import WalletEntry
from policies.money import parse_usd_nanousd
from rig.gateway import Gateway
from rig.money import select

type Asked = tuple[str, list[tuple[str, int]]]
"""The provider of a request, and the keys in it: (role, number of the situation)."""


@dataclass(frozen=True)
class Evidence:
    """The evidence of one call. ``asked``: its requests in order. ``stale``: those on closed idle connections."""

    answer: httpx.Response
    asked: list[Asked]
    stale: list[Asked]
    row: dict[str, Any]
    """Empty if the call has no row."""
    spent: dict[tuple[str, str], tuple[int, int]]
    """(scope, period) → (nano-USD, calls)."""
    entries: list[int]
    """The costs that the calls of the workspace took from its wallet."""
    holds: list[dict[str, Any]]


class LedgerTables:
    """The tables of a gateway's ledger that record money, as they are now."""

    def __init__(self, gateway: Gateway) -> None:
        ledger = _ledger(gateway)
        self._rows = {row["id"]: row for row in select(ledger, "SELECT * FROM usage")}
        self._spend = select(ledger, "SELECT * FROM spend")
        self._entries = select(ledger, "SELECT * FROM wallet_entries WHERE amount_nanousd < 0")
        self._holds = select(ledger, "SELECT * FROM holds")

    def evidence(
        self, workspace: str, answer: httpx.Response, asked: list[Asked], stale: list[Asked]
    ) -> Evidence:
        """Return the evidence of the last call of a workspace."""
        scopes = {
            f"key:{workspace}/ci": "key",
            f"workspace:{workspace}": "workspace",
            f"wallet:{workspace}": "wallet",
        }
        return Evidence(
            answer=answer,
            asked=asked,
            stale=stale,
            row=self._rows.get(answer.headers["x-request-id"], {}),
            spent={
                (scopes[line["scope"]], line["period"]): (line["spent_nanousd"], line["requests"])
                for line in self._spend
                if line["scope"] in scopes
            },
            entries=[-entry["amount_nanousd"] for entry in self._entries if entry["workspace"] == workspace],
            holds=[hold for hold in self._holds if hold["workspace"] == workspace],
        )


def fill_wallets(gateway: Gateway, usd: Mapping[str, str]) -> None:
    """Credit the wallet of each workspace, as another process."""
    asyncio.run(_fill(_ledger(gateway), usd))


async def _fill(ledger: Path, usd: Mapping[str, str]) -> None:
    store = SqliteStore(ledger)
    try:
        for workspace, amount in usd.items():
            moment = datetime.now(UTC)
            entry = WalletEntry(workspace, moment, workspace, parse_usd_nanousd(amount), "test")
            assert await store.credit(entry), "this wallet was filled before"
    finally:
        await store.close()


def _ledger(gateway: Gateway) -> Path:
    return gateway.folder / "var" / "tollgate.db"
