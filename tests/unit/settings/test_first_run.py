"""The first run makes a workspace whose key works, and a master key; later runs change nothing."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from rig.settings_files import ACME, contents, edit, write_files

from addon.calls.authentication import authenticate
from addon.settings.first_run import create_demo_workspace, create_master_key, needs_master_key
from addon.settings.sealed_secrets import MasterKeys, make_master_key
from addon.settings.secrets import load_master_keys
from addon.settings.settings import SettingsFiles, load_settings
from addon.settings.sources import Sources


def test_the_first_run_makes_a_workspace_whose_key_works(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    workspaces = tmp_path / "policies/workspaces"
    for file in workspaces.iterdir():
        file.unlink()
    key = create_demo_workspace(workspaces, "sandbox-chat")
    assert key is not None
    found = authenticate(load_settings(conf_file, {}).keys, key)
    workspace = found.workspace
    assert (workspace.id, workspace.name, workspace.plan, found.key.id) == (
        "demo",
        "Demo",
        "standard",
        "demo",
    )
    assert workspace.default_model == "sandbox-chat"
    [file] = workspaces.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert key not in file.read_text()


def test_later_runs_change_nothing(tmp_path: Path) -> None:
    write_files(tmp_path)
    before = contents(tmp_path)
    assert create_demo_workspace(tmp_path / "policies/workspaces", "sandbox-chat") is None
    assert contents(tmp_path) == before


def test_the_first_run_makes_a_master_key_that_opens_what_it_seals(tmp_path: Path) -> None:
    file = load_settings(write_files(tmp_path), {}).conf.paths.master_keys
    assert file == tmp_path / "var" / "master.keys"
    assert create_master_key(file)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    sealed = load_master_keys({}, Sources(), file).seal("obviously-fake-own")
    edit(tmp_path / ACME, "", f'[byok.GROQ]\nsecret = "sealed:{sealed}"\n')
    secret = load_settings(tmp_path / "proxy.conf", {}).workspaces["acme"].byok["GROQ"].secret
    assert secret is not None
    assert secret.get_secret_value() == "obviously-fake-own"


def test_a_master_key_is_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "master.keys"
    file.write_text("here")
    assert not create_master_key(file)
    assert file.read_text() == "here"


def test_behind_a_link_to_a_missing_file_a_master_key_is_private_too(tmp_path: Path) -> None:
    (tmp_path / "master.keys").symlink_to(tmp_path / "disk.keys")
    assert create_master_key(tmp_path / "master.keys")
    assert (tmp_path / "disk.keys").stat().st_mode & 0o777 == 0o600


SEALED = MasterKeys(make_master_key()).seal("obviously-fake")

# the environment, a line of proxy.conf, a line of a workspace, whether a master key is made
NEEDS: Mapping[str, tuple[dict[str, str], str, str, bool]] = {
    "none is set": ({}, "", "", True),
    "one is set": ({"TOLLGATE_SECRET_KEY": make_master_key()}, "", "", False),
    "a file is named": ({"TOLLGATE_SECRET_KEY_FILE": "/etc/tollgate/master.keys"}, "", "", False),
    "machines share the files": ({}, '[state]\nbackend = "redis"\n', "", False),
    "a secret is sealed": ({}, "", f'[byok.GROQ]\nsecret = "sealed:{SEALED}"\n', False),
    "the password is sealed": ({}, f'[admin]\nconsole_password = "sealed:{SEALED}"\n', "", False),
}


@pytest.mark.parametrize("case", NEEDS)
def test_a_lost_master_key_is_not_replaced(tmp_path: Path, case: str) -> None:
    env, conf, workspace, expected = NEEDS[case]
    conf_file = write_files(tmp_path)
    edit(conf_file, "", conf)
    edit(tmp_path / ACME, "", workspace)
    assert needs_master_key(SettingsFiles(conf_file, env).load(), env) is expected
