"""Each command that changes files or money leaves one line in the audit log, with who used it."""

import getpass
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from rig.audit import die_during
from rig.ledger import locked_by_another
from rig.secret_commands import BOTH, TOKEN, VARIABLE
from rig.settings_files import ACME, HASH_A, MODELS, edit, write_files

from addon.cli import COMMANDS, main
from addon.edits.recording import file_evidence
from addon.store.money.audit.audit import find_lines
from addon.store.money.audit.audit_chain import read_chain
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.reports.report import open_report
from addon.store.money.sqlite.file import LedgerFile

NO_CHANGE = {
    **dict.fromkeys(("alerts list", "catalog list", "keys list", "workspaces list", "usage"), "reads"),
    **dict.fromkeys(("wallet balance", "wallet history", "check", "catalog check", "explain"), "reads"),
    **dict.fromkeys(("completion", "secrets key", "secrets seal"), "prints"),
    "alerts test": "sends an event",
    "ledger backup": "writes a copy",
    "ledger copy": "writes a copy",
    "workspaces diff": "reads",
    "workspaces pull": "writes files that no gateway reads",
    "ledger verify": "reads",
    "ledger reconcile": "reads",
    "catalog probe": "makes calls, which leave their rows",
}


AUDITED = {
    "keys create": ["acme", "--id", "phone"],
    "keys set": ["acme", "ci", "--label", "CI"],
    "keys rotate": ["acme", "ci"],
    "keys revoke": ["acme", "ci"],
    "workspaces create": ["gamma"],
    "workspaces set": ["acme", "--name", "Another"],
    "wallet credit": ["acme", "50"],
    "wallet debit": ["acme", "5", "--reference", "refund"],
    "catalog add": [
        *("GROQ", "vendor/new", "--family", "chat", "--input-price", "1", "--output-price", "2"),
        *("--max-completion-tokens", "100"),
    ],
    "catalog price": ["gpt-4o-mini", "--input", "0.13"],
    "catalog update": ["--apply"],
    "secrets rotate": [ACME],
    "ledger restore": ["backup.db"],
    "ledger recount": [],
}


ELSEWHERE = {
    "init": "a move, else there is no ledger yet: tests/unit/commands/test_init_move.py",
    "ledger archive": "needs calls of months that ended: tests/unit/commands/test_ledger_archive.py",
    "keys enable": "needs a revoked key: tests/end_to_end/test_one_set_of_files.py",
    "workspaces push": "needs files in the ledger: tests/end_to_end/test_one_set_of_files.py",
    "ledger forget": "needs calls of a user: tests/unit/commands/test_ledger_forget.py",
    "serve": "a first run: tests/unit/commands/test_serve_first_run.py",
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The files of an operator."""
    yield from make_files(tmp_path)


def make_files(tmp_path: Path) -> Iterator[Path]:
    """Files of an operator with a ledger, in the current folder. There is something to do for each command."""
    write_files(tmp_path)
    edit(tmp_path / MODELS, '"gpt-4o-mini-2024"', '"gpt-4o-mini"')
    edit(tmp_path / MODELS, 'input_price_per_m = "0.15"', 'input_price_per_m = "0.14"')
    edit(tmp_path / ACME, "", f'\n[byok]\nGROQ = {{ secret = "sealed:{TOKEN}", routing = true }}\n')
    with closing(LedgerFile(database(tmp_path))) as file:
        file.connection.execute("BEGIN")
        file.connection.execute("ROLLBACK")
    with (
        closing(sqlite3.connect(database(tmp_path))) as ledger,
        closing(sqlite3.connect(tmp_path / "backup.db")) as backup,
    ):
        ledger.backup(backup)
    here = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(here)


def database(folder: Path) -> Path:
    return folder / "var" / "tollgate.db"


def run(*arguments: str, **variables: str) -> Result:
    env: dict[str, str | None] = {VARIABLE: BOTH, f"{VARIABLE}_FILE": None, "SUDO_USER": None}
    return CliRunner(env={**env, **variables}).invoke(main, arguments)


def lines(folder: Path) -> list[dict[str, Any]]:
    with open_report(database(folder)) as ledger:
        assert read_chain(ledger).faults == []
        return find_lines(ledger, None, None, None, 100).records()


def find_commands(command: click.Command, *words: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found
            yield from find_commands(found, *words, name)
    else:
        yield " ".join(words)


def test_each_command_is_audited_or_changes_nothing() -> None:
    known = [*NO_CHANGE, *AUDITED, *ELSEWHERE]
    assert sorted(known) == sorted(find_commands(main))
    assert {name.split()[0] for name in known} == set(COMMANDS)


@pytest.mark.parametrize("command", AUDITED)
def test_a_command_that_changes_something_has_one_line(folder: Path, command: str) -> None:
    if command == "ledger recount":
        with closing(sqlite3.connect(database(folder))) as ledger, ledger:
            ledger.execute(
                "INSERT INTO days VALUES ('2026-01-01', 'a', 'b', 'c', 'd', 'payg', '2xx', 1, 0, 0, 0, 0, 0)"
            )
            ledger.execute("UPDATE rollup_progress SET days_until = '2026-01-02'")
    result = run(*command.split(), *AUDITED[command])
    assert result.exit_code == 0, result.output
    [line] = lines(folder)
    assert (line["source"], line["user"], line["action"], line["outcome"]) == (
        *("command", getpass.getuser(), command),
        "made",
    )
    of_acme = "acme" in AUDITED[command] or ACME in AUDITED[command]
    assert (line["workspace"] == "acme") == of_acme
    assert (line["address"], line["session"]) == ("", "")
    for secret in (HASH_A, TOKEN, TOKEN[:24]):
        assert secret not in json.dumps(line)
    assert AuditSpool(database(folder)).is_empty()


def test_a_line_has_the_lines_that_differ_without_secrets(folder: Path) -> None:
    key = run("keys", "create", "acme", "--id", "phone", "--label", "Phone").stdout.strip()
    [line] = lines(folder)
    assert line["change"].startswith("Create the key phone of the workspace acme\n@@")
    assert '+label = "Phone"' in line["change"]
    assert re.findall("^\\+hash = .*", line["change"], re.MULTILINE) == ["+hash = ***"]
    assert (line["subject"], key in line["change"]) == ("phone", False)


def test_the_line_of_a_restore_has_the_head_that_it_ends(folder: Path) -> None:
    run("wallet", "credit", "acme", "50")
    with open_report(database(folder)) as ledger:
        head = read_chain(ledger).head
    assert run("ledger", "restore", "backup.db").exit_code == 0
    [line] = lines(folder)
    assert f"ended with line 1, {head}" in line["change"]
    result = run("ledger", "verify", "--head", head)
    assert (result.exit_code, f"audit: {head} is not in the chain" in result.stdout) == (1, True)


def test_the_caller_of_sudo_is_noted(folder: Path) -> None:
    run("keys", "revoke", "acme", "ci", SUDO_USER="alice\x1b[31m")
    [line] = lines(folder)
    assert line["user"] == f"{getpass.getuser()} (sudo: alice\\x1b[31m)"


@pytest.mark.parametrize(
    "arguments",
    [
        ["keys", "set", "acme", "none", "--label", "x"],
        ["keys", "create", "acme", "--id", "ci"],
        ["wallet", "debit", "none", "5", "--reference", "x"],
        ["wallet", "credit", "acme", "99999999999999"],
        ["keys", "revoke", "none", "ci"],
        ["ledger", "restore", "proxy.conf"],
        ["catalog", "update"],
        ["catalog", "price", "gpt-4o-mini", "--input", "0.14"],
        ["catalog", "price", "--what-if", MODELS],
        ["secrets", "rotate", "--check", ACME],
        ["ledger", "recount"],
    ],
)
def test_what_is_refused_or_changes_nothing_has_no_line(folder: Path, arguments: list[str]) -> None:
    run(*arguments)
    assert lines(folder) == []
    assert AuditSpool(database(folder)).is_empty()


def test_what_is_there_already_has_no_second_line(folder: Path) -> None:
    for _ in range(2):
        run("keys", "revoke", "acme", "ci")
        run("wallet", "credit", "acme", "5", "--reference", "x")
        run("workspaces", "set", "acme", "--name", "Another")
    assert len(lines(folder)) == 3


def test_a_locked_ledger_delays_the_line_until_the_next_command(folder: Path) -> None:
    with locked_by_another(database(folder)):
        result = run("keys", "revoke", "acme", "ci")
        assert result.exit_code == 0
        assert "active = false" in (folder / ACME).read_text()
        assert "in the audit log is written later" in result.stderr
        assert "locked" in result.stderr
        assert lines(folder) == []
    run("workspaces", "set", "acme", "--name", "Another")
    assert [line["action"] for line in lines(folder)] == ["workspaces set", "keys revoke"]


def test_a_missing_ledger_gets_the_line_when_it_is_made(folder: Path) -> None:
    database(folder).unlink()
    result = run("keys", "revoke", "acme", "ci")
    assert (result.exit_code, result.stderr) == (0, "")
    assert not database(folder).exists()
    run("wallet", "credit", "acme", "50")
    assert [line["action"] for line in lines(folder)] == ["wallet credit", "keys revoke"]


def test_a_command_that_died_is_judged_before_its_file_changes_again(folder: Path) -> None:
    file = folder / ACME
    before, after = file.read_bytes(), file.read_text() + "# by a command\n"
    die_during(AuditSpool(database(folder)), file_evidence(file, before, after))
    file.write_text(after)
    run("workspaces", "set", "acme", "--name", "Another")
    found = [(line["action"], line["outcome"]) for line in lines(folder)]
    assert found == [("workspaces set", "made"), ("keys set", "made")]


def test_a_log_that_can_not_be_written_stops_all_but_a_revocation(folder: Path) -> None:
    database(folder).with_name("tollgate.db-audit").write_text("in the way")
    before = (folder / ACME).read_text()
    result = run("keys", "rotate", "acme", "ci")
    assert result.exit_code == 1
    assert "nothing was changed, because it can't be noted for the audit log" in result.stderr
    assert (folder / ACME).read_text() == before
    revoked = run("keys", "revoke", "acme", "ci")
    assert revoked.exit_code == 0
    assert "warning: this change is not in the audit log" in revoked.stderr
    assert "active = false" in (folder / ACME).read_text()


def test_verify_prints_the_head_and_knows_it_later(folder: Path) -> None:
    assert "head of the audit log" not in run("ledger", "verify").stdout
    run("wallet", "credit", "acme", "50")
    [head] = re.findall("head of the audit log: ([0-9a-f]{64}), line 1\n", run("ledger", "verify").stdout)
    run("wallet", "credit", "acme", "50")
    result = run("ledger", "verify", "--head", head)
    assert (result.exit_code, "the audit log has that hash in line 1\n" in result.stdout) == (0, True)
    found = json.loads(run("ledger", "verify", "--head", head, "--json").stdout)
    assert (found["audit_line"], found["wanted_line"], found["discrepancies"]) == (2, 1, [])
    other = run("ledger", "verify", "--head", "f" * 64)
    assert (other.exit_code, f"audit: {'f' * 64} is not in the chain" in other.stdout) == (1, True)
    assert run("ledger", "verify", "--head", "F").exit_code == 2
