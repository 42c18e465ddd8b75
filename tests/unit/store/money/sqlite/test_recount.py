"""A recount of the counters from the ledger's rows, and a file that keeps them again after Redis did."""

from pathlib import Path

from rig.ledger import second_connection
from rig.stores import USD, credit, settlement

from addon.store.money.sqlite.recount import CounterTotals, recount
from addon.store.money.sqlite.store import SqliteStore
from addon.store.money.verify.verify import verify
from policies.limits import Counter, wallet_counter


async def test_rows_and_entries_add_up_to_every_counter(store: SqliteStore, ledger_path: Path) -> None:
    await store.credit(credit("c", USD))
    await store.settle(settlement("a", 400))
    await store.settle(settlement("b", 60, from_wallet=False))
    with second_connection(ledger_path) as reader:
        totals = recount(reader)
    assert totals[wallet_counter("acme")] == CounterTotals(400 - USD, 0)
    for counter in (Counter("key:acme/ci", "2026-11-21"), Counter("workspace:acme", "2026-11")):
        assert totals[counter] == CounterTotals(460, 2)


async def test_a_file_whose_counters_redis_kept_counts_its_rows_again_at_the_next_start(
    store: SqliteStore, ledger_path: Path
) -> None:
    await store.settle(settlement("a", 400))
    await store.close()
    with second_connection(ledger_path) as other:
        other.execute("UPDATE ledger SET redis_state = 'a-state'")
        other.execute("UPDATE spend SET spent_nanousd = 1")
    await SqliteStore(ledger_path).close()
    with second_connection(ledger_path) as reader:
        assert reader.execute("SELECT redis_state FROM ledger").fetchone()[0] is None
        assert verify(reader) == []
