"""Each command that reads the ledger says the same, byte for byte, of a SQLite ledger and of its copy in PostgreSQL."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rig.filled_ledgers import MODELS, ODD, StoppedClock, fill
from rig.ledger import make_priced_row
from rig.postgres_server import PostgresServer
from rig.settings_files import edit, write_files
from rig.vendor_exports import SAMPLES

from addon.cli import main
from addon.settings.settings import load_conf
from addon.store.backends import find_ledger
from addon.store.money import alerts
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.call_pages import CallPosition, find_page
from addon.store.money.sqlite.money import SqliteMoney
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.protocol import Settlement
from policies.prices import Prices

type Both = tuple[Path, Path]

SINCE = ("--since", "2025-12-01", "--until", "2026-03-03")
BY = (
    *("workspace", "key", "model", "provider", "mode", "status", "day", "hour", "user", "tag:team"),
    *("key,day", "model,status", "user,model", "refusals", "limits"),
)
USAGE: tuple[tuple[str, ...], ...] = (
    (),
    SINCE,
    ("--workspace", "acme"),
    ("--workspace", ODD[0], "--key", "ci"),
    ("--model", MODELS[2][0], "--limit", "3"),
    ("--provider", "TESTER", "--status", "error"),
    ("--status", "429", *SINCE),
    ("--mode", "byok", "--by", "key"),
    *(("--by", by, *SINCE) if by != "limits" else ("--by", by) for by in BY),
)
LISTED: tuple[tuple[str, ...], ...] = (
    *(("usage", *options) for options in USAGE),
    ("wallet", "balance"),
    ("wallet", "balance", "acme"),
    ("wallet", "history", "acme"),
    ("wallet", "history", "acme", "--limit", "3"),
    ("ledger", "verify"),
    ("ledger", "reconcile", str(SAMPLES / "openai_costs.json"), "--provider", "OPENAI"),
    ("ledger", "reconcile", str(SAMPLES / "openai_costs.json"), "--provider", "TESTER", "--month", "2026-02"),
    ("alerts", "list"),
    ("alerts", "list", "--limit", "2"),
    ("keys", "list"),
    ("workspaces", "list"),
)
"""Those that also have ``--json``, ``--csv`` and ``--wide``."""
OTHERS: tuple[tuple[str, ...], ...] = (
    ("ledger", "verify", "--head", "0" * 64),
    ("ledger", "recount"),
    ("usage", "--workspace", "nobody"),
    ("explain", "--workspace", "acme", "-"),
    ("explain", "--workspace", "acme", "--json", "-"),
    ("catalog", "price", "--what-if", "models.toml", "--since", "2025-12-01"),
    ("catalog", "price", "--what-if", "models.toml", "--since", "2025-12-01", "--json"),
)
BODY = json.dumps({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]})


def fill_file(path: Path) -> None:
    """Write calls of two months, credits, refusals, calls in flight, an audit log and alerts."""
    clock: Any = StoppedClock()

    async def work() -> None:
        money = SqliteMoney(path, clock)
        await fill(money, 160)
        for number in range(20):
            row = make_priced_row(f"priced-{number}", Prices(number + 1, 2, 3), wholesale_nanousd=5)
            await money.settle(Settlement(row | {"retail_nanousd": 25}, from_wallet=False))
        await money.close()

    asyncio.run(work())
    with SqlitePlace(path).write() as ledger:
        events = [
            alerts.NewAlert(f"evt_{name}", "2026-03-02T10:00:00.000+00:00", "budget", "acme", "Used.", "{}")
            for name in "cab"
        ]
        alerts.enqueue(ledger, events, {}, is_sent=False)


@pytest.fixture(scope="module")
def both(_shared_postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Two folders with the same files. The ledger of the second is a copy of that of the first."""
    folder = tmp_path_factory.mktemp("engines")
    sqlite = write_files(folder / "sqlite")
    (sqlite.parent / "var").mkdir()
    fill_file(sqlite.parent / "var" / "tollgate.db")
    models = sqlite.parent / "catalog_data" / "models.toml"
    (sqlite.parent / "models.toml").write_text(models.read_text().replace('"0.15"', '"0.25"'))
    database = _shared_postgres.create_database()
    copied = CliRunner().invoke(
        main, ["ledger", "copy", "--to", _shared_postgres.url_of(database), "--conf", str(sqlite)]
    )
    assert "both sides have the same sums" in copied.output
    postgres = folder / "postgres" / sqlite.name
    shutil.copytree(sqlite.parent, postgres.parent)
    (postgres.parent / "ledger.url").write_text(_shared_postgres.url_of(database))
    state = '[state]\nbackend = "redis"\nredis_url = "redis://127.0.0.1:1"'
    edit(postgres, "[billing]", f'[ledger]\nurl = "file:ledger.url"\n{state}\n[billing]')
    yield sqlite, postgres
    _shared_postgres.drop_database(database)


def run(conf: Path, words: tuple[str, ...]) -> Result:
    arguments = [str(conf.parent / word) if word == "models.toml" else word for word in words]
    return CliRunner().invoke(main, [*arguments, "--conf", str(conf)], input=BODY)


def agree(both: Both, words: tuple[str, ...]) -> None:
    said = [
        (done.exit_code, *(text.replace(str(conf.parent), "FOLDER") for text in (done.stdout, done.stderr)))
        for conf in both
        for done in [run(conf, words)]
    ]
    assert said[0] == said[1]
    assert said[0][0] in {0, 1}, said[0]
    assert said[0][1] or said[0][2]


@pytest.mark.parametrize("words", LISTED, ids=" ".join)
def test_a_command_that_lists_says_the_same_in_each_form(both: Both, words: tuple[str, ...]) -> None:
    for form in ((), ("--wide",), ("--json",), ("--csv",)):
        if form != ("--csv",) or words[:1] != ("usage",) or "--by" in words:
            agree(both, (*words, *form))


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_a_command_says_the_same(both: Both, words: tuple[str, ...]) -> None:
    agree(both, words)


def test_a_link_to_a_page_of_calls_leads_to_the_same_calls(both: Both) -> None:
    sqlite, postgres = (find_ledger(load_conf(conf)) for conf in both)
    with sqlite.read() as here, postgres.read() as there:
        older, pages = "", 0
        while pages == 0 or older:
            before = CallPosition.parse(older) if older else None
            page = find_page(here, Filter(), 23, before=before)
            assert find_page(there, Filter(), 23, before=before) == page
            older, pages = str(page.older or ""), pages + 1
    assert pages > 5
