"""``[ledger] keep_months`` in a real gateway with workers: older months go into files while it serves."""

from pathlib import Path

from conftest import StartGateway
from rig.archives import make_ledger, read_calls, read_sums

MONTHS = ("2023-12", "2024-01", "2024-02")


def test_a_gateway_archives_older_months_while_it_serves(start_gateway: StartGateway, tmp_path: Path) -> None:
    ledger, archives = tmp_path / "tollgate.db", tmp_path / "archive"
    make_ledger(ledger)
    archives.mkdir()
    calls, sums = {call["id"] for call in read_calls(ledger)}, read_sums(ledger)
    sections = {"paths": {"database": str(ledger), "archives": str(archives)}, "ledger": {"keep_months": 1}}
    gateway = start_gateway(arguments=("--port", "0", "--workers", "2"), sections=sections)
    for month in MONTHS:
        gateway.wait_for_log(
            lambda line, month=month: line.get("event") == "month archived" and month in str(line)
        )
    assert {call["id"] for month in MONTHS for call in read_calls(archives / f"tollgate-{month}.db")} == calls
    assert read_calls(ledger) == []
    assert read_sums(ledger) == sums
