"""``tollgate keys`` changes the lines that it must, keeps all others, and writes nothing that would not load."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from rig.settings_files import edit, replace, write_files

from addon.calls.authentication import authenticate
from addon.commands.key_edits import add_key, turn_off_key
from addon.commands.keys import keys
from addon.settings.api_keys import hash_key
from addon.settings.first_run import create_demo_workspace
from addon.settings.settings import SettingsFiles, load_settings

ACME = "policies/workspaces/acme.toml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path)
    return tmp_path


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(keys, [*arguments, "--conf", str(folder / "proxy.conf")])


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_created_key_is_printed_once_and_works(folder: Path) -> None:
    result = run(folder, "create", "acme", "--id", "phone")
    assert result.exit_code == 0, result.output
    key = result.stdout.strip()
    assert re.fullmatch(r"tg_[0-9A-Za-z]{40}", key)
    assert key not in result.stderr
    assert all(key.encode() not in content for content in contents(folder).values())
    workspace, found = authenticate(load_settings(folder / "proxy.conf", {}).keys, key)
    assert (workspace.id, found.id) == ("acme", "phone")


def test_create_adds_lines_at_the_end_and_changes_no_other(folder: Path) -> None:
    before = (folder / ACME).read_text()
    key = run(folder, "create", "acme", "--id", "phone").stdout.strip()
    added = f'\n[[keys]]\nid = "phone"\nhash = "sha256:{hash_key(key)}"\nactive = true\n'
    assert (folder / ACME).read_text() == before + added


def test_create_names_keys_by_number_where_no_id_is_given(folder: Path) -> None:
    run(folder, "create", "beta")
    run(folder, "create", "beta", "--id", "key-3")
    run(folder, "create", "beta")
    run(folder, "create", "beta")
    ids = [key.id for key in load_settings(folder / "proxy.conf", {}).workspaces["beta"].keys]
    assert ids == ["ci", "key-1", "key-3", "key-2", "key-4"]


def test_create_new_makes_a_workspace_for_its_owner_only(folder: Path) -> None:
    result = run(folder, "create", "gamma", "--new")
    assert result.exit_code == 0, result.output
    assert "tollgate wallet credit gamma USD" in result.stderr
    gamma = load_settings(folder / "proxy.conf", {}).workspaces["gamma"]
    assert (gamma.name, [key.id for key in gamma.keys]) == ("gamma", ["key-1"])
    assert (folder / "policies/workspaces/gamma.toml").stat().st_mode & 0o777 == 0o600


def test_revoke_changes_one_word(folder: Path) -> None:
    before = (folder / ACME).read_text()
    result = run(folder, "revoke", "acme", "ci")
    assert result.exit_code == 0, result.output
    assert (folder / ACME).read_text() == before.replace("active = true", "active = false")


def test_revoke_adds_a_line_to_a_key_that_does_not_say_whether_it_is_active(folder: Path) -> None:
    file = folder / "policies/workspaces/beta.toml"
    before = file.read_text()
    assert run(folder, "revoke", "beta", "ci").exit_code == 0
    assert file.read_text() == before.replace("[[keys]]\n", "[[keys]]\nactive = false\n")
    assert not load_settings(folder / "proxy.conf", {}).workspaces["beta"].keys[0].active


def test_revoking_twice_is_no_error(folder: Path) -> None:
    run(folder, "revoke", "acme", "ci")
    once = contents(folder)
    assert run(folder, "revoke", "acme", "ci").exit_code == 0
    assert contents(folder) == once


def test_an_edit_keeps_the_mode_of_the_file(folder: Path) -> None:
    (folder / ACME).chmod(0o640)
    run(folder, "create", "acme")
    assert (folder / ACME).stat().st_mode & 0o777 == 0o640


def test_an_edit_goes_through_a_symbolic_link(folder: Path) -> None:
    real = (folder / ACME).rename(folder / "real.toml")
    (folder / ACME).symlink_to(real)
    assert run(folder, "revoke", "acme", "ci").exit_code == 0
    assert (folder / ACME).is_symlink()
    assert "active = true" not in real.read_text()


def test_list_shows_every_key_without_its_hash_or_one_workspace(folder: Path) -> None:
    edit(folder / ACME, "active = true", 'spend_cap_usd = "20.5"\nspend_reset = "weekly"\nrequest_cap = 7')
    shown = json.loads(run(folder, "list", "--json").stdout)
    assert [(row["workspace"], row["id"], row["active"], row["hash"]) for row in shown] == [
        ("acme", "ci", True, "aaaaaaaa"),
        ("acme", "laptop", False, "cccccccc"),
        ("beta", "ci", True, "bbbbbbbb"),
    ]
    assert [shown[0][name] for name in ("spend_cap_usd", "spend_reset", "request_cap", "request_reset")] == [
        "20.50",
        "weekly",
        7,
        "never",
    ]
    assert shown[1]["spend_reset"] is None
    table = run(folder, "list", "beta").stdout
    assert re.search(r"^beta +ci +True +bbbbbbbb +- +- +- +-$", table, re.MULTILINE)
    assert "acme" not in table


def test_list_says_when_there_is_no_key(folder: Path) -> None:
    replace(folder / "policies/workspaces/empty.toml", 'name = "Empty"\n')
    assert run(folder, "list", "empty").stdout == "no keys\n"
    assert run(folder, "list", "empty", "--json").stdout == "[]\n"


REFUSED = {
    ("create", "acm"): 'unknown workspace "acm"; did you mean "acme"? (--new creates one)',
    ("list", "acm"): 'unknown workspace "acm"; did you mean "acme"?',
    ("revoke", "acm", "ci"): 'unknown workspace "acm"; did you mean "acme"?',
    ("create", "acme", "--new"): 'workspace "acme" already exists; leave out --new',
    ("create", "../acme", "--new"): '"../acme" can\'t name a workspace',
    ("create", "acme", "--id", "ci"): 'workspace acme already has a key "ci"',
    ("create", "acme", "--id", 'a"\nactive'): "can't name a key",
    ("revoke", "acme", "laptob"): 'workspace acme has no key "laptob"; did you mean "laptop"?',
}


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_what_can_not_be_done_is_said_and_nothing_is_written(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    before = contents(folder)
    result = run(folder, *arguments)
    assert result.exit_code == 1
    assert REFUSED[arguments] in result.stderr
    assert "tg_" not in result.output
    assert contents(folder) == before


@pytest.mark.parametrize("arguments", [("create", "acme"), ("revoke", "acme", "ci"), ("list",)], ids=" ".join)
def test_nothing_is_written_while_the_files_do_not_load_as_a_whole(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    edit(folder / "catalog_data/models.toml", '"0.15"', '"dear"')
    before = contents(folder)
    result = run(folder, *arguments)
    assert result.exit_code == 1
    assert "models.toml: gpt-4o-mini.input_price_per_m: " in result.stderr
    assert "tg_" not in result.output
    assert contents(folder) == before


# A workspace file that does not load.

KEPT = "var/last-good/acme.toml"


def keep(folder: Path, text: str) -> None:
    """Let ``text`` be what a gateway kept of the workspace when it last loaded."""
    (folder / KEPT).parent.mkdir(parents=True)
    (folder / KEPT).write_text(text)


def test_revoke_works_on_a_broken_file_in_its_last_good_text_too(folder: Path) -> None:
    good = (folder / ACME).read_text()
    keep(folder, good)
    edit(folder / ACME, 'plan = "pro"', 'plan = "gold"')
    result = run(folder, "revoke", "acme", "ci")
    assert (result.exit_code, result.stdout) == (0, "key ci of workspace acme is revoked\n")
    assert "the file does not load; the key is turned off in its last good settings too: " in result.stderr
    assert "acme.toml: plan: must be 'standard' or 'pro'" in result.stderr
    off = good.replace("active = true", "active = false")
    assert (folder / KEPT).read_text() == off
    assert (folder / ACME).read_text() == off.replace('plan = "pro"', 'plan = "gold"')
    settings = SettingsFiles(folder / "proxy.conf", {}).load()
    assert [key.active for key in settings.workspaces["acme"].keys] == [False, False]


def test_revoke_ends_a_key_that_only_the_last_good_text_has(folder: Path) -> None:
    keep(folder, (folder / ACME).read_text())
    replace(folder / ACME, 'name = "Acme"\nplan = "gold"\n')
    assert run(folder, "revoke", "acme", "ci").exit_code == 0
    assert "active = true" not in (folder / KEPT).read_text()


def test_revoke_fails_loudly_where_the_file_can_not_be_read_and_ends_what_is_served(folder: Path) -> None:
    keep(folder, (folder / ACME).read_text())
    replace(folder / ACME, "broken")
    result = run(folder, "revoke", "acme", "ci")
    assert result.exit_code == 1
    assert "key ci is turned off in the last good settings, but not in its file" in result.stderr
    assert "acme.toml: is not TOML" in result.stderr
    assert "active = true" not in (folder / KEPT).read_text()
    assert (folder / ACME).read_text() == "broken"


def test_revoke_fails_loudly_where_nothing_that_loads_is_known(folder: Path) -> None:
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


def test_revoke_fails_loudly_where_the_last_good_text_can_not_be_edited(folder: Path) -> None:
    keep(folder, f'name = "Acme"\nkeys = [{{ id = "ci", hash = "sha256:{"a" * 64}" }}]\n')
    edit(folder / ACME, 'plan = "pro"', 'plan = "gold"')
    result = run(folder, "revoke", "acme", "ci")
    assert result.exit_code == 1
    assert "key ci still works in the last good settings" in result.stderr


def test_a_broken_file_of_one_customer_stops_no_command_for_another(folder: Path) -> None:
    replace(folder / ACME, "broken")
    assert run(folder, "create", "beta").exit_code == 0
    assert run(folder, "revoke", "beta", "ci").exit_code == 0
    listed = run(folder, "list", "beta")
    assert listed.exit_code == 0
    assert "workspace acme is not served: " in listed.stderr
    assert "acme.toml: is not TOML" in listed.stderr


def test_a_key_is_not_created_in_a_file_that_does_not_load(folder: Path) -> None:
    edit(folder / ACME, 'plan = "pro"', 'plan = "gold"')
    before = contents(folder)
    result = run(folder, "create", "acme")
    assert result.exit_code == 1
    assert "acme.toml: plan: must be" in result.stderr
    assert contents(folder) == before


def test_keys_in_an_inline_array_are_left_to_the_operator(folder: Path) -> None:
    inline = f'name = "Acme"\nkeys = [{{ id = "ci", hash = "sha256:{"a" * 64}" }}]\n'
    replace(folder / ACME, inline)
    for arguments in (("create", "acme"), ("revoke", "acme", "ci")):
        result = run(folder, *arguments)
        assert result.exit_code == 1
        assert "can't be edited line by line; write its keys as [[keys]] tables" in result.stderr
        assert (folder / ACME).read_text() == inline


def test_a_table_inside_a_text_is_not_taken_for_one() -> None:
    text = 'name = """\n[[keys]]\nactive = true\n"""\n[[keys]]\nid = "ci"\nactive = true\n'
    with pytest.raises(ValueError, match="can't be edited line by line"):
        turn_off_key(text, 0)


COMMENTS = st.lists(st.sampled_from(["# a note", "", "   ", "# [[keys]]", "# active = true"]), max_size=3)


@given(
    activities=st.lists(
        st.sampled_from([None, "true", "false", "true  # since May"]), min_size=1, max_size=4
    ),
    notes=st.lists(COMMENTS, min_size=5, max_size=5),
    line_end=st.sampled_from(["\n", "\r\n"]),
    last_end=st.booleans(),
    picked=st.integers(0, 3),
)
def test_edits_keep_every_comment_and_mean_just_what_was_asked(
    activities: list[str | None], notes: list[list[str]], line_end: str, last_end: bool, picked: int
) -> None:
    lines = ['name = "Acme"', *notes[4]]
    for number, activity in enumerate(activities):
        lines += ["[[keys]]", f'id = "key-{number}"', *notes[number]]
        lines += [] if activity is None else [f"active = {activity}"]
        lines += ["[[rules]]", 'keywords = ["x"]', "active = true"]
    text = line_end.join(lines) + (line_end if last_end else "")
    index = picked % len(activities)

    off = turn_off_key(text, index)
    expected = tomllib.loads(text)
    expected["keys"][index]["active"] = False
    assert tomllib.loads(off) == expected
    assert off.count("#") == text.count("#")
    assert off.count("\n") - text.count("\n") == (activities[index] is None)
    assert off.count("\r") == off.count("\n") * (line_end == "\r\n")

    added = add_key(text, "new", "e" * 64)
    assert added.startswith(text.rstrip())
    assert tomllib.loads(added)["keys"][-1]["id"] == "new"
    assert added.count("\r") == added.count("\n") * (line_end == "\r\n")


def test_the_first_run_makes_a_workspace_whose_key_works(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    workspaces = tmp_path / "policies/workspaces"
    for file in workspaces.iterdir():
        file.unlink()
    key = create_demo_workspace(workspaces, "sandbox-chat")
    assert key is not None
    workspace, found = authenticate(load_settings(conf_file, {}).keys, key)
    assert (workspace.id, workspace.name, workspace.plan, found.id) == ("demo", "Demo", "standard", "demo")
    assert workspace.default_model == "sandbox-chat"
    [file] = workspaces.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert key not in file.read_text()


def test_later_runs_make_nothing(tmp_path: Path) -> None:
    write_files(tmp_path)
    before = contents(tmp_path)
    assert create_demo_workspace(tmp_path / "policies/workspaces", "sandbox-chat") is None
    assert contents(tmp_path) == before
