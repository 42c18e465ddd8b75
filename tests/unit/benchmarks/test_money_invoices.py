"""The vendor of the invoices bills as its pages say, and the gateway's books are the same to the nano-dollar."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.money.bookkeepers import Booked, Tollgate
from benchmarks.money.invoice_calls import CASES, Body, words
from benchmarks.money.invoices import Outcome, outcomes
from benchmarks.money.price_list import CLAUDE, GPT, PRICES, Tokens
from benchmarks.money.provider import Bill
from benchmarks.money.vendor import Vendor


@pytest.mark.parametrize(
    ("model", "service", "tokens", "nanousd"),
    [
        (GPT, "default", Tokens(plain=300_000, output=1_000), 1_522_500_000),
        (GPT, "default", Tokens(plain=272_000, output=1_000), 695_000_000),
        (GPT, "default", Tokens(plain=1, cached=272_000), 136_005_000),
        (GPT, "flex", Tokens(plain=1_000, cached=1_024, output=10), 1_458_120),
        (CLAUDE, "standard", Tokens(1, 10, 100, 1_000, 10_000), 5_212_700),
        (CLAUDE, "standard", Tokens(plain=100_001, written_1h=2), 50_002_500),
    ],
)
def test_the_price_list_computes_what_a_call_costs(model: str, service: str, tokens: Tokens, nanousd: int):
    assert PRICES[model, service].cost_nanousd(tokens) == nanousd


def test_openai_caches_the_first_message_in_whole_blocks():
    vendor = Vendor()
    body: Body = {
        "messages": [
            {"role": "system", "content": words(1_300, "a")},
            {"role": "user", "content": "Go [tokens 7]"},
        ]
    }
    short: Body = {"messages": [{"role": "user", "content": words(1_000, "b")}]}

    assert vendor.count_openai(body) == Tokens(plain=1_303, output=7)
    assert vendor.count_openai(body) == Tokens(plain=23, cached=1_280, output=7)
    assert [vendor.count_openai(short).cached for _ in range(2)] == [0, 0]


def test_anthropic_reads_the_longest_prefix_and_writes_up_to_the_later_marks():
    vendor, hour, minutes = Vendor(), {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}
    first, second = _part(words(50, "a"), hour), _part(words(30, "b"), minutes)

    def count(*system: Any) -> Tokens:
        return vendor.count_anthropic(
            {"system": [*system], "messages": [{"role": "user", "content": "Go on [tokens 7]"}]}
        )

    assert count(first) == Tokens(plain=4, written_1h=50, output=7)
    assert count(first, second) == Tokens(plain=4, cached=50, written_5m=30, output=7)
    assert count(first, second) == Tokens(plain=4, cached=80, output=7)
    assert count(second, first) == Tokens(plain=4, written_5m=30, written_1h=50, output=7)


def _part(text: str, mark: dict[str, str]) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": mark}


_CHOSEN = ("272,001", "flex, 300,000", "flex, from", "both terms")


def test_what_the_gateway_books_is_what_the_vendor_bills(tmp_path: Path):
    chosen = [case for case in CASES if any(words in case.name for words in _CHOSEN)]

    found = dict(
        zip([case.name for case in chosen], outcomes(Tollgate, tmp_path / "gateway", chosen), strict=True)
    )

    assert {name: str(outcome) for name, outcome in found.items()} == dict.fromkeys(found, "0")
    assert [outcome.bill.calls for outcome in found.values()] == [1, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Outcome((200,), Bill(1, 70), Booked(1, 70)), "0"),
        (Outcome((200, 200), Bill(2, 5_070), Booked(2, 70)), "-5,000"),
        (Outcome((502,), Bill(2, 70), Booked(0, 0)), "-70 (status 502, 2 billed)"),
        (Outcome((200,), Bill(1, 70), Booked(2, 100)), "+30"),
    ],
)
def test_an_outcome_says_by_how_much_the_books_are_off(outcome: Outcome, text: str):
    assert str(outcome) == text
