"""The state of each workspace: whether its file loads, and whether it has one at all."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

from addon.settings.errors import Problem
from addon.settings.settings import Settings
from policies.model import Workspace
from policies.settings_warnings import SettingsWarning, find_warnings

type State = Literal["served", "last good", "not served", "deleted"]
"""As ``STATES`` describes it."""

STATES: Mapping[State, str] = {
    "served": "its file loads",
    "last good": "its file has an error, so its last good settings are served",
    "not served": "its file has an error, and there are no last good settings",
    "deleted": "it has no file, but the ledger has its calls or its wallet",
}


def find_problems(settings: Settings) -> Mapping[str, Problem]:
    """Return the problem of each workspace file that does not load, by workspace."""
    return {problem.workspace: problem for problem in settings.problems if problem.workspace is not None}


def find_state(workspace_id: str, settings: Settings, problems: Mapping[str, Problem]) -> State:
    """Return the state of a workspace that has a file, or had one."""
    if workspace_id in settings.workspaces:
        return "last good" if workspace_id in problems else "served"
    return "not served" if workspace_id in problems else "deleted"


def find_workspace_warnings(
    settings: Settings, workspaces: Iterable[Workspace], now: datetime
) -> list[SettingsWarning]:
    """Return the warnings of ``tollgate check`` about these workspaces."""
    chosen = {workspace.id: workspace for workspace in workspaces}
    found = find_warnings(settings.providers, settings.models, chosen, now)
    return [warning for warning in found if warning.place == "workspace"]
