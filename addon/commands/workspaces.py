"""``tollgate workspaces``: the settings of workspaces, edited in the operators' own files. Source: docs/commands.md."""

from pathlib import Path
from typing import Any

import click

from addon.commands.auditing import record_in
from addon.commands.edit_options import workspace_options
from addon.commands.errors import report_errors
from addon.commands.options import conf_option, listing_options
from addon.commands.output import Form, echo_table, join_list
from addon.commands.readers import load_served_settings
from addon.commands.workspaces_sync import diff, pull, push
from addon.edits.toml_lines import Value, describe_changes
from addon.edits.workspaces import create_workspace, set_workspace
from addon.text.table import Table
from policies.model import Workspace
from policies.money import format_nanousd

type Changes = dict[str, Value | None]

COLUMNS = (
    *(
        "workspace",
        "name",
        "plan",
        "rpm_override",
        "tpm",
        "monthly_spend_cap_usd",
        "default_model",
        "fallback_model",
    ),
    *("context_fallback_model",),
    *("safety_net", "overage_protection", "alert_at_percent", "hosted_tools", "active_keys"),
)
OPTIONAL_COLUMNS = (
    "hosted_tools",
    "alert_at_percent",
    "safety_net",
    "context_fallback_model",
    "fallback_model",
    "name",
)
"""The columns that a table leaves out first."""


@click.group()
def workspaces() -> None:
    """Create, change and list workspaces. A running gateway uses changes within two seconds."""


for command in (push, pull, diff):
    workspaces.add_command(command)


@workspaces.command()
@click.argument("workspace", metavar="ID")
@workspace_options
@conf_option
def create(workspace: str, changes: Changes, conf_file: Path) -> None:
    """Create the workspace ID, without a key."""
    with report_errors():
        create_workspace(conf_file, workspace, changes, record=record_in(conf_file, "workspaces create"))
    click.echo(f"workspace {workspace} is created; give it a key: tollgate keys create {workspace}")


@workspaces.command("set")
@click.argument("workspace", metavar="ID")
@workspace_options
@conf_option
def set_command(workspace: str, changes: Changes, conf_file: Path) -> None:
    """Change settings of the workspace ID. An empty text removes one, as its --no- option does."""
    if not changes:
        raise click.UsageError("name at least one setting to change")
    with report_errors():
        set_workspace(conf_file, workspace, changes, record=record_in(conf_file, "workspaces set"))
    click.echo(f"workspace {workspace}: {describe_changes(changes)}")


@workspaces.command("list")
@listing_options
@conf_option
def list_workspaces(form: Form, conf_file: Path) -> None:
    """List the workspaces with their settings."""
    with report_errors():
        settings = load_served_settings(conf_file)
    rows = [_make_row(one) for one in settings.workspaces.values()]
    if form != "json":
        rows = [[join_list(value) for value in row] for row in rows]
    echo_table(Table(COLUMNS, rows), form, "no workspaces", OPTIONAL_COLUMNS, missing="-")


def _make_row(workspace: Workspace) -> list[Any]:
    """Return the values of ``COLUMNS``."""
    cap = workspace.monthly_spend_cap_nanousd
    return [
        workspace.id,
        workspace.name,
        workspace.plan,
        workspace.rpm_override,
        workspace.tpm,
        None if cap is None else format_nanousd(cap),
        workspace.default_model,
        workspace.fallback_model,
        workspace.context_fallback_model,
        workspace.safety_net,
        workspace.overage_protection,
        list(workspace.alert_at_percent),
        sorted(workspace.hosted_tools),
        sum(key.active for key in workspace.keys),
    ]
