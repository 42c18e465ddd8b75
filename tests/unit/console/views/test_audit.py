"""``/audit`` shows who made each change, and links to nothing that is not there."""

from pathlib import Path

import pytest
from rig.audit import LINE
from rig.console_html import render_page
from rig.console_reading import load_page
from rig.settings_files import write_files

from addon.console.views.audit import OF_COMMANDS
from addon.store.money.audit.audit import AuditLine, AuditLog
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.sqlite.connection import open_connection
from addon.store.money.sqlite.place import SqlitePlace
from unit.commands.test_auditing import AUDITED, ELSEWHERE


@pytest.fixture(scope="module")
def conf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gateway's files, and a ledger with a change in the console, one of a command, and one of no workspace."""
    conf_file = write_files(tmp_path_factory.mktemp("audit"))
    ledger = conf_file.parent / "var" / "tollgate.db"
    ledger.parent.mkdir(exist_ok=True)
    open_connection(ledger).close()
    audit, spool = AuditLog(SqlitePlace(ledger), ledger.parent), AuditSpool(ledger)
    audit.end(audit.note_intent(AuditLine("console", "::1", "ab", "keys set", "acme", "ci", "x"), {}), "made")
    of_all = AuditLine("command", "", "", "catalog add", "", None, "Add a model", "<b>root</b>")
    for line in (LINE, of_all):
        with spool.record(line, {}):
            pass
    spool.drain(SqlitePlace(ledger), 1)
    return conf_file


def test_the_user_of_the_system_is_who_made_a_change_by_a_command(conf_file: Path) -> None:
    rows = load_page(conf_file, "/audit").tables["audit"].records()
    assert [(row["source"], row["user"], row["address"]) for row in rows] == [
        ("command", "<b>root</b>", ""),
        ("command", "alice (sudo: bob)", ""),
        ("console", "", "::1"),
    ]
    html = render_page(conf_file, "/audit")
    assert "alice (sudo: bob)" in html
    assert "&lt;b&gt;root&lt;/b&gt;" in html
    assert 'href="/workspaces/"' not in html
    assert "alice (sudo: bob)" in render_page(conf_file, "/audit/2")


def test_each_action_can_be_chosen(conf_file: Path) -> None:
    actions = load_page(conf_file, "/audit").shown["actions"]
    assert {*AUDITED, *ELSEWHERE} <= set(actions)
    assert set(OF_COMMANDS) <= {*AUDITED, *ELSEWHERE}
    shown = load_page(conf_file, "/audit?action=catalog%20add").tables["audit"].records()
    assert [row["change"] for row in shown] == ["Add a model"]
