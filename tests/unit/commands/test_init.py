"""``tollgate init``: a deployment folder that loads, is private, and never overwrites what is there."""

import os
import shlex
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rig.configuration import ROOT
from rig.settings_files import contents

from addon.cli import main
from addon.settings.settings import load_settings
from addon.settings.value_types import SHIPPED_CATALOG

FILES = {
    *("proxy.conf", "README.md", ".gitignore", "keys.env", "policies/workspaces/.gitkeep"),
    *("catalog/models.toml", "catalog/providers.toml", "catalog/families.toml"),
}


def init(folder: Path) -> Result:
    return CliRunner().invoke(main, ["init", str(folder)])


@pytest.fixture
def made(tmp_path: Path) -> Path:
    assert init(tmp_path / "a gateway").exit_code == 0
    return tmp_path / "a gateway"


def test_it_makes_these_files_for_their_owner_only(made: Path) -> None:
    assert {str(file.relative_to(made)) for file in contents(made)} == FILES
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (made, *made.rglob("*"))}
    assert modes == {0o600, 0o700}


def test_the_folder_loads_with_the_shipped_catalog_and_its_own_overlay(made: Path) -> None:
    settings = load_settings(made / "proxy.conf", {})
    paths = settings.conf.paths
    assert (paths.catalog, paths.catalog_overlay) == (SHIPPED_CATALOG, made / "catalog")
    assert (paths.workspaces, paths.database) == (made / "policies/workspaces", made / "var/tollgate.db")
    assert settings.sandbox_enabled
    assert settings.overlaid_slugs == frozenset()


def test_its_proxy_conf_has_the_values_of_the_shipped_one_but_for_the_catalog(made: Path) -> None:
    shipped, conf = (
        tomllib.loads((folder / "proxy.conf").read_text(encoding="utf-8")) for folder in (ROOT, made)
    )
    assert {"listen", "admin", "paths", "alerts", "metrics"} < set(conf)
    different = {"paths": {"catalog": "", "catalog_overlay": "catalog"}}
    for section, values in conf.items():
        assert values == {key: shipped[section][key] for key in values} | different.get(section, {})


@pytest.mark.parametrize("section", ["alerts", "metrics"])
def test_sections_without_a_text_of_their_own_are_those_of_the_shipped_proxy_conf(
    made: Path, section: str
) -> None:
    texts = [(folder / "proxy.conf").read_text(encoding="utf-8") for folder in (ROOT, made)]
    first, second = (text.partition(f"\n[{section}]\n")[2].partition("\n\n")[0].rstrip() for text in texts)
    assert first == second != ""


@pytest.mark.parametrize("name", ["models", "providers", "families"])
def test_the_commented_tables_load_without_their_comment_signs(made: Path, name: str) -> None:
    file = made / "catalog" / f"{name}.toml"
    text = file.read_text(encoding="utf-8")
    assert tomllib.loads(text) == {}
    lines = [line.removeprefix("# ") for line in text.splitlines() if line.startswith(("# [", "# "))]
    tables = [line for line in lines if line.startswith("[") or " = " in line]
    file.write_text("\n".join(tables), encoding="utf-8")
    assert tomllib.loads("\n".join(tables))
    load_settings(made / "proxy.conf", {})


def test_keys_env_names_the_variable_of_each_shipped_provider_without_a_value(made: Path) -> None:
    lines = (made / "keys.env").read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if line.startswith("#") and line.endswith("=")]
    assert {"#OPENAI_API_KEY=", "#ANTHROPIC_API_KEY=", "#GEMINI_API_KEY="} < set(names)
    assert len(set(names)) == len(names)
    assert all(line.startswith("#") for line in lines)


def test_git_ignores_state_and_secrets_only(made: Path) -> None:
    subprocess.run(["git", "init", "-q", str(made)], check=True)
    for name in (
        "var/tollgate.db",
        "tls.key",
        "master.keys",
        "policies/workspaces/acme.toml",
        "policies/workspaces/.acme.toml.k3x_9ab",
    ):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).touch()
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=made,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert set(listed) == FILES - {"keys.env"} | {"policies/workspaces/acme.toml"}


def test_the_next_commands_work_when_they_are_pasted(made: Path) -> None:
    lines = init(made.with_name("it's new")).stdout.splitlines()
    *setup, serve = [line for line in lines if line.startswith("  ")]
    assert len(setup) == 2
    assert shlex.split(serve) == [str(ROOT / "run.sh"), "serve"]
    keys = made.with_name("it's new") / "keys.env"
    keys.write_text(keys.read_text().replace("#OPENAI_API_KEY=", "OPENAI_API_KEY=fake-key"))
    script = "\n".join(["set -eu", *setup, "printenv OPENAI_API_KEY; printenv TOLLGATE_CONF"])
    done = subprocess.run(
        ["sh", "-c", script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["fake-key", str(keys.with_name("proxy.conf"))]
    assert os.access(ROOT / "run.sh", os.X_OK)


def test_the_files_are_utf_8_in_every_locale(tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "addon.cli", "init", str(tmp_path / "made")]
    subprocess.run(command, cwd=ROOT, env=os.environ | plain, check=True, capture_output=True)
    assert "×" in (tmp_path / "made" / "proxy.conf").read_text(encoding="utf-8")


def test_an_empty_folder_keeps_its_mode_and_a_git_folder_may_be_there(tmp_path: Path) -> None:
    folder = tmp_path / "cloned"
    (folder / ".git").mkdir(parents=True)
    folder.chmod(0o750)
    assert init(folder).exit_code == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750


def test_a_folder_with_files_is_refused_and_not_touched(made: Path) -> None:
    (made / "policies" / "own.py").touch()
    before = contents(made)
    again = init(made)
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr == (
        f"Error: {made}: is not empty: .gitignore, README.md, catalog, keys.env, policies and 1 more in the way;"
        " name a new folder\n"
    )
    assert contents(made) == before


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = init(tmp_path / "file")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"Error: {tmp_path / 'file'}: ")


def test_a_failed_start_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    # A limit on the size of files is how a full disk looks.
    script = f"ulimit -f 0; trap '' XFSZ; exec {shlex.quote(sys.executable)} -m addon.cli init here"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert list((tmp_path / "here").iterdir()) == []


def test_every_command_takes_the_conf_of_the_variable_from_any_folder(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    variable = {"TOLLGATE_CONF": str(made / "proxy.conf")}
    created = runner.invoke(main, ["keys", "create", "acme", "--new"], env=variable)
    assert created.exit_code == 0, created.output
    assert (made / "policies/workspaces/acme.toml").exists()
    assert "acme" in runner.invoke(main, ["keys", "list"], env=variable).stdout
    # The option wins, and an empty variable counts as unset.
    other = runner.invoke(main, ["keys", "list", "--conf", "other.conf"], env=variable)
    assert other.stderr.startswith(f"Error: {tmp_path / 'other.conf'}: ")
    unset = runner.invoke(main, ["keys", "list"], env={"TOLLGATE_CONF": ""})
    hint = "; name another with --conf or TOLLGATE_CONF, or make a folder with one: tollgate init DIR\n"
    assert unset.stderr == f"Error: {tmp_path / 'proxy.conf'}: no such file{hint}"
    for command in (["serve"], ["usage"], ["ledger", "verify"]):
        assert runner.invoke(main, command, env={"TOLLGATE_CONF": ""}).stderr.endswith(f"no such file{hint}")
    assert hint not in other.stderr


def test_every_command_with_a_conf_names_the_variable_in_its_help() -> None:
    shown = CliRunner().invoke(main, ["serve", "--help"]).stdout
    assert "TOLLGATE_CONF; default: proxy.conf]" in " ".join(shown.split())
