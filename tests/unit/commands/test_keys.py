"""``tollgate keys`` changes only the lines of the key, and writes nothing that would not load."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rig.configuration import ROOT
from rig.settings_files import ACME, contents, edit, replace

from addon.calls.authentication import authenticate
from addon.commands.keys import keys
from addon.settings.api_keys import hash_key
from addon.settings.settings import load_settings


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(keys, [*arguments, "--conf", str(folder / "proxy.conf")])


def test_a_created_key_is_printed_once_and_works(folder: Path) -> None:
    result = run(folder, "create", "acme", "--id", "phone")
    assert result.exit_code == 0, result.output
    key = result.stdout.strip()
    assert re.fullmatch(r"tg_[0-9A-Za-z]{40}", key)
    assert key not in result.stderr
    assert all(key.encode() not in content for content in contents(folder).values())
    found = authenticate(load_settings(folder / "proxy.conf", {}).keys, key)
    assert (found.workspace.id, found.key.id) == ("acme", "phone")


def test_create_adds_lines_at_the_end_and_changes_no_others(folder: Path) -> None:
    before = (folder / ACME).read_text()
    key = run(folder, "create", "acme", "--id", "phone").stdout.strip()
    added = f'\n[[keys]]\nid = "phone"\nhash = "sha256:{hash_key(key)}"\nactive = true\n'
    assert (folder / ACME).read_text() == before + added


def test_create_numbers_keys_without_an_id(folder: Path) -> None:
    run(folder, "create", "beta")
    run(folder, "create", "beta", "--id", "key-3")
    run(folder, "create", "beta")
    run(folder, "create", "beta")
    ids = [key.id for key in load_settings(folder / "proxy.conf", {}).workspaces["beta"].keys]
    assert ids == ["ci", "key-1", "key-3", "key-2", "key-4"]


def test_create_new_makes_a_workspace_file_readable_by_its_owner_only(folder: Path) -> None:
    result = run(folder, "create", "gamma", "--new")
    assert result.exit_code == 0, result.output
    assert "tollgate wallet credit gamma USD" in result.stderr
    gamma = load_settings(folder / "proxy.conf", {}).workspaces["gamma"]
    assert (gamma.name, [key.id for key in gamma.keys]) == ("gamma", ["key-1"])
    assert (folder / "policies/workspaces/gamma.toml").stat().st_mode & 0o777 == 0o600


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


def test_list_shows_the_keys_of_all_workspaces_or_of_one_without_whole_hashes(folder: Path) -> None:
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
    assert re.search(r"^beta +ci +True +bbbbbbbb(?: +-){7}$", table, re.MULTILINE)
    assert "acme" not in table


def test_list_never_cuts_an_id(folder: Path) -> None:
    workspace, key = "the-shop-of-the-customer-in-the-north", "the-service-that-answers-the-questions"
    run(folder, "create", workspace, "--new", "--id", key, "--label", "a label of many words, " * 3)
    shown = run(folder, "list", workspace).stdout
    assert f"{workspace}  {key}" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_list_says_when_there_is_no_key(folder: Path) -> None:
    replace(folder / "policies/workspaces/empty.toml", 'name = "Empty"\n')
    assert run(folder, "list", "empty").stdout == "no keys\n"
    assert run(folder, "list", "empty", "--json").stdout == "[]\n"


def test_list_shows_who_may_use_what_until_when(folder: Path) -> None:
    assert (
        run(folder, "set", "acme", "ci", "--label", "CI of the shop", "--models", "gpt*,openai/*").exit_code
        == 0
    )
    assert run(folder, "set", "acme", "ci", "--expires", "2100-01-01").exit_code == 0
    assert run(folder, "rotate", "acme", "ci").exit_code == 0
    first = json.loads(run(folder, "list", "--json").stdout)[0]
    assert [first[name] for name in ("label", "models", "expires_at")] == [
        "CI of the shop",
        ["gpt*", "openai/*"],
        "2100-01-01T00:00:00Z",
    ]
    until = first["previous_until"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", until)
    table = run(folder, "list").stdout
    assert max(map(len, table.splitlines())) <= 100
    assert "2100-01-01" in table
    assert until[:16].replace("T", " ") in table
    header, row, *_ = csv.reader(io.StringIO(run(folder, "list", "--csv").stdout))
    assert dict(zip(header, row, strict=True))["models"] == "gpt*, openai/*"
    assert header == list(first)
    # The lines of a secret that has ended may stay in the file.
    edit(folder / ACME, f"previous_until = {until}", "previous_until = 2020-01-01T00:00:00Z")
    assert json.loads(run(folder, "list", "--json").stdout)[0]["previous_until"] is None


def test_set_says_what_it_changed(folder: Path) -> None:
    result = run(folder, "set", "acme", "ci", "--request-cap", "7", "--label", "x")
    assert (result.exit_code, result.stdout) == (0, "key ci of workspace acme: label, request_cap set\n")
    result = run(folder, "set", "acme", "ci", "--no-request-cap")
    assert result.stdout == "key ci of workspace acme: request_cap removed\n"
    result = run(folder, "set", "acme", "ci")
    assert (result.exit_code, "name at least one setting to change" in result.stderr) == (2, True)


def test_rotate_prints_the_new_secret_once_and_says_what_becomes_of_the_old_ones(folder: Path) -> None:
    first = run(folder, "rotate", "acme", "ci", "--grace", "2h")
    secret = first.stdout.strip()
    assert re.fullmatch(r"tg_[0-9A-Za-z]{40}", secret)
    assert secret not in first.stderr
    assert all(secret.encode() not in content for content in contents(folder).values())
    assert re.search(r"its old secret works until 20\d\d-.*Z$", first.stderr, re.MULTILINE)
    assert "before that one" not in first.stderr
    found = authenticate(load_settings(folder / "proxy.conf", {}).keys, secret)
    assert (found.key.id, found.is_previous) == ("ci", False)
    second = run(folder, "rotate", "acme", "ci", "--grace", "0")
    assert "its old secret is refused as soon as the gateway has read the file" in second.stderr
    assert re.search(r"the secret before that one, .* until 20\d\d-.*Z, is refused now", second.stderr)


REFUSED = {
    ("rotate", "acm", "ci"): 'unknown workspace "acm"; did you mean "acme"?',
    ("rotate", "acme", "laptop"): "key laptop is not active",
    ("set", "acm", "ci", "--label", "x"): 'unknown workspace "acm"; did you mean "acme"?',
    ("set", "acme", "laptob", "--label", "x"): 'has no key "laptob"; did you mean "laptop"?',
    ("create", "acme", "--models", "a*b"): 'models[0]: must have "*" only at its end',
    ("create", "acme", "--expires", "2020-01-01"): "has passed",
    ("create", "acme", "--like", "cli"): 'has no key "cli"; did you mean "ci"?',
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
def test_a_refused_command_says_why_and_writes_nothing(folder: Path, arguments: tuple[str, ...]) -> None:
    before = contents(folder)
    result = run(folder, *arguments)
    assert result.exit_code == 1
    assert REFUSED[arguments] in result.stderr
    assert "tg_" not in result.output
    assert contents(folder) == before


@pytest.mark.parametrize("arguments", [("create", "acme"), ("revoke", "acme", "ci"), ("list",)], ids=" ".join)
def test_nothing_is_written_while_the_catalog_does_not_load(folder: Path, arguments: tuple[str, ...]) -> None:
    edit(folder / "catalog_data/models.toml", '"0.15"', '"dear"')
    before = contents(folder)
    result = run(folder, *arguments)
    assert result.exit_code == 1
    assert "models.toml: gpt-4o-mini.input_price_per_m: " in result.stderr
    assert "tg_" not in result.output
    assert contents(folder) == before


def test_a_broken_file_of_one_customer_blocks_no_command_for_another(folder: Path) -> None:
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


def test_keys_in_an_inline_array_must_be_edited_by_hand(folder: Path) -> None:
    inline = f'name = "Acme"\nkeys = [{{ id = "ci", hash = "sha256:{"a" * 64}" }}]\n'
    replace(folder / ACME, inline)
    for arguments in (("create", "acme"), ("revoke", "acme", "ci")):
        result = run(folder, *arguments)
        assert result.exit_code == 1
        assert "can't be edited line by line; write its keys as [[keys]] tables" in result.stderr
        assert (folder / ACME).read_text() == inline


def test_a_key_that_can_not_be_shown_says_what_to_do(folder: Path) -> None:
    conf = ["--conf", str(folder / "proxy.conf")]
    for words, what_to_do in (
        (["create", "acme", "--id", "lost"], "revoke acme lost"),
        (["rotate", "acme", "lost"], "rotate acme lost"),
    ):
        with open("/dev/full", "wb") as full:
            ended = _run_program(["keys", *words, *conf], stdout=full)
        assert ended.returncode == 1
        assert ended.stderr.startswith("Error: standard output: No space left on device; ")
        assert ended.stderr.endswith(f"tollgate keys {what_to_do}\n")


def test_no_key_is_made_without_a_standard_output(folder: Path) -> None:
    before = (folder / ACME).read_text()
    for words in (["create", "acme"], ["rotate", "acme", "ci"]):
        ended = _run_program(
            ["keys", *words, "--conf", str(folder / "proxy.conf")], preexec_fn=lambda: os.close(1)
        )
        assert (ended.returncode, ended.stderr) == (
            1,
            "Error: standard output is closed, so the key could not be shown\n",
        )
    assert (folder / ACME).read_text() == before


def _run_program(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "addon.cli", *words],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **options,
    )


def test_a_pattern_that_matches_no_model_is_named_at_once(folder: Path) -> None:
    made = run(folder, "create", "acme", "--id", "wide", "--models", "gpt-9*,*")
    assert made.exit_code == 0
    assert made.stderr.endswith("warning: gpt-9* matches no model of the catalog\n")
    changed = run(folder, "set", "acme", "wide", "--models", "gpt-8*")
    assert (changed.exit_code, changed.stderr) == (0, "warning: gpt-8* matches no model of the catalog\n")
    assert run(folder, "set", "acme", "wide", "--no-models").stderr == ""
