"""Runs of ``tollgate usage``, and what they print."""

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from addon.commands.usage import usage
from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import Settlement
from rig.ledger import make_row

CALLS = [
    make_row("first", created_at="2026-01-30T23:59:59.999+00:00", retail_nanousd=1_000_000_000),
    make_row("failed", created_at="2026-01-31T00:00:00.000+00:00", status=502, error_code="upstream_error"),
    make_row(
        "other",
        created_at="2026-02-01T08:00:00.000+00:00",
        workspace="beta",
        key_id="ci",
        model_slug="tester-small",
        prompt_tokens=None,
        cached_tokens=None,
        completion_tokens=None,
        total_tokens=None,
        usage_source="none",
        wholesale_nanousd=0,
        retail_nanousd=0,
    ),
    make_row("last", created_at="2026-02-01T09:00:00.000+00:00", key_id="web", cached_tokens=4),
]


def write_rows(conf: Path, rows: list[dict[str, Any]]) -> Path:
    path = conf.parent / "var" / "ledger.db"

    async def settle() -> None:
        store = SqliteStore(path)
        for row in rows:
            await store.settle(Settlement(row, from_wallet=False))
        await store.close()

    asyncio.run(settle())
    return path


def run(conf: Path, *options: str) -> Result:
    return CliRunner().invoke(usage, ["--conf", str(conf), *options])


def run_json(conf: Path, *options: str) -> Any:
    result = run(conf, "--format", "json", *options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def run_csv(conf: Path, *options: str) -> list[dict[str, str]]:
    result = run(conf, "--format", "csv", *options)
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))


def lines_of(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]
