"""``tollgate explain``: what would happen to a call. Nothing is sent, taken or written.

Source: docs/commands.md.
"""

import sys
from pathlib import Path

import click

from addon.apis import APIS
from addon.commands.errors import report_errors
from addon.commands.explain_output import format_explanation
from addon.commands.options import conf_option, json_option
from addon.commands.readers import load_served_settings, open_ledger
from addon.explain.caller import (
    UnknownCallerError,
    find_counted,
    find_key,
    find_workspace,
    make_admitted_call,
)
from addon.explain.explaining import explain
from addon.explain.explanation import Explanation
from addon.explain.hints import BUILT_IN_HINT, may_lack_keys, serves_built_in
from addon.explain.places import KnownStates, read_circuits
from addon.explain.records import make_explanation_record
from addon.settings.settings import Settings
from addon.store.backends import find_ledger
from addon.store.money.reports.wallet_credits import find_last_credits
from addon.text.table_formats import format_json
from policies.model import Key, Workspace

STDIN = "-"

_OF_THIS_SHELL = "Keys are those of this shell's environment, which may not be the gateway's."


@click.command("explain")
@click.argument("file", metavar="FILE")
@click.option(
    "--workspace", "workspace_id", metavar="W", required=True, help="The workspace that makes the call."
)
@click.option(
    "--key", "key_id", metavar="ID", help="The API key that it uses.  [default: the first active one]"
)
@click.option(
    "--api", type=click.Choice(tuple(APIS)), default="chat", show_default=True, help="The API of the request."
)
@json_option
@conf_option
def explain_command(
    file: str, workspace_id: str, key_id: str | None, api: str, as_json: bool, conf_file: Path
) -> None:
    """Show what would happen to a request with the body in FILE ("-": standard input), and why.

    Nothing is sent or written. The exit status is 0 also when the call would be refused.
    """
    with report_errors():
        settings = load_served_settings(conf_file)
        workspace, key = _find_caller(settings, workspace_id, key_id)
        content = _read_body(file, settings.conf.limits.max_request_bytes + 1)
        with open_ledger(find_ledger(settings.conf)) as ledger:
            states = KnownStates(read_circuits(ledger, settings))
            counted, credits = find_counted(ledger), find_last_credits(ledger, [workspace.id])
            explanation = explain(
                make_admitted_call(settings, workspace, key, api), content, counted, credits, states
            )
    hints = _find_hints(explanation, settings, workspace)
    if as_json:
        click.echo(format_json(make_explanation_record(workspace.id, key.id, explanation, hints)))
    else:
        click.echo(format_explanation(workspace.id, key.id, explanation, hints))


def _find_caller(settings: Settings, workspace_id: str, key_id: str | None) -> tuple[Workspace, Key]:
    try:
        workspace = find_workspace(settings.workspaces, workspace_id)
        return workspace, find_key(workspace, key_id)
    except UnknownCallerError as error:
        raise click.ClickException(str(error)) from None


def _read_body(file: str, max_bytes: int) -> bytes:
    """Return the body, without what is beyond ``max_bytes``: a body of that length is refused."""
    if file != STDIN:
        with open(file, "rb") as opened:
            return opened.read(max_bytes)
    if sys.stdin is None:
        raise click.ClickException("standard input is closed")
    return sys.stdin.buffer.read(max_bytes)


def _find_hints(explanation: Explanation, settings: Settings, workspace: Workspace) -> list[str]:
    """Return hints for an explanation that may differ in the gateway, whose environment may have other keys."""
    if serves_built_in(explanation, settings):
        return [BUILT_IN_HINT, _OF_THIS_SHELL]
    return [_OF_THIS_SHELL] if may_lack_keys(explanation, settings, workspace) else []
