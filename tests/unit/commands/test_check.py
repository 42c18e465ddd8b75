"""``tollgate check``: all errors of all files, warnings and the overview. It writes nothing and shows no secret."""

from pathlib import Path

import pytest
from rig.checked import Checked
from rig.settings_files import ACME, BETA, CONF, MODELS, PROVIDERS, SECRET, contents, edit


def test_good_files_are_counted_and_nothing_is_touched(folder: Path) -> None:
    checked = Checked(folder)
    assert (checked.status, checked.lines) == (0, [])
    assert checked.stdout.splitlines() == [
        "tollgate 0.1.0",
        "environment variables: this shell's; no gateway runs",
        f"files: 6 (3 in {folder}/catalog_data, 2 in {folder}/policies/workspaces, 1 in {folder})",
        "workspaces: 2",
        "keys: 3, 2 of them active",
        "models on platform keys: 1 (OPENAI 1)",
        "models on customers' own keys only: 1 (GROQ 1)",
        "errors: 0, warnings: 0",
    ]
    report = checked.report
    assert report.pop("files") == sorted(str(file) for file in contents(folder))
    assert len(report.pop("fingerprint")) == 16
    assert report == {
        "ok": True,
        "version": "0.1.0",
        "environment": "shell",
        "environment_is": "this shell's; no gateway runs",
        "workspaces": 2,
        "keys": 3,
        "active_keys": 2,
        "platform_models": {"OPENAI": 1},
        "own_key_models": {"GROQ": 1},
        "errors": [],
        "warnings": [],
        "ledger_not_asked": None,
    }


def break_everything(folder: Path) -> None:
    edit(folder / CONF, "port = 9000", 'port = "9000"\nprot = 1')
    edit(folder / MODELS, 'family = "chat"', 'familly = "chat"')
    edit(folder / PROVIDERS, 'dialect = "openai"', 'dialect = "openai"\nbuiltin = "no"')
    edit(folder / ACME, 'plan = "pro"', 'plan = "gold"\nrpm_override = 1.5')
    edit(folder / BETA, "[[keys]]", '[[keys]]\nplan = "pro"')


def test_every_error_of_every_file_is_one_line(folder: Path) -> None:
    break_everything(folder)
    checked = Checked(folder)
    assert checked.status == 1
    assert checked.lines == [
        'error: proxy.conf: listen.prot: unknown key; did you mean "port"?',
        "error: proxy.conf: listen.port: must be a valid integer",
        "error: catalog_data/providers.toml: OPENAI.builtin: must be a valid boolean (at line 4)",
        'error: catalog_data/models.toml: gpt-4o-mini.familly: unknown key; did you mean "family"? (at line 4)',
        "error: policies/workspaces/acme.toml: plan: must be 'standard' or 'pro'",
        "error: policies/workspaces/acme.toml: rpm_override: must be a valid integer (at line 3)",
        'error: policies/workspaces/beta.toml: keys[0] (ci).plan: "plan" belongs to the top of the file, '
        "above the first [table]",
    ]
    assert checked.stdout.splitlines()[-1] == "errors: 7, warnings: 0"
    errors = [f"{row['file']}: {row['key']}: {row['reason']}" for row in checked.report["errors"]]
    assert [f"error: {line}".replace(f"{folder}/", "") for line in errors] == checked.lines
    assert (checked.report["workspaces"], checked.report["warnings"]) == (None, [])


def test_names_are_checked_where_only_proxy_conf_is_broken(folder: Path) -> None:
    edit(folder / CONF, "port = 9000", "port = -1")
    edit(folder / ACME, '"gpt-4o-mini"', '"gpt-4o-mni"')
    edit(folder / ACME, "", '[byok.GROK]\nsecret = "env:X"\n[[rules]]\nkeywords = ["sql"]\nmodel = "gtp"\n')
    keys = [(Path(row["file"]).name, row["key"]) for row in Checked(folder).report["errors"]]
    assert keys == [
        ("proxy.conf", "listen.port"),
        ("acme.toml", "default_model"),
        ("acme.toml", "rules[0] (sql).model"),
        ("acme.toml", "byok.GROK"),
    ]


def test_a_broken_workspace_leaves_the_overview_of_the_others(folder: Path) -> None:
    edit(folder / BETA, "hash = ", f'secret = "{SECRET}"\nhash = ')
    checked = Checked(folder)
    assert (checked.status, checked.report["workspaces"]) == (1, 1)
    [line] = checked.lines
    assert line.startswith("error: policies/workspaces/beta.toml: keys[0] (ci).secret: unknown key")


def test_files_that_do_not_load_are_not_called_missing_workspaces(folder: Path) -> None:
    edit(folder / ACME, 'plan = "pro"', 'plan = "gold"')
    edit(folder / BETA, "[[keys]]", '[[keys]]\nplan = "pro"')
    checked = Checked(folder)
    assert (checked.status, checked.report["workspaces"]) == (1, 0)
    assert [line.partition(":")[0] for line in checked.lines] == ["error", "error"]


def test_warnings_are_lines_too_and_errors_with_strict(folder: Path) -> None:
    edit(folder / BETA, '"Beta"', '"Beta"\noverage_protection = false\ndefault_model = "openai/gpt-oss-20b"')
    edit(folder / BETA, "", '[byok.GROQ]\nsecret = "env:BETA_KEY"\nrouting = true\n')
    warnings = [
        "catalog_data/providers.toml: OPENAI.platform_key: OPENAI_KEY is not set, so its models serve only calls "
        "with customers' own keys",
        "policies/workspaces/acme.toml: default_model: gpt-4o-mini serves no call: OPENAI has no platform key",
        "policies/workspaces/beta.toml: byok.GROQ.secret: BETA_KEY is not set; calls that need it are refused",
        "policies/workspaces/beta.toml: default_model: openai/gpt-oss-20b serves no call: there is no GROQ key of "
        "the workspace's own",
        "policies/workspaces/beta.toml: overage_protection: is off, so calls at once may cost far more than is left "
        "in the wallet",
    ]
    checked = Checked(folder, OPENAI_KEY="")
    assert (checked.status, checked.lines) == (0, [f"warning: {line}" for line in warnings])
    assert [row["kind"] for row in checked.report["warnings"]] == [
        "platform_key_unset",
        "model_unserved",
        "own_key_unset",
        "model_unserved",
        "overage_protection_off",
    ]
    strict = Checked(folder, "--strict", OPENAI_KEY="")
    assert (strict.status, strict.lines) == (1, [f"error: {line}" for line in warnings])


@pytest.mark.parametrize("is_made", [True, False])
def test_an_empty_or_missing_workspaces_folder_is_a_warning(folder: Path, is_made: bool) -> None:
    for name in (ACME, BETA):
        (folder / name).unlink()
    if not is_made:
        (folder / ACME).parent.rmdir()
    checked = Checked(folder)
    assert (checked.status, checked.report["workspaces"]) == (0, 0)
    [line] = checked.lines
    assert line.startswith("warning: policies/workspaces: there is no workspace, so every call is refused")


def test_a_missing_conf_or_catalog_is_an_error(folder: Path) -> None:
    (folder / MODELS).unlink()
    assert Checked(folder).lines == ["error: catalog_data/models.toml: no such file"]
    (folder / CONF).unlink()
    assert Checked(folder).lines == ["error: proxy.conf: no such file"]
