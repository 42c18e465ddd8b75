"""An ``rpm_override`` that is below 1 or can't be read stops no workspace."""

import pytest
from rig.live_settings import LiveSettings
from rig.settings_files import HASH_A

from addon.settings.overview import find_file_warnings
from policies.limits import rpm_of

NEW = "policies/workspaces/new.toml"

BELOW_ONE = ("0", "-7", "0.5", "-inf", f"-{2**63}")
UNREADABLE = ("1.5", "nan", "true", '"6"', "[6]", "{}", "2026-01-31", f"{2**62}.0")
NEW_KEY = f'[[keys]]\nid = "ci"\nhash = "sha256:{"e" * 64}"\n'


def overridden(value: str) -> str:
    return f'name = "New"\nplan = "pro"\nrpm_override = {value}\n{NEW_KEY}'


@pytest.mark.parametrize("value", BELOW_ONE)
def test_an_override_below_1_counts_as_1_with_a_warning(live: LiveSettings, value: str) -> None:
    live.write(NEW, overridden(value))
    live.after(2)
    new = live.settings.workspaces["new"]
    assert (live.problems, new.name, rpm_of(new, 60, 120)) == ("", "New", 1)
    kinds = {(one.kind, one.file.name) for one in find_file_warnings(live.settings)}
    assert ("rpm_override_below_1", "new.toml") in kinds


@pytest.mark.parametrize("value", UNREADABLE)
def test_an_override_that_can_not_be_read_keeps_the_last_good_settings(
    live: LiveSettings, value: str
) -> None:
    live.write(NEW, overridden("7"))
    live.after(2)
    live.write(NEW, overridden(value).replace("New", "Newer"))
    live.after(2)
    assert (live.settings.workspaces["new"].rpm_override, live.settings.workspaces["new"].name) == (7, "New")
    [problem] = live.settings.problems
    assert (problem.key, problem.consequence) == (
        "rpm_override",
        "workspace new keeps its last good settings",
    )
    assert problem.reason.endswith(" (at line 3)")
    live.start()
    assert (live.settings.workspaces["new"].name, live.settings.problems) == ("New", (problem,))


@pytest.mark.parametrize("value", UNREADABLE)
def test_with_nothing_kept_such_an_override_counts_as_1_and_the_rest_is_in_force(
    live: LiveSettings, value: str
) -> None:
    live.write(NEW, overridden(value))
    live.after(2)
    new = live.settings.workspaces["new"]
    assert (new.rpm_override, new.plan, live.find_owner("e" * 64)) == (1, "pro", "new")
    [problem] = live.settings.problems
    assert problem.consequence == "workspace new is served with an rpm_override of 1"
    # Nothing of it is kept, so an edit of the rest is in force at once, and a restart changes nothing.
    live.edit(NEW, 'plan = "pro"', 'plan = "standard"')
    live.after(2)
    live.start()
    assert (live.settings.workspaces["new"].plan, live.settings.problems) == ("standard", (problem,))
    live.edit(NEW, f"rpm_override = {value}\n", "")
    live.after(2)
    assert (live.problems, live.settings.workspaces["new"].rpm_override) == ("", None)


def test_with_another_error_next_to_it_such_a_file_is_not_served(live: LiveSettings) -> None:
    others = {
        "default_model": 'default_model = "gone"',
        "surprise": "surprise = 1",
        "keys[1].id": f'[[keys]]\nid = "ci"\nhash = "sha256:{"f" * 64}"',
    }
    for key, line in others.items():
        text = overridden("true")
        is_table = line.startswith("[")
        live.write(NEW, f"{text}{line}\n" if is_table else f"{line}\n{text}")
        live.after(2)
        assert "new" not in live.settings.workspaces
        assert {one.key for one in live.files.errors} == {key, "rpm_override"}


def test_a_key_of_another_workspace_is_not_served_in_such_a_file(live: LiveSettings) -> None:
    live.write(NEW, overridden("true").replace("e" * 64, HASH_A))
    live.after(2)
    assert (live.find_owner(HASH_A), live.settings.workspaces["new"].keys) == ("acme", ())
