"""The discrepancies that the verification of a ledger in PostgreSQL finds, before and after sums are merged."""

from pathlib import Path

import psycopg
from pydantic import SecretStr
from rig.stores import StoreLocation, request, settlement

from addon.store.money.postgres.ledger import PostgresLedger
from addon.store.money.postgres.merging import merge
from addon.store.money.postgres.money import PostgresMoney
from addon.store.money.postgres.transactions import Transactions
from addon.store.money.verify.verify import verify

DAMAGES = {
    "UPDATE spend_parts SET spent_nanousd = 1 WHERE period = 'ever' AND scope = 'key:acme/ci'": "1 nano-USD are",
    "UPDATE spend_parts SET requests = 9 WHERE period = '2026-11'": "9 calls are counted, 1 are recorded",
    "DELETE FROM spend_parts WHERE scope = 'wallet:acme'": "counter wallet:acme of ever: 0 nano-USD are counted",
    "UPDATE usage SET retail_nanousd = 7": "the wallet of acme paid 1560 nano-USD, acme: 7",
    "DELETE FROM usage": "charge a: the wallet of acme paid 1560 nano-USD, no such call is recorded",
    "UPDATE {table} SET calls = 2": "rollups of 2026-11-21T09: the sums differ from the calls",
    "UPDATE {table} SET duration_buckets = 7": "rollups of 2026-11-21T09: the sums differ from the calls",
    "UPDATE holds SET id = 'a'": "hold a: the call is recorded, but money is still held for it",
}


async def test_verification_finds_every_discrepancy(postgres_ledger_url: str, tmp_path: Path) -> None:
    location = StoreLocation(tmp_path / "rates.db", postgres=postgres_ledger_url)
    money, merging = (
        PostgresMoney(SecretStr(postgres_ledger_url)),
        Transactions(SecretStr(postgres_ledger_url)),
    )
    await money.check()
    await money.settle(settlement("a"))
    await money.hold(request("b"))
    for table in ("rollup_parts", "rollups_merged"):
        assert await location.discrepancies() == []
        for damage, found in DAMAGES.items():
            with psycopg.connect(postgres_ledger_url, cursor_factory=psycopg.ClientCursor) as ledger:
                ledger.execute(damage.format(table=table))  # type: ignore[arg-type]
                lines = verify(PostgresLedger(ledger))
                assert any(found in line for line in lines), (damage, lines)
                ledger.rollback()
        assert not await merge(merging, "2026-11-22")
    assert await location.discrepancies() == []
    await merging.close()
    await money.close()
