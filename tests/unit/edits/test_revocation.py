"""``tollgate keys revoke`` turns off a key, also in the last good text of a broken file, or fails with the reason."""

from pathlib import Path

from rig.settings_files import ACME, BETA, contents, edit, replace

from addon.settings.settings import SettingsFiles, load_settings
from unit.commands.test_keys import run

LAST_GOOD = "var/last-good/acme.toml"


def test_revoke_changes_one_word(folder: Path) -> None:
    before = (folder / ACME).read_text()
    result = run(folder, "revoke", "acme", "ci")
    assert result.exit_code == 0, result.output
    assert (folder / ACME).read_text() == before.replace("active = true", "active = false")


def test_revoke_adds_a_line_to_a_key_without_active(folder: Path) -> None:
    file = folder / BETA
    before = file.read_text()
    assert run(folder, "revoke", "beta", "ci").exit_code == 0
    assert file.read_text() == f"{before}active = false\n"
    assert not load_settings(folder / "proxy.conf", {}).workspaces["beta"].keys[0].active


def test_revoking_twice_is_no_error(folder: Path) -> None:
    run(folder, "revoke", "acme", "ci")
    once = contents(folder)
    assert run(folder, "revoke", "acme", "ci").exit_code == 0
    assert contents(folder) == once


def write_last_good(folder: Path, text: str) -> None:
    """Write the last good text of the workspace, as a gateway does."""
    (folder / LAST_GOOD).parent.mkdir(parents=True)
    (folder / LAST_GOOD).write_text(text)


def test_revoke_turns_off_a_key_in_a_broken_file_and_its_last_good_text(folder: Path) -> None:
    good = (folder / ACME).read_text()
    write_last_good(folder, good)
    edit(folder / ACME, 'plan = "pro"', 'plan = "gold"')
    result = run(folder, "revoke", "acme", "ci")
    assert (result.exit_code, result.stdout) == (0, "key ci of workspace acme is revoked\n")
    assert "the file does not load; the key is turned off in its last good settings too: " in result.stderr
    assert "acme.toml: plan: must be 'standard' or 'pro'" in result.stderr
    off = good.replace("active = true", "active = false")
    assert (folder / LAST_GOOD).read_text() == off
    assert (folder / ACME).read_text() == off.replace('plan = "pro"', 'plan = "gold"')
    settings = SettingsFiles(folder / "proxy.conf", {}).load()
    assert [key.active for key in settings.workspaces["acme"].keys] == [False, False]


def test_revoke_turns_off_a_key_that_only_the_last_good_text_has(folder: Path) -> None:
    write_last_good(folder, (folder / ACME).read_text())
    replace(folder / ACME, 'name = "Acme"\nplan = "gold"\n')
    assert run(folder, "revoke", "acme", "ci").exit_code == 0
    assert "active = true" not in (folder / LAST_GOOD).read_text()


def test_revoke_fails_when_the_file_can_not_be_parsed_but_turns_off_the_served_key(folder: Path) -> None:
    write_last_good(folder, (folder / ACME).read_text())
    replace(folder / ACME, "broken")
    result = run(folder, "revoke", "acme", "ci")
    assert result.exit_code == 1
    assert "key ci is turned off in the last good settings, but not in its file" in result.stderr
    assert "acme.toml: is not TOML" in result.stderr
    assert "active = true" not in (folder / LAST_GOOD).read_text()
    assert (folder / ACME).read_text() == "broken"


def test_revoke_fails_when_there_is_no_last_good_text(folder: Path) -> None:
    edit(folder / ACME, 'plan = "pro"', 'plan = "gold"')
    result = run(folder, "revoke", "acme", "ci")
    assert result.exit_code == 1
    assert (
        "key ci is turned off in its file, which does not load, and no last good text is here"
        in result.stderr
    )
    assert "active = true" not in (folder / ACME).read_text()
    replace(folder / ACME, "broken")
    result = run(folder, "revoke", "acme", "ci")
    assert result.exit_code == 1
    assert "key ci is not turned off: its file does not load" in result.stderr


def test_revoke_works_where_only_the_rate_of_a_new_workspace_can_not_be_read(folder: Path) -> None:
    edit(folder / ACME, 'plan = "pro"', 'plan = "pro"\nrpm_override = "many"')
    result = run(folder, "revoke", "acme", "ci")
    assert (result.exit_code, result.stdout) == (0, "key ci of workspace acme is revoked\n")
    assert "acme.toml: rpm_override: must be a valid integer" in result.stderr
    settings = SettingsFiles(folder / "proxy.conf", {}).load()
    assert [key.active for key in settings.workspaces["acme"].keys] == [False, False]


def test_revoke_fails_when_the_last_good_text_can_not_be_edited(folder: Path) -> None:
    write_last_good(folder, f'name = "Acme"\nkeys = [{{ id = "ci", hash = "sha256:{"a" * 64}" }}]\n')
    edit(folder / ACME, 'plan = "pro"', 'plan = "gold"')
    result = run(folder, "revoke", "acme", "ci")
    assert result.exit_code == 1
    assert "key ci still works in the last good settings" in result.stderr
