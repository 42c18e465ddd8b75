"""docs/console.md names the values and the tables that each view returns."""

import re
from pathlib import Path

import pytest
from rig.configuration import ROOT
from rig.console_reading import load_page, open_new_ledger
from rig.ledger import make_row
from rig.rollups import build_all, write
from rig.settings_files import write_files

from addon.console.pages import PAGES
from addon.store.money.audit.audit import AuditLine, AuditLog
from addon.store.money.sqlite.place import SqlitePlace

URLS = {
    "overview": "/",
    "calls": "/calls?range=7d",
    "calls_new": "/calls/new?written_after=0",
    "call": "/calls/one",
    "workspace": "/workspaces/acme",
    "audit_line": "/audit/1",
}
"""The URLs of views that are not the path of their page."""


@pytest.fixture(scope="module")
def conf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gateway's files, and a ledger with a call and a change."""
    conf_file = write_files(tmp_path_factory.mktemp("tables"))
    ledger_file = conf_file.parent / "var" / "tollgate.db"
    with open_new_ledger(ledger_file) as ledger:
        write(ledger, make_row("one"))
        build_all(ledger)
    audit = AuditLog(SqlitePlace(ledger_file), ledger_file.parent)
    line = AuditLine("console", "127.0.0.1", "0" * 8, "keys set", "acme", "ci", "Change the key ci.")
    audit.end(audit.note_intent(line, {}), "made")
    return conf_file


def test_the_values_and_tables_of_each_view_are_documented(conf_file: Path) -> None:
    page = (ROOT / "docs" / "console.md").read_text(encoding="utf-8").partition("## The data")[2]
    rows = re.findall(r"^\| `/api/v1(/\S*)` \| [^|]* \| ([^|]*) \| ([^|]*) \|$", page, re.MULTILINE)
    documented = {path: [re.findall(r"`(\w+)`", words) for words in columns] for path, *columns in rows}
    views = {one: load_page(conf_file, URLS.get(one.name, one.path)) for one in PAGES}
    assert documented == {
        re.sub(r"\(\[.*?\)", "ID", one.path).replace("(?:overview)?", "overview"): [
            list(view.values),
            list(view.tables),
        ]
        for one, view in views.items()
    }
