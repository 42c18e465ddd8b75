"""Runs of ``tollgate wallet``, and the entries that they leave in a ledger."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from addon.commands.wallet import wallet
from addon.store.money.sqlite.store import SqliteStore
from rig.money import select


def ledger_of(folder: Path) -> Path:
    return folder / "var" / "tollgate.db"


def run(folder: Path, *arguments: str) -> Result:
    command, *rest = arguments
    return CliRunner().invoke(wallet, [command, "--conf", str(folder / "proxy.conf"), *rest])


def run_json(folder: Path, *arguments: str) -> Any:
    result = run(folder, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def entries(folder: Path) -> list[dict[str, Any]]:
    return select(ledger_of(folder), "SELECT * FROM wallet_entries ORDER BY created_at, id")


def use(folder: Path, work: Callable[[SqliteStore], Any]) -> None:
    """Run ``work`` on the store, as a gateway would."""

    async def do() -> None:
        store = SqliteStore(ledger_of(folder))
        await work(store)
        await store.close()

    asyncio.run(do())
