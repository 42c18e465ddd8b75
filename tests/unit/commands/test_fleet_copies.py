"""Commands read the newest copies of files in the ledger, and say how old they are where PostgreSQL is away."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.commands import run_alone
from rig.ledger_files import FleetMachine, put_files, through
from rig.tcp_links import TcpLink, TcpLinks

from addon.store.money.postgres.ledger import PostgresPlace

ENV = {"CONSOLE": "a long pass phrase", "OPENAI_KEY": "sk-obviously-fake", "GROQ_KEY": "sk-obviously-fake"}


@pytest.fixture
def link(postgres_ledger_url: str) -> Iterator[TcpLink]:
    with TcpLinks() as links:
        yield links.link(int(postgres_ledger_url.rpartition(":")[2].partition("/")[0]))


@pytest.fixture
def machine(tmp_path: Path, postgres_ledger_url: str, link: TcpLink) -> FleetMachine:
    """A machine with a copy of acme, after which another has added beta."""
    place = PostgresPlace(SecretStr(postgres_ledger_url))
    put_files(place, "acme")
    made = FleetMachine(tmp_path / "one", through(postgres_ledger_url, link.port), ENV)
    put_files(place, "beta")
    return made


def run(machine: FleetMachine, *arguments: str) -> subprocess.CompletedProcess[str]:
    conf = ("--conf", str(machine.conf_file))
    return run_alone(machine.conf_file.parent, *arguments, *conf, **ENV)


def test_the_newest_files_are_read(machine: FleetMachine) -> None:
    checked = run(machine, "check")
    assert checked.returncode == 0, checked.stderr
    assert "workspaces: 2" in checked.stdout
    assert "copies" not in checked.stderr
    assert machine.copies.list_ids() == ["acme", "beta"]


def test_a_workspace_of_another_machine_is_known_to_usage(machine: FleetMachine) -> None:
    shown = run(machine, "usage", "--workspace", "beta")
    assert shown.returncode == 0, shown.stderr


def test_the_age_of_the_last_copies_is_named_while_the_ledger_is_away(
    machine: FleetMachine, link: TcpLink
) -> None:
    link.cut()
    then = time.time() - 3 * 60 - 5
    os.utime(machine.copies.folder / ".ledger.json", (then, then))
    checked, listed = run(machine, "check"), run(machine, "workspaces", "list")
    for ended in (checked, listed):
        assert ended.returncode == 0
        assert "the last copies of workspace files count, of 3 min" in ended.stderr
        assert "127.0.0.1" in ended.stderr
        assert "canary-postgres" not in ended.stderr
    assert "workspaces: 1" in checked.stdout
    assert "acme" in listed.stdout
    strict = run(machine, "check", "--strict", "--json")
    assert strict.returncode == 1
    assert [one["kind"] for one in json.loads(strict.stdout)["warnings"]][-1] == "copies_stale"


def test_copies_of_which_nothing_is_known_are_of_unknown_age(machine: FleetMachine, link: TcpLink) -> None:
    link.cut()
    (machine.copies.folder / ".ledger.json").unlink()
    assert "count, of unknown age: " in run(machine, "check").stderr


def test_without_a_copy_a_command_fails(machine: FleetMachine, link: TcpLink) -> None:
    link.cut()
    for file in machine.copies.folder.iterdir():
        file.unlink()
    machine.copies.folder.rmdir()
    listed = run(machine, "workspaces", "list")
    assert listed.returncode == 1
    assert "this machine has no copies yet" in listed.stderr
    assert "this machine has no copies yet" in run(machine, "check").stderr
