"""``tollgate wallet``: an amount is credited once, an entry never changes, and amounts are exact."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import model, new_key, workspace
from rig.ledger import locked_by_another, make_row
from rig.money import USD, spent
from rig.scripts import completion, whole
from rig.upstream import Upstream
from rig.wallet_commands import entries, ledger_of, run, run_json, use

from addon.settings.settings import load_conf
from addon.store.money.wallet import make_credit, save_entry
from addon.store.protocol import Settlement
from policies.money import MAX_CAP_USD

# Crediting.


def test_a_credit_is_added_and_the_new_balance_is_printed(folder: Path) -> None:
    first = run(folder, "credit", "acme", "50")
    assert (first.exit_code, first.stdout) == (0, "credited 50.00 USD to acme; balance 50.00 USD\n")
    assert run(folder, "credit", "acme", "12.500000001").stdout == (
        "credited 12.500000001 USD to acme; balance 62.500000001 USD\n"
    )
    assert [entry["amount_nanousd"] for entry in entries(folder)] == [50 * USD, 12_500_000_001]
    assert spent(ledger_of(folder), "wallet:acme") == (-62_500_000_001, 0)


def test_a_debit_takes_an_amount_out_once_under_its_reference(folder: Path) -> None:
    run(folder, "credit", "acme", "500")
    result = run(folder, "debit", "acme", "450", "--reference", "typo of May 4")
    assert (result.exit_code, result.stdout) == (0, "debited 450.00 USD from acme; balance 50.00 USD\n")
    again = run(folder, "debit", "acme", "450", "--reference", "typo of May 4")
    assert again.stdout.startswith('already debited: -450.00 USD, reference "typo of May 4"')
    assert [entry["amount_nanousd"] for entry in entries(folder)] == [500 * USD, -450 * USD]
    # The way without the command means the same entry.
    assert (
        "already credited"
        in run(folder, "credit", "acme", "--reference", "typo of May 4", "--", "-450").stdout
    )
    below = run(folder, "debit", "acme", "60", "--reference", "refund")
    assert below.stdout.endswith("balance -10.00 USD\n")
    assert "below zero" in below.stderr


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("acme", "5"), 2, "Missing option '--reference'"),
        (("acme", "0", "--reference", "x"), 2, "must not be zero"),
        (("--reference", "x", "--", "acme", "-5"), 2, "must not be negative"),
        (("acme", "5", "--reference", "call"), 2, "must be printable"),
        (("acm", "5", "--reference", "x"), 1, 'unknown workspace "acm"; did you mean "acme"?'),
    ],
)
def test_a_wrong_debit_changes_nothing(
    folder: Path, words: tuple[str, ...], status: int, reason: str
) -> None:
    result = run(folder, "debit", *words)
    assert (result.exit_code, reason in result.stderr) == (status, True), result.output
    assert not ledger_of(folder).exists()


def test_equal_credits_without_a_reference_are_two_credits(folder: Path) -> None:
    for _ in range(2):
        assert run(folder, "credit", "acme", "1").exit_code == 0
    assert len({entry["id"] for entry in entries(folder)}) == 2


def test_a_repeated_reference_is_credited_once_without_an_error(folder: Path) -> None:
    run(folder, "credit", "acme", "50", "--reference", "invoice 17")
    before = entries(folder)
    again = run(folder, "credit", "acme", "50.0", "--reference", "invoice 17")
    assert again.exit_code == 0
    assert re.fullmatch(
        r'already credited: 50\.00 USD, reference "invoice 17", [\d-]{10} [\d:]{8} UTC; balance 50\.00 USD\n',
        again.stdout,
    )
    assert entries(folder) == before
    assert spent(ledger_of(folder), "wallet:acme") == (-50 * USD, 0)


def test_a_reference_is_for_one_workspace_only(folder: Path) -> None:
    for name in ("acme", "beta"):
        run(folder, "credit", name, "1", "--reference", "invoice 17")
    assert [entry["id"] for entry in entries(folder)] == ["acme/invoice 17", "beta/invoice 17"]


def test_a_reference_with_another_amount_is_an_error_and_changes_nothing(folder: Path) -> None:
    run(folder, "credit", "acme", "50", "--reference", "invoice 17")
    result = run(folder, "credit", "acme", "500", "--reference", "invoice 17")
    assert result.exit_code == 1
    assert 'reference "invoice 17" of acme has another amount, 50.00 USD of ' in result.stderr
    assert [entry["amount_nanousd"] for entry in entries(folder)] == [50 * USD]


def test_concurrent_credits_with_one_reference_are_entered_once(folder: Path) -> None:
    conf = load_conf(folder / "proxy.conf")
    with ThreadPoolExecutor(8) as pool:
        new = list(pool.map(lambda _: save_entry(conf, make_credit("acme", USD, "invoice 17")), range(16)))
    assert sorted(new) == [False] * 15 + [True]
    assert spent(ledger_of(folder), "wallet:acme") == (-USD, 0)


def test_a_negative_amount_corrects_a_mistake_even_below_zero(folder: Path) -> None:
    run(folder, "credit", "acme", "500")
    use(folder, lambda store: store.settle(Settlement(make_row(retail_nanousd=60 * USD), from_wallet=True)))
    result = run(folder, "credit", "acme", "--reference", "typo of May 4", "--", "-450")
    assert (result.exit_code, result.stdout) == (0, "credited -450.00 USD to acme; balance -10.00 USD\n")
    assert "The balance is below zero" in result.stderr
    again = run(folder, "credit", "acme", "--reference", "typo of May 4", "--", "-450")
    assert again.stdout.startswith("already credited: -450.00 USD")
    assert run_json(folder, "balance", "acme")[0]["balance_nanousd"] == -10 * USD


REFUSED: dict[tuple[str, ...], tuple[int, str]] = {
    ("acm", "5"): (1, 'unknown workspace "acm"; did you mean "acme"?'),
    ("acme", "five"): (2, "Invalid value for 'AMOUNT': 'five' is not a plain decimal number"),
    ("acme", "$5"): (2, "Invalid value for 'AMOUNT': '$5' is not a plain decimal number"),
    ("acme", "1,5"): (2, "Invalid value for 'AMOUNT': '1,5' is not a plain decimal number"),
    ("acme", "1e3"): (2, "Invalid value for 'AMOUNT': '1e3' is not a plain decimal number"),
    ("acme", "nan"): (2, "Invalid value for 'AMOUNT': 'nan' is not a plain decimal number"),
    ("acme", ""): (2, "Invalid value for 'AMOUNT': '' is not a plain decimal number"),
    ("acme", "0"): (2, "Invalid value for 'AMOUNT': must not be zero"),
    ("acme", "0.0000000001"): (2, "'0.0000000001' has 10 fractional digits; at most 9 are possible"),
    ("acme", "9" * 5000): (2, "is too large"),
    ("acme", "--", "-5"): (2, "a negative AMOUNT needs a --reference that says what it corrects"),
    ("acme", "-5"): (2, "AMOUNT is negative; to take money out: tollgate wallet debit WORKSPACE AMOUNT"),
    ("acme", "5", "--refrence", "x"): (2, "No such option '--refrence'"),
    ("acme", "--", "--5"): (2, "'--5' is negative"),
    ("acme", "5", "--reference", ""): (2, "Invalid value for '--reference': must be printable"),
    ("acme", "5", "--reference", "a\nb"): (2, "Invalid value for '--reference': must be printable"),
    ("acme", "5", "--reference", "x" * 201): (2, "at most 200 characters"),
    ("acme", "5", "--reference", "call"): (2, 'not "call", the reference of calls'),
}


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda arguments: " ".join(arguments)[:40])
def test_an_invalid_credit_is_refused_and_nothing_is_written(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    status, said = REFUSED[arguments]
    result = run(folder, "credit", *arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr
    assert not ledger_of(folder).exists()


def test_a_credit_beyond_the_largest_balance_is_refused(folder: Path) -> None:
    most = str(MAX_CAP_USD)
    assert run(folder, "credit", "acme", most).exit_code == 0
    result = run(folder, "credit", "acme", "0.000000001")
    assert (result.exit_code, len(entries(folder))) == (1, 1)
    assert f"the balance would exceed {most} USD" in result.stderr
    assert run(folder, "credit", "acme", "--reference", "back", "--", f"-{most}").exit_code == 0


def test_a_ledger_that_stays_locked_gives_one_line(folder: Path) -> None:
    run(folder, "credit", "acme", "1")
    with locked_by_another(ledger_of(folder)):
        result = run(folder, "credit", "acme", "1")
    assert result.exit_code == 1
    assert re.fullmatch(r"Error: .*tollgate\.db: .*locked\n", result.stderr)
    assert len(entries(folder)) == 1


# While a gateway runs.


def test_a_running_gateway_accepts_the_next_call_after_a_credit(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    key = new_key()
    made = workspace(("ci", key, True), plan="standard", default_model="dear")
    dear = {"dear": model(input_price_per_m="1000", output_price_per_m="10000")}
    gateway = start_gateway(
        models=dear, workspaces={"acme": made}, sections={"billing": {"markup_percent": "0"}}
    )
    gateway.keys = {"ci": key}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    upstream.behave(whole(completion(usage=usage)))

    def chat() -> Any:
        url = f"{gateway.url}/v1/chat/completions"
        return httpx.post(
            url, json={"messages": HELLO}, headers=gateway.headers, timeout=BOUND_S, trust_env=False
        )

    assert chat().json()["error"]["code"] == "payment_required"
    credited = tollgate(gateway.folder, "wallet", "credit", "acme", "0.5")
    assert credited.stdout == "credited 0.50 USD to acme; balance 0.50 USD\n", credited.stderr
    answer = chat()
    assert answer.status_code == 200
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert row["retail_nanousd"] == 60_000_000
    shown = tollgate(gateway.folder, "wallet", "balance", "--json")
    assert json.loads(shown.stdout) == [
        {
            "workspace": "acme",
            "balance_nanousd": 440_000_000,
            "held_nanousd": 0,
            "left_nanousd": 440_000_000,
        }
    ]
