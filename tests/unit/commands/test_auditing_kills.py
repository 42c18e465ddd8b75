"""A command has one line in the audit log, wherever it is killed."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import sampled
from rig.secret_commands import BOTH, VARIABLE

from addon.store.money.reports.report import open_report
from unit.commands.test_auditing import database, lines, make_files


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The files of an operator."""
    yield from make_files(tmp_path)


# Each child is killed one step later: at each rename, removal, new file and connection that it makes.
KILLED = """
import os, signal, sys
from pathlib import Path
from click.testing import CliRunner
from addon.cli import main
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.sqlite.place import SqlitePlace

STEPS = {"os.rename", "os.remove", "os.mkdir", "tempfile.mkstemp", "sqlite3.connect", "fcntl.flock"}
database, words = Path(sys.argv[1]), sys.argv[2:]
CliRunner().invoke(main, ["keys", "list", "acme"])  # Imported before, so that each child is quick.
number = 0
while True:
    number += 1
    child = os.fork()
    if child == 0:
        left = number
        def count(event, arguments):
            global left
            if event in STEPS:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        result = CliRunner().invoke(main, [word.replace("NUMBER", str(number)) for word in words])
        os.write(2, result.output.encode())
        os._exit(result.exit_code)
    _, status = os.waitpid(child, 0)
    if status == 0:
        break
    assert os.WIFSIGNALED(status), status
    assert number < 200
    # What the next command does before its own change, so that each change is judged while its file shows it.
    AuditSpool(database).drain(SqlitePlace(database), 5)
print(number)
"""


@sampled(every=2)
@pytest.mark.parametrize(
    ("command", "change", "result"),
    [
        ("workspaces set acme --name Change-NUMBER", r'^\+name = "Change-(\d+)"', "file"),
        ("wallet credit acme 5 --reference change-NUMBER", r"reference: change-(\d+)", "entries"),
    ],
)
def test_a_command_has_one_line_wherever_it_is_killed(
    folder: Path, command: str, change: str, result: str
) -> None:
    script = [sys.executable, "-c", KILLED, str(database(folder)), *command.split()]
    environment = {"PYTHONPATH": str(ROOT), VARIABLE: BOTH}
    done = subprocess.run(
        script, check=True, timeout=BOUND_S, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True
    )
    found = [re.findall(change, line["change"], re.MULTILINE) for line in reversed(lines(folder))]
    assert all(len(numbers) == 1 for numbers in found)
    numbers = [int(number) for [number] in found]
    assert {line["outcome"] for line in lines(folder)} == {"made"}
    # The last child was not killed.
    assert 5 < len(numbers) + 5 < int(done.stdout) == numbers[-1]
    assert numbers == sorted(set(numbers))
    if result == "file":
        # Each change shows the one before it, so none is missing.
        before = [re.findall(r'^-name = "(.*)"', line["change"], re.MULTILINE) for line in lines(folder)]
        assert before[::-1] == [["Acme"], *([f"Change-{number}"] for number in numbers[:-1])]
    else:
        with open_report(database(folder)) as ledger:
            entries = ledger.execute("SELECT reference FROM wallet_entries").fetchall()
        assert sorted(entries) == sorted((f"change-{number}",) for number in numbers)
