"""``tollgate wallet`` where rates are in Redis: money needs no Redis."""

from pathlib import Path

from rig.money import USD, spent
from rig.settings_files import edit
from rig.wallet_commands import ledger_of, run, run_json


def test_a_wallet_is_credited_once_and_shown_while_redis_is_away(folder: Path) -> None:
    edit(folder / "proxy.conf", "", '\n[state]\nbackend = "redis"\nredis_url = "redis://127.0.0.1:1/0"\n')
    first = run(folder, "credit", "acme", "50", "--reference", "invoice 17")
    assert (first.exit_code, first.stdout) == (0, "credited 50.00 USD to acme; balance 50.00 USD\n"), first
    again = run(folder, "credit", "acme", "50", "--reference", "invoice 17")
    assert (again.exit_code, again.stdout[:30]) == (0, "already credited: 50.00 USD, r")
    assert [entry["amount_nanousd"] for entry in run_json(folder, "history", "acme")] == [50 * USD]
    assert run_json(folder, "balance", "acme")[0]["balance_nanousd"] == 50 * USD
    assert spent(ledger_of(folder), "wallet:acme") == (-50 * USD, 0)
