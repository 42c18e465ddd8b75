"""``tollgate workspaces`` creates, changes and lists workspaces."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rig.commands import run_alone
from rig.settings_files import ACME, contents

from addon.commands.workspaces import workspaces


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(workspaces, [*arguments, "--conf", str(folder / "proxy.conf")])


def test_a_workspace_is_created_changed_and_listed(folder: Path) -> None:
    limits = ("--rpm", "7", "--tpm", "9000")
    created = run(folder, "create", "gamma", "--name", "Gamma Ltd", "--plan", "pro", *limits, "--safety-net")
    assert created.exit_code == 0, created.output
    assert created.stdout == "workspace gamma is created; give it a key: tollgate keys create gamma\n"
    tools = ("--hosted-tools", "web_search")
    changed = run(
        folder,
        "set",
        "gamma",
        "--no-rpm",
        "--monthly-cap",
        "250",
        "--no-safety-net",
        "--alert-at",
        "50,100",
        *tools,
    )
    assert (
        changed.stdout
        == "workspace gamma: monthly_spend_cap_usd, safety_net, alert_at_percent, hosted_tools set; "
        "rpm_override removed\n"
    )
    shown = {row["workspace"]: row for row in json.loads(run(folder, "list", "--json").stdout)}
    assert shown["gamma"] == {
        "workspace": "gamma",
        "name": "Gamma Ltd",
        "plan": "pro",
        "rpm_override": None,
        "tpm": 9_000,
        "monthly_spend_cap_usd": "250.00",
        "default_model": None,
        "fallback_model": None,
        "context_fallback_model": None,
        "safety_net": False,
        "overage_protection": True,
        "alert_at_percent": [50, 100],
        "hosted_tools": ["web_search"],
        "active_keys": 0,
    }
    assert shown["acme"]["active_keys"] == 1
    table = run(folder, "list").stdout
    assert max(map(len, table.splitlines())) <= 100
    assert "gamma" in table
    assert run(folder, "list", "--csv").stdout.startswith("workspace,name,plan,rpm_override,")


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (("create", "acme"), 1, 'workspace "acme" already exists'),
        (("create", "new", "--default-model", "gpt-4o-mni"), 1, "did you mean"),
        (("set", "acm", "--plan", "pro"), 1, 'unknown workspace "acm"; did you mean "acme"?'),
        (("set", "acme"), 2, "name at least one setting to change"),
        (("set", "acme", "--plan", "gold"), 2, "Invalid value for '--plan'"),
        (("set", "acme", "--name", ""), 1, "must have a name"),
    ],
)
def test_a_refused_command_says_why_and_writes_nothing(
    folder: Path, arguments: tuple[str, ...], status: int, reason: str
) -> None:
    before = contents(folder)
    result = run(folder, *arguments)
    assert result.exit_code == status
    assert reason in result.stderr
    assert contents(folder) == before


def test_no_workspaces(folder: Path) -> None:
    for file in (folder / ACME).parent.iterdir():
        file.unlink()
    assert run(folder, "list").stdout == "no workspaces\n"


def test_before_the_first_start_the_folder_of_workspaces_is_not_made(folder: Path) -> None:
    for file in (folder / ACME).parent.iterdir():
        file.unlink()
    (folder / ACME).parent.rmdir()
    assert run(folder, "list").stdout == "no workspaces\n"
    catalog = run_alone(folder, "catalog", "list", "--conf", str(folder / "proxy.conf"))
    assert (catalog.returncode, catalog.stderr) == (0, "")
    assert not (folder / ACME).parent.exists()
    assert run(folder, "create", "first").exit_code == 0
    assert "first" in run(folder, "list").stdout
