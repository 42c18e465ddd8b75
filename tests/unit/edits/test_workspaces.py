"""Workspaces are created and changed in one write that loads."""

from pathlib import Path
from typing import Any

import pytest
from rig.settings_files import ACME, contents
from rig.unrecorded import create_workspace, set_workspace

from addon.edits.workspace_files import EditError
from addon.settings.errors import SettingsError
from addon.settings.settings import load_settings

ALL: dict[str, Any] = {
    "safety_net": True,
    "plan": "pro",
    "name": "Gamma",
    "rpm_override": 7,
    "monthly_spend_cap_usd": "250",
    "default_model": "gpt-4o-mini",
    "fallback_model": "gpt-4o-mini",
    "overage_protection": False,
}


def test_a_new_workspace_has_the_given_settings_and_safe_defaults(folder: Path) -> None:
    conf = folder / "proxy.conf"
    create_workspace(conf, "gamma", ALL)
    file = folder / "policies/workspaces/gamma.toml"
    assert file.read_text().splitlines() == [
        'name = "Gamma"',
        'plan = "pro"',
        "rpm_override = 7",
        'monthly_spend_cap_usd = "250"',
        "overage_protection = false",
        'default_model = "gpt-4o-mini"',
        'fallback_model = "gpt-4o-mini"',
        "safety_net = true",
    ]
    assert file.stat().st_mode & 0o777 == 0o600
    create_workspace(conf, "plain", {})
    plain = load_settings(conf, {}).workspaces["plain"]
    assert (plain.name, plain.plan, plain.overage_protection, plain.keys) == ("plain", "standard", True, ())


def test_settings_are_changed_and_removed_above_the_tables(folder: Path) -> None:
    conf = folder / "proxy.conf"
    before = (folder / ACME).read_text()
    set_workspace(conf, "acme", {"rpm_override": 7, "default_model": None, "plan": "standard"})
    head, tail = before.split('plan = "pro"\ndefault_model = "gpt-4o-mini"\n')
    assert (folder / ACME).read_text() == f'{head}plan = "standard"\nrpm_override = 7\n{tail}'


@pytest.mark.parametrize(
    ("workspace", "changes", "reason"),
    [
        ("acme", {"default_model": "gpt-4o-mni"}, 'unknown model "gpt-4o-mni"; did you mean'),
        ("acme", {"plan": "gold"}, "plan: must be"),
        ("acme", {"name": None}, "must have a name"),
        ("acm", {"plan": "pro"}, 'unknown workspace "acm"; did you mean "acme"?'),
    ],
)
def test_a_refused_change_says_why_and_writes_nothing(
    folder: Path, workspace: str, changes: dict[str, Any], reason: str
) -> None:
    before = contents(folder)
    with pytest.raises((EditError, SettingsError)) as caught:
        set_workspace(folder / "proxy.conf", workspace, changes)
    assert reason in str(caught.value)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("workspace", "values", "reason"),
    [
        ("acme", {}, 'workspace "acme" already exists'),
        ("../x", {}, "can't name a workspace"),
        ("new", {"default_model": "gone"}, 'unknown model "gone"'),
    ],
)
def test_a_workspace_that_would_not_load_is_not_created(
    folder: Path, workspace: str, values: dict[str, Any], reason: str
) -> None:
    before = contents(folder)
    with pytest.raises((EditError, SettingsError)) as caught:
        create_workspace(folder / "proxy.conf", workspace, values)
    assert reason in str(caught.value)
    assert contents(folder) == before
