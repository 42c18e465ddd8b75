"""The hash of a key in two workspace files: one of them keeps it."""

from pathlib import Path

from rig.live_settings import LiveSettings
from rig.settings_files import ACME, BETA, HASH_A, HASH_B, edit, write_files


def test_the_workspace_that_had_a_hash_keeps_it(live: LiveSettings) -> None:
    before = live.settings.workspaces["beta"]
    live.edit(BETA, HASH_B, HASH_A)
    live.edit(BETA, '"Beta"', '"Better"')
    live.after(2)
    assert live.find_owner(HASH_A) == "acme"
    assert live.find_owner(HASH_B) == "beta"
    assert live.settings.workspaces["beta"] == before
    [problem] = live.settings.problems
    assert problem.file == live.folder / BETA
    assert 'keys[0] (ci).hash: the same hash as key "ci" of workspace "acme"' in live.problems
    live.start()
    assert live.find_owner(HASH_A) == "acme"
    # Once the other file drops the hash, the new owner gets it.
    live.edit(ACME, HASH_A, "d" * 64)
    live.after(2)
    assert (live.find_owner(HASH_A), live.problems) == ("beta", "")
    assert live.settings.workspaces["beta"].name == "Better"


def test_a_copied_file_takes_no_key_from_the_original(live: LiveSettings) -> None:
    live.write(
        "policies/workspaces/aaa.toml",
        live.text(ACME) + f'[[keys]]\nid = "own"\nhash = "sha256:{"e" * 64}"\n',
    )
    live.after(2)
    assert (live.find_owner(HASH_A), live.find_owner("e" * 64)) == ("acme", "aaa")
    assert 'aaa.toml: keys[0] (ci).hash: the same hash as key "ci" of workspace "acme"' in live.problems


def test_two_files_may_swap_their_keys(live: LiveSettings) -> None:
    live.edit(ACME, HASH_A, HASH_B)
    live.edit(BETA, HASH_B, HASH_A)
    live.after(2)
    assert (live.find_owner(HASH_A), live.find_owner(HASH_B), live.problems) == ("beta", "acme", "")


def test_a_workspace_that_loses_a_contest_keeps_the_hashes_it_had(live: LiveSettings) -> None:
    # Beta claims acme's hash and drops its own. Acme claims that one and keeps its own.
    live.edit(BETA, HASH_B, HASH_A)
    live.edit(ACME, "c" * 64, HASH_B)
    live.after(2)
    assert (live.find_owner(HASH_A), live.find_owner(HASH_B)) == ("acme", "beta")
    assert len(live.settings.problems) == 2


def test_a_broken_file_keeps_its_hash(live: LiveSettings) -> None:
    live.write(ACME, "broken")
    live.edit(BETA, HASH_B, HASH_A)
    live.after(2)
    assert (live.find_owner(HASH_A), live.find_owner(HASH_B)) == ("acme", "beta")


def test_at_a_first_start_both_workspaces_refuse_a_shared_hash_only(tmp_path: Path) -> None:
    write_files(tmp_path)
    edit(tmp_path / BETA, "", f'[[keys]]\nid = "copy"\nhash = "sha256:{HASH_A}"\n')
    live = LiveSettings(tmp_path)
    assert (live.find_owner(HASH_A), live.find_owner(HASH_B)) == (None, "beta")
    assert {problem.file.name for problem in live.settings.problems} == {"acme.toml", "beta.toml"}
    assert {problem.consequence for problem in live.settings.problems} == {
        "the key is refused to workspace acme",
        "the key is refused to workspace beta",
    }
    live.start()
    assert live.find_owner(HASH_A) is None
    live.edit(BETA, f"sha256:{HASH_A}", f"sha256:{'e' * 64}")
    live.after(2)
    assert (live.find_owner(HASH_A), live.find_owner("e" * 64), live.problems) == ("acme", "beta", "")


PREVIOUS = 'previous_hash = "sha256:{}"\nprevious_until = 2100-01-01T00:00:00Z\n'


def test_the_workspace_that_had_a_hash_keeps_it_as_the_previous_one_too(live: LiveSettings) -> None:
    live.edit(ACME, HASH_A, "d" * 64)
    live.edit(ACME, 'id = "ci"\n', f'id = "ci"\n{PREVIOUS.format(HASH_A)}')
    live.after(2)
    live.edit(BETA, HASH_B, HASH_A)
    live.after(2)
    assert (live.find_owner(HASH_A), live.find_owner(HASH_B)) == ("acme", "beta")
    assert live.settings.keys[HASH_A].is_previous
    assert 'beta.toml: keys[0] (ci).hash: the same hash as key "ci" of workspace "acme"' in live.problems


def test_at_a_first_start_a_shared_previous_hash_is_refused_and_its_key_stays(tmp_path: Path) -> None:
    write_files(tmp_path)
    edit(tmp_path / BETA, "", PREVIOUS.format(HASH_A))
    live = LiveSettings(tmp_path)
    assert (live.find_owner(HASH_A), live.find_owner(HASH_B)) == (None, "beta")
    [key] = live.settings.workspaces["beta"].keys
    assert (key.previous_hash, key.previous_until) == (None, None)
    assert 'keys[0] (ci).previous_hash: the same hash as key "ci" of workspace "acme"' in live.problems
