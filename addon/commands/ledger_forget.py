"""``tollgate ledger forget``: empties what names a user in the user's calls. Source: docs/commands.md."""

from pathlib import Path

import click

from addon.commands.auditing import CommandRecord
from addon.commands.errors import report_errors, unknown_workspace_error
from addon.commands.ledger_archive import report_archive_errors
from addon.commands.options import conf_option
from addon.commands.output import pluralize
from addon.edits.recording import ChangeRecord
from addon.settings.settings import load_conf
from addon.store.backends import find_archived_ledger
from addon.store.money.archives.forget import ForgettingArchive, find_calls, find_unread, require_finished
from addon.store.money.archives.forgotten_rows import EMPTIED
from addon.store.money.ledger import Ledger
from addon.store.money.reports.names import find_recorded_workspaces


@click.command()
@click.option("--workspace", metavar="W", required=True, help="The workspace of the user's calls.")
@click.option("--user", metavar="U", required=True, help="The user, as in the column end_user.")
@click.option(
    "--ledger",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also forget the user in this archive of the ledger. Repeatable.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Do it; without it, count the calls.")
@conf_option
def forget(workspace: str, user: str, files: tuple[Path, ...], is_applied: bool, conf_file: Path) -> None:
    """Empty what names a user in the calls of the ledger and of archives: end_user, client_request_id and tags.

    Costs and sums stay. The line of the audit log does not name the user.
    """
    with report_errors():
        conf = load_conf(conf_file)
        ledger = find_archived_ledger(conf)
        place = ledger.place
        if not place.exists():
            raise click.ClickException(f"there is no ledger yet in {place.name}")
        with report_archive_errors(place.name), ledger.alone():
            archives = [ForgettingArchive(place, file) for file in dict.fromkeys(files)]
            with place.read() as found:
                _require_workspace(found, workspace)
                require_finished(found)
                here = find_calls(found, workspace, user)
            filed = {one: len(one.find_calls(workspace, user)) for one in archives}
            counts = [f"{pluralize(len(here), 'call')} in {place.name}"]
            counts += [f"{pluralize(calls, 'call')} in {one.file}" for one, calls in filed.items()]
            if is_applied and (here or any(filed.values())):
                change = f"Forget a user of the workspace {workspace}: {', '.join(counts)}"
                with CommandRecord(conf, "ledger forget")(ChangeRecord(change, workspace=workspace)):
                    for one, calls in filed.items():
                        if calls:
                            one.empty(workspace, user)
                    ledger.empty_calls(here, workspace, user)
            with place.read() as found:
                unread = find_unread(found, files, ledger.find_copies())
    click.echo("\n".join([*counts, _describe(is_applied, len(here) + sum(filed.values()))]))
    if unread:
        click.echo(f"not looked at, and may name the user: {', '.join(unread)}", err=True)


def _require_workspace(ledger: Ledger, workspace: str) -> None:
    known = find_recorded_workspaces(ledger)
    if workspace not in known:
        raise unknown_workspace_error(workspace, known)


def _describe(is_applied: bool, calls: int) -> str:
    if not calls:
        return "no call names this user"
    emptied = f"{', '.join(EMPTIED[:-1])} and {EMPTIED[-1]}"
    return f"{emptied} were emptied" if is_applied else f"--apply empties {emptied}"
