"""``/calls/ID``: one row in words, with its price."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from rig.console_reading import load_page, open_new_ledger
from rig.ledger import make_priced_row, make_row
from rig.rollups import INTERRUPTED, build_all, write
from rig.settings_files import write_files
from rig.written_rows import write_call

from addon.console.view import NotFoundError, View
from addon.store.protocol import Settlement
from policies.attempt_ends import ATTEMPT_ENDS, AttemptEnd
from policies.prices import Prices
from policies.usage import Usage

MOMENT = "2026-01-31T12:00:00.000+00:00"


@pytest.fixture(scope="module")
def shared_conf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("call"))


@pytest.fixture
def conf_file(shared_conf_file: Path) -> Path:
    """A gateway's files, with an empty ledger."""
    with open_new_ledger(shared_conf_file.parent / "var" / "tollgate.db") as ledger:
        ledger.execute("DELETE FROM usage")
        ledger.execute("DELETE FROM wallet_entries")
    return shared_conf_file


def load(conf_file: Path, **changes: Any) -> View:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        write(ledger, make_row("one", **{"model_slug": "gpt-4o-mini", "provider": "OPENAI"} | changes))
        build_all(ledger)
    return load_page(conf_file, "/calls/one")


def test_the_row_has_every_column(conf_file: Path) -> None:
    (call,) = load(conf_file).tables["call"].records()
    assert call == make_row("one", model_slug="gpt-4o-mini", provider="OPENAI")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"requested_model": None}, "The request named no model. The workspace's routing chose gpt-4o-mini."),
        ({"requested_model": " GPT-4o-mini "}, "The client asked for gpt-4o-mini."),
        ({}, "The client asked for tester-large. The workspace's routing, or a fallback, chose gpt-4o-mini."),
        ({}, "The call had the platform's key. The workspace pays the retail price."),
        (
            {"mode": "byok"},
            "The call had the customer's own key. The customer pays the provider, so the cost is 0 here.",
        ),
        ({}, "One attempt was made."),
        ({"fallback": 1}, "The gateway skipped a failing provider. The fallback answered."),
        ({"fallback": 1, "attempts": 2}, "The first attempt failed. The fallback answered."),
        ({"attempts": 2}, "2 attempts were made. No answer of a fallback reached the client."),
    ],
)
def test_the_route_is_said_in_words(conf_file: Path, changes: dict[str, Any], sentence: str) -> None:
    assert sentence in load(conf_file, **changes).values["route"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "The client got its whole answer."),
        (
            {"finish_reason": "length"},
            "length: The answer reached its completion cap, or the model's own limit.",
        ),
        ({"finish_reason": "odd"}, "odd: the reason to end, as the provider wrote it."),
        (
            {"status": 502, "error_code": "upstream_error"},
            "upstream_error: The provider failed, was silent for too long, or could not be reached.",
        ),
        (INTERRUPTED, "interrupted: The gateway stopped, or was killed, before the call had ended."),
        (INTERRUPTED, "No tokens were counted, so the call costs nothing."),
        (
            {"usage_source": "estimated"},
            "The provider did not report all tokens. The gateway estimated the rest.",
        ),
    ],
)
def test_the_end_is_said_in_words(conf_file: Path, changes: dict[str, Any], sentence: str) -> None:
    assert sentence in load(conf_file, **changes).values["end"]


PRICES = Prices(2_000_000, 500_000, 8_000_000)
RETAIL = Prices(2_080_000, 520_000, 8_320_000)
COUNTS = Usage(prompt_tokens=1_000, completion_tokens=7, cached_tokens=400)
# 600 × $2, 400 × $0.50 and 7 × $8 a million; and 4 % more.
COSTS = {"wholesale_nanousd": 1_456_000, "retail_nanousd": 1_514_240}


def load_priced(conf_file: Path, **facts: Any) -> View:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        row = make_priced_row("one", **{"prices": PRICES, "retail": RETAIL, "usage": COUNTS} | COSTS | facts)
        write(ledger, row)
        build_all(ledger)
    return load_page(conf_file, "/calls/one")


def test_the_price_is_the_sum_of_its_tokens_at_the_prices_that_the_call_had(conf_file: Path) -> None:
    view = load_priced(conf_file)
    assert view.values["prices"] == {
        **{"state": "kept", "is_reported": False, "markup_percent": "0"},
        **COSTS,
        **{"are_recorded": True, "are_of_today": None},
    }
    shown = [tuple(row.values()) for row in view.tables["price_parts"].records()]
    assert shown == [
        ("input", 600, 2_000_000, 1_200_000_000, 2_080_000, 1_248_000_000),
        ("cached_input", 400, 500_000, 200_000_000, 520_000, 208_000_000),
        ("output", 7, 8_000_000, 56_000_000, 8_320_000, 58_240_000),
    ]


def test_a_row_that_was_changed_is_shown_as_such(conf_file: Path) -> None:
    shown = load_priced(conf_file, retail_nanousd=9).values["prices"]
    assert (shown["are_recorded"], shown["retail_nanousd"]) == (False, 1_514_240)


def test_a_reported_cost_has_no_price_of_tokens(conf_file: Path) -> None:
    view = load_priced(
        conf_file,
        usage=Usage(1_000, 7, reported_nanousd=1_000),
        model={"cost": "reported", "markup_percent": Decimal(4)},
        wholesale_nanousd=1_000,
        retail_nanousd=1_040,
    )
    shown = view.values["prices"]
    assert (shown["is_reported"], shown["are_recorded"], shown["markup_percent"]) == (True, True, "4")
    assert view.tables["price_parts"].rows == []


def test_a_call_of_an_earlier_version_says_that_its_prices_were_not_kept(conf_file: Path) -> None:
    view = load(conf_file)
    assert view.values["prices"] == {"state": "not kept"}
    assert view.tables["price_parts"].rows == []


def test_a_changed_price_set_is_not_shown(conf_file: Path) -> None:
    load_priced(conf_file)
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        ledger.execute("UPDATE prices SET content = replace(content, '8000000', '9000000')")
    assert load_page(conf_file, "/calls/one").values["prices"] == {"state": "unreadable"}


@pytest.mark.parametrize("changes", [{"mode": "byok"}, INTERRUPTED])
def test_a_free_call_has_no_prices(conf_file: Path, changes: dict[str, Any]) -> None:
    assert load(conf_file, **changes).values["prices"] is None


def test_each_attempt_of_a_call_that_made_several_is_shown(conf_file: Path) -> None:
    assert load(conf_file).tables["attempts"].rows == []
    ends = [
        AttemptEnd(1, "A", "A/a", "payg", 1, 503, "upstream_error", 40),
        AttemptEnd(2, "B", "B/b", "byok", None, 200, None, 7),
    ]
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        row = make_row("two", attempts=2) | {ATTEMPT_ENDS: ends}
        write_call(ledger, Settlement(row, from_wallet=False))
    shown = load_page(conf_file, "/calls/two").tables["attempts"]
    assert [tuple(row) for row in shown.rows] == ends
    assert tuple(shown.columns) == AttemptEnd._fields


def test_the_wallet_entry_of_the_call_is_shown(conf_file: Path) -> None:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        write_call(ledger, Settlement(make_row("one"), from_wallet=True))
    assert load_page(conf_file, "/calls/one").tables["wallet_entries"].records() == [
        {"id": "one", "created_at": MOMENT, "workspace": "acme", "amount_nanousd": -1560, "reference": "call"}
    ]


def test_the_calls_before_and_after_are_linked(conf_file: Path) -> None:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        for row_id in ("call-0", "call-1", "call-2"):
            write(ledger, make_row(row_id))
    neighbours = [
        [load_page(conf_file, f"/calls/{row_id}").values[name] for name in ("earlier_id", "later_id")]
        for row_id in ("call-0", "call-1", "call-2")
    ]
    assert neighbours == [[None, "call-1"], ["call-0", "call-2"], ["call-1", None]]


def test_the_commands_are_ready_for_a_shell(conf_file: Path) -> None:
    values = load(conf_file, workspace="a b'c").values
    assert values["usage_command"] == (
        "tollgate usage --workspace 'a b'\"'\"'c' --key ci --since 2026-01-31T12:00:00.000+00:00"
        " --until 2026-01-31T12:00:00.001+00:00 --json"
    )
    assert values["log_command"] == "jq -c 'select(.id == \"one\")'"


def test_an_unknown_call_is_not_found(conf_file: Path) -> None:
    load(conf_file)
    with pytest.raises(NotFoundError, match="A refused call has no row"):
        load_page(conf_file, "/calls/none")
