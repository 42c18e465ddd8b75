"""Every page has the same bytes from SQLite and from PostgreSQL, as HTML, as JSON, and as CSV of each table."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from urllib.parse import parse_qs, quote, urlencode

import pytest
from rig.console_reading import make_live
from rig.filled_ledgers import MODELS, NOW, ODD, WORKSPACES, fill_both
from rig.postgres_server import PostgresServer
from rig.server_process import free_port
from rig.settings_files import edit, write_files

from addon.console.page_process.maker import make_answer
from addon.console.page_process.messages import Answer, Question
from addon.console.pages import find_page
from addon.console.views.overview_spend import SPLITS
from addon.settings.settings import Settings, SettingsFiles
from addon.store.backends import find_ledger
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.report import find_recent

type Both = tuple[Settings, Settings]

MONTHS = "from=2025-12-01&to=2026-03-03"
RANGES = ("range=hour", "range=day", "range=7d", "range=month", "range=last_month", MONTHS)
ODD_FILTERS = [
    urlencode({"find": "", name: ODD[0]}) for name in ("workspace", "end_user", "error_code", "key")
]
PAGES = (
    *(f"/overview?{time}" for time in RANGES),
    *(f"/overview?{MONTHS}&by={by}" for by in SPLITS),
    f"/overview?{MONTHS}&{urlencode({'workspace': ODD[0], 'model': ODD[2]})}",
    *(f"/calls?{time}&limit=500" for time in RANGES),
    *(f"/calls?{MONTHS}&{one}" for one in ("status=error", "mode=byok", "status=5xx&limit=3", *ODD_FILTERS)),
    *(f"/calls?{urlencode({'find': name})}" for name in (ODD[0], ODD[1], ODD[2])),
    "/calls?limit=7&before=2026-03-01T06:00:00.000Z_call-5",
    "/calls?limit=7&after=2026-03-01T06:00:00.000Z_call-2",
    "/calls/new?range=month&written_after=40",
    *(f"/workspaces?{MONTHS}&sort={sort}" for sort in ("-calls", "workspace", "-retail_nanousd")),
    "/workspaces?range=day&q=beta",
    *(f"/workspaces/{quote(name, safe='')}?{MONTHS}" for name in ("nobody", "only-a-wallet", *WORKSPACES)),
    *(f"/models?{time}" for time in ("range=day", MONTHS)),
    f"/models?{MONTHS}&{urlencode({'workspace': ODD[1], 'provider': MODELS[0][1]})}",
    "/explain",
    "/audit",
    "/audit?before=30&action=credit",
    f"/audit?{urlencode({'workspace': ODD[1]})}",
    *(f"/audit/{number}" for number in (1, 2, 63, 64)),
)
ABSENT = ("/audit/64", f"/workspaces/nobody?{MONTHS}")
FIRST = list({find_page(url.partition("?")[0])[0].name: url for url in PAGES if url not in ABSENT}.values())  # type: ignore[index]
"""One URL of each page."""


def use_postgres(conf: Path, url: str) -> None:
    (conf.parent / "ledger.url").write_text(url)
    state = '[state]\nbackend = "redis"\nredis_url = "redis://127.0.0.1:1"'
    edit(conf, "[billing]", f'[ledger]\nurl = "file:ledger.url"\n{state}\n[billing]')


@pytest.fixture(scope="module")
def both(_shared_postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """The settings of two gateways, whose ledgers have the same content."""
    database = _shared_postgres.create_database()
    conf = write_files(tmp_path_factory.mktemp("gateway"))
    of_sqlite = SettingsFiles(conf, {}).load()
    of_sqlite.conf.paths.database.parent.mkdir()
    url = _shared_postgres.url_of(database)
    fill_both(of_sqlite.conf.paths.database, url)
    use_postgres(conf, url)
    yield of_sqlite, SettingsFiles(conf, {}).load()
    _shared_postgres.drop_database(database)


def ask(settings: Settings, url: str, form: dict[str, str] | None = None) -> Answer:
    path, _, query = url.partition("?")
    arguments = parse_qs(query, keep_blank_values=True)
    question = Question(1, path, arguments, form, "token", False, None, NOW, make_live())
    answer = make_answer(question, settings, Event())
    assert answer.fault is None, answer.fault
    return answer


def agree(both: Both, url: str, form: dict[str, str] | None = None) -> Answer:
    """Return the page of SQLite. That of PostgreSQL has the same bytes."""
    sqlite, postgres = (ask(settings, url, form) for settings in both)
    assert postgres == sqlite, url
    return sqlite


@pytest.mark.parametrize("url", PAGES)
def test_a_page_and_its_data_have_the_same_bytes(both: Both, url: str) -> None:
    assert agree(both, url).status in {200, 404}
    agree(both, f"/api/v1{url}")


@pytest.mark.parametrize("url", FIRST)
def test_each_table_of_a_page_has_the_same_bytes(both: Both, url: str) -> None:
    data = f"/api/v1{url}{'&' if '?' in url else '?'}"
    content = json.loads(agree(both, data).body)
    tables = [name for name, value in content.items() if isinstance(value, list)]
    for name in tables:
        agree(both, f"{data}table={name}&format=csv")


def test_the_page_of_each_call_has_the_same_bytes(both: Both) -> None:
    with find_ledger(both[0].conf).read() as ledger:
        calls = find_recent(ledger, Filter(), 1_000).records()
    for call in calls[::16]:
        agree(both, f"/calls/{call['id']}")
        agree(both, f"/api/v1/calls/{call['id']}")


def test_a_chain_of_pages_has_the_same_bytes(both: Both) -> None:
    url: str | None = f"/api/v1/calls?{MONTHS}&limit=23"
    pages = 0
    while url:
        older = json.loads(agree(both, url).body)["older"]
        url = older and f"/api/v1/calls?{MONTHS}&limit=23&before={older}"
        pages += 1
    assert pages > 5


def test_an_explanation_has_the_same_bytes(both: Both) -> None:
    body = '{"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}'
    agree(both, "/explain", {"workspace": "acme", "key": "ci", "body": body})


def test_the_page_of_settings_differs_only_in_its_ledger(both: Both) -> None:
    sqlite, postgres = (json.loads(ask(settings, "/api/v1/settings").body) for settings in both)
    own = ("state", "ledger_bytes", "fingerprint", "conf")
    assert {**postgres, **{name: sqlite[name] for name in own}} == sqlite
    assert postgres["ledger_bytes"] > 0
    assert "canary" not in ask(both[1], "/settings").body.decode()


def test_a_page_says_when_postgresql_is_away(tmp_path: Path) -> None:
    conf = write_files(tmp_path)
    use_postgres(conf, f"postgresql://someone:canary@127.0.0.1:{free_port()}/tollgate")
    answer = ask(SettingsFiles(conf, {}).load(), "/models")
    assert answer.status == 503
    assert answer.message
    assert re.fullmatch(
        r"The ledger can't be read: postgresql://127.0.0.1:\d+/tollgate: [^\n]+", answer.message
    )
    assert "canary" not in answer.message
