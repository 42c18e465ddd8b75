"""The first run makes a workspace whose key works; later runs change nothing."""

from pathlib import Path

from rig.settings_files import contents, write_files

from addon.calls.authentication import authenticate
from addon.settings.first_run import create_demo_workspace
from addon.settings.settings import load_settings


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
