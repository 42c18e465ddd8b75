"""The discrepancies that the verification of a ledger finds."""

from pathlib import Path

import pytest
from rig.ledger import second_connection
from rig.sqlite_stores import open_settle_and_close
from rig.stores import request, settlement

from addon.store.money.verify.verify import verify
from addon.store.protocol import Store


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (
            "UPDATE spend SET spent_nanousd = 1 WHERE period = 'ever' AND scope = 'key:acme/ci'",
            "1 nano-USD are",
        ),
        ("UPDATE spend SET requests = 9 WHERE period = '2026-11'", "9 calls are counted, 1 are recorded"),
        (
            "DELETE FROM spend WHERE scope = 'wallet:acme'",
            "counter wallet:acme of ever: 0 nano-USD are counted",
        ),
        ("INSERT INTO spend VALUES ('key:acme/x', 'ever', 5, 0)", "5 nano-USD are counted, 0 are recorded"),
        ("UPDATE usage SET retail_nanousd = 7", "the wallet of acme paid 1560 nano-USD, acme: 7"),
        ("DELETE FROM usage", "charge a: the wallet of acme paid 1560 nano-USD, no such call is recorded"),
        ("UPDATE rollups SET calls = 2", "rollups of 2026-11-21T09: the sums differ from the calls"),
        ("UPDATE holds SET id = 'a'", "hold a: the call is recorded, but money is still held for it"),
    ],
    ids=str,
)
async def test_verification_finds_every_discrepancy(
    damage: str, found: str, store: Store, ledger_path: Path
) -> None:
    await store.settle(settlement("a"))
    await store.hold(request("b"))
    with second_connection(ledger_path) as other:
        assert verify(other) == []
        other.execute(damage)
        assert any(found in line for line in verify(other)), verify(other)


def test_verification_finds_a_damaged_file(ledger_path: Path) -> None:
    open_settle_and_close(ledger_path, *(f"a-{number}" for number in range(200)))
    with second_connection(ledger_path) as other:
        root = other.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'usage_created_at'").fetchone()[
            0
        ]
        size = other.execute("PRAGMA page_size").fetchone()[0]
    pages = bytearray(ledger_path.read_bytes())
    pages[(root - 1) * size + 100 : root * size] = bytes(size - 100)
    ledger_path.write_bytes(pages)
    with second_connection(ledger_path) as other:
        assert any("the file is damaged" in line for line in verify(other))
