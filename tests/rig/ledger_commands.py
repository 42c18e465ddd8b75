"""Runs of ``tollgate ledger``, and the credit and calls of a ledger that they read."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from addon.commands.ledger import ledger
from addon.settings.settings import load_conf
from addon.store.backends import open_store
from addon.store.protocol import HoldRequest, Settlement, Store, WalletEntry
from policies.spend import MaxCost
from rig.ledger import make_row
from rig.money import USD

type Work = Callable[[Store], Any]

INVOICE = WalletEntry("acme/invoice", datetime(2026, 1, 1, tzinfo=UTC), "acme", 5 * USD, "invoice")


def conf_in(folder: Path, redis_url: str | None = None) -> Path:
    """Write a proxy.conf with its own ledger."""
    folder.mkdir(exist_ok=True)
    conf = folder / "proxy.conf"
    state = f'[state]\nbackend = "redis"\nredis_url = "{redis_url}"\n' if redis_url else ""
    conf.write_text(f'[paths]\ndatabase = "var/tollgate.db"\n{state}')
    return conf


def path_of(conf: Path) -> Path:
    return conf.parent / "var" / "tollgate.db"


def run(conf: Path, *arguments: str) -> Result:
    return CliRunner().invoke(ledger, [*arguments, "--conf", str(conf)])


def use(conf: Path, work: Work) -> None:
    """Run ``work`` on the store, as a gateway would."""

    async def do() -> None:
        store = open_store(load_conf(conf))
        try:
            await store.check()
            await work(store)
        finally:
            await store.close()

    asyncio.run(do())


LONG_AGO = datetime(2026, 1, 31, 12, tzinfo=UTC)


def row_of(call_id: str, created_at: datetime, **changes: Any) -> dict[str, Any]:
    return make_row(call_id, created_at=created_at.isoformat(timespec="milliseconds"), **changes)


def request(call_id: str, created_at: datetime) -> HoldRequest:
    nothing = {"retail_nanousd": 0, "wholesale_nanousd": 0, "usage_source": "none"}
    row = row_of(call_id, created_at, error_code="interrupted", **nothing)
    return HoldRequest(call_id, created_at, "acme", "ci", MaxCost(1000, 0, 1, is_protected=True), (), row)


async def live(store: Store, created_at: datetime = LONG_AGO) -> None:
    """Write a credit, two ended calls, one of them paid by the wallet, and one call in flight."""
    await store.credit(INVOICE)
    for call_id, from_wallet in (("call-1", True), ("call-2", False)):
        await store.hold(request(call_id, created_at))
        await store.settle(Settlement(row_of(call_id, created_at), from_wallet))
    await store.hold(request("call-3", created_at))


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return conf_in(tmp_path / "one")
