"""``/calls/ID``: one row in words, with its price."""

from pathlib import Path
from typing import Any

import pytest
from rig.console_reading import load_page, open_new_ledger
from rig.ledger import make_row
from rig.rollups import INTERRUPTED, build_all, write
from rig.settings_files import write_files

from addon.console.view import NotFoundError, View
from addon.store.ledger.rows import write_call
from addon.store.protocol import Settlement

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


def test_the_price_is_the_sum_of_its_tokens(conf_file: Path) -> None:
    view = load(conf_file, prompt_tokens=1_000, cached_tokens=400, completion_tokens=7)
    today = view.values["prices_of_today"]
    assert today["are_recorded"] is False
    parts = view.tables["price_parts"].records()
    assert [(row["tokens_of"], row["tokens"]) for row in parts] == [
        ("input", 600),
        ("cached_input", 400),
        ("output", 7),
    ]
    for name in ("wholesale", "retail"):
        exact = sum(row[f"{name}_picousd"] for row in parts)
        assert today[f"{name}_nanousd"] == (2 * exact + 1_000) // 2_000
        assert all(
            row[f"{name}_picousd"] == row["tokens"] * row[f"{name}_microusd_per_mtok"] for row in parts
        )
    again = {name: today[name] for name in ("wholesale_nanousd", "retail_nanousd")}
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        ledger.execute(
            "UPDATE usage SET wholesale_nanousd = :wholesale_nanousd, retail_nanousd = :retail_nanousd", again
        )
    assert load_page(conf_file, "/calls/one").values["prices_of_today"]["are_recorded"] is True


@pytest.mark.parametrize("changes", [{"mode": "byok"}, INTERRUPTED, {"model_slug": "gone"}])
def test_a_call_without_a_price_of_today_has_none(conf_file: Path, changes: dict[str, Any]) -> None:
    assert load(conf_file, **changes).values["prices_of_today"] is None


def test_the_wallet_entry_of_the_call_is_shown(conf_file: Path) -> None:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        write_call(ledger, Settlement(make_row("one"), from_wallet=True))
    assert load_page(conf_file, "/calls/one").tables["wallet_entries"].records() == [
        {"id": "one", "created_at": MOMENT, "workspace": "acme", "amount_nanousd": -1560, "reference": "call"}
    ]


def test_the_calls_before_and_after_are_linked(conf_file: Path) -> None:
    with open_new_ledger(conf_file.parent / "var" / "tollgate.db") as ledger:
        for row_id in ("zero", "one", "two"):
            write(ledger, make_row(row_id))
    neighbours = [
        [load_page(conf_file, f"/calls/{row_id}").values[name] for name in ("earlier_id", "later_id")]
        for row_id in ("zero", "one", "two")
    ]
    assert neighbours == [[None, "one"], ["zero", "two"], ["one", None]]


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
