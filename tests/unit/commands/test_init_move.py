"""``tollgate init DIR --from FOLDER``: what was edited in a checkout serves on from a folder of its own."""

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import pytest
from rig.commands import run_alone, tollgate
from rig.configuration import ROOT
from rig.large import large_only, sampled
from rig.settings_files import contents, edit

from addon.settings.settings import load_settings
from addon.settings.value_types import SHIPPED_CATALOG
from addon.store.money.sqlite.process_lock import ProcessLock

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
BYOK = '\n[byok.OPENAI]\nsecret = "file:../../../outside.key"\nrouting = true\n'
POLICY = "def review(call):\n    pass\n"


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run([*GIT, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone in which an operator has tried the gateway, with an edited proxy.conf."""
    folder = tmp_path / "tollgate"
    folder.mkdir()
    for name in ("proxy.conf", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "catalog_data", folder / "catalog_data")
    (folder / "policies").mkdir()
    (folder / "policies" / "refusal.py").write_text("# the program's\n")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "all")
    edit(folder / "proxy.conf", "port = 8080", "port = 9090  # ours")
    made = tollgate(folder, "keys", "create", "acme", "--new")
    assert made.returncode == 0, made.stderr
    assert tollgate(folder, "wallet", "credit", "acme", "5").returncode == 0
    return folder


def move(checkout: Path, new: Path) -> subprocess.CompletedProcess[str]:
    return run_alone(checkout, "init", str(new), "--from", ".")


@large_only
def test_the_gateway_serves_on_from_the_folder_and_the_checkout_is_as_git_has_it(
    checkout: Path, tmp_path: Path
) -> None:
    before = load_settings(checkout / "proxy.conf", {})
    workspace = (checkout / "policies/workspaces/acme.toml").read_bytes()
    (checkout / "var" / "last-good").mkdir(exist_ok=True)
    (checkout / "var" / "last-good" / "acme.toml").write_bytes(workspace)
    new = tmp_path / "srv"
    done = move(checkout, new)
    assert done.returncode == 0, done.stderr
    assert "It is as git has it" in done.stdout
    assert git(checkout, "status", "--porcelain") == ""
    assert not list(checkout.rglob("acme.toml"))
    after = load_settings(new / "proxy.conf", {})
    assert after.workspaces == before.workspaces
    assert (after.conf.listen.port, after.conf.paths.catalog) == (9090, SHIPPED_CATALOG)
    assert after.conf.paths.catalog_overlay == new / "catalog"
    assert "# ours" in (new / "proxy.conf").read_text()
    assert "5.00  0.00  5.00" in tollgate(new, "wallet", "balance", "acme").stdout
    assert (new / "var" / "last-good" / "acme.toml").read_bytes() == workspace
    assert {"README.md", ".gitignore", "keys.env"} <= {file.name for file in new.iterdir()}
    assert tollgate(new, "check").returncode == 0
    assert _audited(new) == [("wallet credit", "made"), ("init", "made")]
    assert tollgate(new, "ledger", "verify").returncode == 0


def _audited(folder: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(folder / "var" / "tollgate.db")) as ledger:
        return ledger.execute("SELECT action, outcome FROM audit WHERE action != 'keys create'").fetchall()


def test_paths_are_rewritten_where_they_must_be_and_the_files_that_they_name_move(
    checkout: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside.key").write_text("sk-outside")
    (checkout / "secrets").mkdir()
    (checkout / "secrets" / "console").write_text("a long console password")
    (checkout / "policies" / "own.py").write_text(POLICY)
    edit(checkout / "proxy.conf", 'console_password = ""', 'console_password = "file:secrets/console"')
    edit(checkout / "proxy.conf", "extra = []", 'extra = ["own"]')
    edit(checkout / "proxy.conf", '"var/tollgate.db"', f'"{checkout}/var/tollgate.db"')
    edit(checkout / "policies/workspaces/acme.toml", "", BYOK)
    before = load_settings(checkout / "proxy.conf", {})
    new = tmp_path / "srv"
    done = move(checkout, new)
    assert done.returncode == 0, done.stderr
    after = load_settings(new / "proxy.conf", {})
    assert after.workspaces == before.workspaces
    assert after.console_password == before.console_password
    assert tomllib.loads((new / "proxy.conf").read_text())["paths"]["database"] == "var/tollgate.db"
    assert [policy.name for policy in after.policies] == ["own"]
    assert (tmp_path / "outside.key").exists()
    assert git(checkout, "status", "--porcelain") == ""
    assert not (checkout / "secrets" / "console").exists()


@large_only
def test_an_edited_catalog_goes_along_as_a_copy(checkout: Path, tmp_path: Path) -> None:
    edit(checkout / "catalog_data/models.toml", 'input_price_per_m = "2.5"', 'input_price_per_m = "3"')
    edit(checkout / "policies/refusal.py", "program's", "operator's")
    before = load_settings(checkout / "proxy.conf", {})
    new = tmp_path / "srv"
    done = move(checkout, new)
    assert done.returncode == 0, done.stderr
    assert "Its catalog is edited" in done.stdout
    assert "Other changes stay there, and an upgrade may meet them: policies/refusal.py." in done.stdout
    assert load_settings(new / "proxy.conf", {}).models == before.models
    assert git(checkout, "status", "--porcelain").split() == ["M", "policies/refusal.py"]


@sampled(every=3)
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("a gateway runs", "stop it first"),
        ("the ledger is in use", "another program uses it"),
        ("inside", "name a folder outside"),
        ("not empty", "name a new folder"),
        ("fails late", "so nothing is moved"),
    ],
)
def test_a_refused_move_changes_nothing(checkout: Path, tmp_path: Path, case: str, reason: str) -> None:
    new = tmp_path / "srv"
    if case == "inside":
        new = checkout / "here"
    if case == "not empty":
        new.mkdir()
        (new / "file").touch()
    if case == "fails late":
        # The link would point nowhere.
        new = tmp_path / "deeper" / "srv"
        shutil.copy(checkout / "policies/workspaces/acme.toml", tmp_path / "linked.toml")
        edit(tmp_path / "linked.toml", "[[keys]]", "#")
        (checkout / "policies/workspaces/linked.toml").symlink_to("../../../linked.toml")
        edit(checkout / "policies/workspaces/acme.toml", "", BYOK)
    running = ProcessLock(checkout / "var" / "tollgate.db-owners") if case == "a gateway runs" else None
    # Only before the other connection: the end of any look at its file would end its locks.
    before = contents(checkout)
    with closing(sqlite3.connect(checkout / "var" / "tollgate.db", isolation_level=None)) as other:
        if case == "the ledger is in use":
            other.execute("BEGIN")
            other.execute("SELECT * FROM wallet_entries").fetchall()
            assert tollgate(checkout, "wallet", "credit", "acme", "1").returncode == 0
        done = move(checkout, new)
    if running:
        running.close()
    assert done.returncode == 1
    assert reason in done.stderr
    assert _files(contents(checkout)) == _files(before)
    assert not (new / "proxy.conf").exists()
    assert "init" not in {action for action, _ in _audited(checkout)}
    assert not list((checkout / "var").glob("tollgate.db-audit/*"))


CRASH = """
import os, sys
moved = []
def watch(event, arguments):
    if event == "os.rename" and str(arguments[1]).startswith(sys.argv[2]):
        moved.append(arguments)
        if len(moved) == 2:
            os._exit(9)
sys.addaudithook(watch)
from addon.cli import main
main()
"""


def test_a_move_that_was_killed_says_how_it_is_undone(checkout: Path, tmp_path: Path) -> None:
    before, new = contents(checkout), tmp_path / "s r'v"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CRASH, "init", str(new), "--from", "."]
    assert subprocess.run(command, cwd=checkout, env=environment, check=False).returncode == 9
    assert _files(contents(checkout)) != _files(before)
    refused = move(checkout, new)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"Error: {new}: a move into it was cut off. Undo it: ")
    subprocess.run(["sh", new / "undo-move.sh"], check=True)
    assert _files(contents(checkout)) == _files(before)
    shutil.rmtree(new)
    assert move(checkout, new).returncode == 0
    assert not (new / "undo-move.sh").exists()


def _files(found: dict[Path, bytes]) -> dict[Path, bytes]:
    """Leave out what reading a ledger makes and removes, and the lock of the running gateway."""
    passing = ("-wal", "-shm", ".db")
    return {
        one: text
        for one, text in found.items()
        if not one.name.endswith(passing) and "-owners" not in str(one)
    }


@large_only
def test_without_git_the_old_proxy_conf_stays_and_the_command_says_so(checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(checkout / ".git")
    done = move(checkout, tmp_path / "srv")
    assert done.returncode == 0, done.stderr
    assert "is no git checkout, so its proxy.conf stays" in done.stdout
    assert (checkout / "proxy.conf").exists()
    assert load_settings(tmp_path / "srv" / "proxy.conf", {}).workspaces.keys() == {"acme"}


@large_only
def test_sockets_stay_behind(checkout: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.path.relpath(checkout / "var" / "takeover-x.sock"))
    assert move(checkout, tmp_path / "srv").returncode == 0
    assert not (tmp_path / "srv" / "var" / "takeover-x.sock").exists()
