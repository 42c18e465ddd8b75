"""The rows of the ledger in a real SQLite file: which are written and which are refused."""

from pathlib import Path
from typing import Any

import pytest
from rig.large import sampled
from rig.ledger import make_row, read_ids, read_rows, second_connection
from rig.sqlite_stores import ended

from addon.store.money.sqlite.early_migration_steps import LARGEST
from addon.store.protocol import IllegalRowError, Settlement, Store


async def test_a_row_is_recorded_as_the_exchange_made_it(store: Store, ledger_path: Path) -> None:
    row = make_row()
    await store.settle(Settlement(row, from_wallet=False))
    assert read_rows(ledger_path) == [row]


def test_the_table_has_the_columns_of_the_exchange_in_its_order(store: Store, ledger_path: Path) -> None:
    with second_connection(ledger_path) as reader:
        columns = [column["name"] for column in reader.execute("PRAGMA table_info(usage)")]
    assert columns == list(make_row())


async def test_settling_an_id_again_changes_nothing(store: Store, ledger_path: Path) -> None:
    await store.settle(ended())
    await store.settle(ended(retail_nanousd=9, status=500))
    assert read_rows(ledger_path) == [make_row()]


async def test_every_unknown_value_is_recorded_as_null(store: Store, ledger_path: Path) -> None:
    unknown = dict.fromkeys(
        [
            "requested_model",
            "error_code",
            "finish_reason",
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "cached_tokens",
            "reasoning_tokens",
            "first_byte_ms",
            "end_user",
            "client_request_id",
        ]
    )
    await store.settle(ended(**unknown))
    assert read_rows(ledger_path) == [make_row(**unknown)]


@sampled(every=3)
@pytest.mark.parametrize(
    "changes",
    [
        {"id": ""},
        {"id": None},
        {"created_at": None},
        {"created_at": "2026-01-31"},
        {"created_at": "2026-01-31T12:00:00.000+01:00"},
        {"workspace": None},
        {"key_id": None},
        {"model_slug": None},
        {"provider": None},
        {"upstream_model_id": None},
        {"mode": "free"},
        {"mode": None},
        {"fallback": 2},
        {"attempts": 0},
        {"stream": -1},
        {"status": None},
        {"status": 0},
        {"status": 600},
        {"status": "ok"},
        {"usage_source": "guessed"},
        {"usage_source": "none"},
        {"prompt_tokens": -1},
        {"completion_tokens": "many"},
        {"total_tokens": 0.5},
        {"cached_tokens": -1},
        {"reasoning_tokens": -1},
        {"wholesale_nanousd": -1},
        {"retail_nanousd": -1},
        {"retail_nanousd": None},
        {"first_byte_ms": -1},
        {"duration_ms": None},
        {"duration_ms": -1},
        {"finish_reason": ["stop"]},
    ],
    ids=str,
)
async def test_an_illegal_row_is_refused_and_the_next_one_is_recorded(
    changes: dict[str, Any], store: Store, ledger_path: Path
) -> None:
    with pytest.raises(IllegalRowError):
        await store.settle(Settlement(make_row() | changes, from_wallet=False))
    await store.settle(ended("next"))
    assert read_ids(ledger_path) == ["next"]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({"end_user": "a\ud800b"}, {"end_user": "a?b"}),
        ({"requested_model": "\udfff"}, {"requested_model": "?"}),
        ({"finish_reason": "a\0b"}, {"finish_reason": "a\0b"}),
        ({"prompt_tokens": 2**63}, {"prompt_tokens": LARGEST}),
        ({"retail_nanousd": LARGEST + 1}, {"retail_nanousd": LARGEST}),
        (
            {"completion_tokens": 10**400, "end_user": "\ud800"},
            {"completion_tokens": LARGEST, "end_user": "?"},
        ),
    ],
    ids=["surrogate", "surrogate alone", "NUL", "65 bits", "too dear", "both"],
)
async def test_no_text_of_a_client_and_no_count_of_a_provider_keeps_a_call_out_of_the_ledger(
    sent: dict[str, Any], kept: dict[str, Any], store: Store, ledger_path: Path
) -> None:
    await store.settle(ended(**sent))
    assert read_rows(ledger_path) == [make_row(**kept)]
