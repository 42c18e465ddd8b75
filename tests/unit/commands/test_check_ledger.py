"""``tollgate check`` asks a PostgreSQL whether its commits are safe, and says so where it can't."""

from pathlib import Path

from rig.checked import Checked
from rig.postgres_fixtures import StartPostgres
from rig.settings_files import CONF, edit

STATE = '[state]\nbackend = "redis"\nfleet = "tests"\n'


def test_a_server_without_a_synchronous_standby_is_a_warning(
    folder: Path, start_postgres: StartPostgres
) -> None:
    server = start_postgres(synchronous_commit="local")
    edit(folder / CONF, "", f'{STATE}[ledger]\nurl = "{server.url_of("nowhere")}"\n')
    before = Checked(folder)
    assert (before.status, before.report["warnings"][1:]) == (0, [])
    assert "does not exist" in before.report["ledger_not_asked"]
    [line] = [line for line in before.stdout.splitlines() if line.startswith("ledger: ")]
    assert line.startswith("ledger: not asked whether its commits are safe: ")

    edit(folder / CONF, "/nowhere", "/tollgate")
    kinds = [one["kind"] for one in Checked(folder).report["warnings"]]
    assert kinds[1:] == ["ledger_no_standby", "ledger_commits_early", "ledger_not_on_disk"]
    assert Checked(folder, "--strict").status == 1
    server.configure("synchronous_standby_names", "none_is_there")
    report = Checked(folder).report
    assert [one["kind"] for one in report["warnings"]][1:] == ["ledger_commits_early", "ledger_not_on_disk"]
    assert report["ledger_not_asked"] is None
