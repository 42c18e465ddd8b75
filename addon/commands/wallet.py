"""``tollgate wallet``: credits to wallets, their balances and their entries.

An entry never changes: another entry corrects a mistake. Source: docs/commands.md.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from addon.commands.auditing import CommandRecord
from addon.commands.errors import report_errors, unknown_workspace_error
from addon.commands.options import conf_option, ledger_option, limit_option, listing_options
from addon.commands.output import Form, echo_table
from addon.commands.readers import choose_ledger, note_missing, open_ledger
from addon.settings.conf_schema import ProxyConf
from addon.settings.settings import load_conf
from addon.settings.sources import Sources
from addon.store.backends import find_ledger
from addon.store.money.reports.archived_calls import find_missing
from addon.store.money.reports.names import find_wallets
from addon.store.money.reports.report import find_balances, find_entries, ledger_counters
from addon.store.money.wallet import (
    BELOW_ZERO,
    EntryRefused,
    check_balance,
    describe_stored,
    make_credit,
    parse_amount,
    parse_debit,
    parse_reference,
    read_balance_nanousd,
    record_entry,
    save_entry,
)
from addon.store.protocol import WalletEntry
from policies.money import format_nanousd

HISTORY_ROWS = 20


def _parse_with(
    parse: Callable[[str], object],
) -> Callable[[click.Context, click.Parameter, str | None], object]:
    def callback(context: click.Context, parameter: click.Parameter, text: str | None) -> object:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from None

    return callback


@click.group()
def wallet() -> None:
    """Credit wallets, and show their balances and entries. Works while the gateway runs."""


class _Credit(click.Command):
    """The command ``credit``. Its error of a negative amount, which looks like an option, names the right command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not error.option_name[1:2].isdecimal():
                raise
            # Click calls only the first digit the option.
            raise click.UsageError(
                "AMOUNT is negative; to take money out: tollgate wallet debit WORKSPACE AMOUNT --reference TEXT",
                ctx,
            ) from None


@wallet.command(cls=_Credit)
@click.argument("workspace")
@click.argument("amount_nanousd", metavar="AMOUNT", callback=_parse_with(parse_amount))
@click.option(
    "--reference",
    metavar="TEXT",
    callback=_parse_with(parse_reference),
    help="The reason. One reference is credited only once.",
)
@conf_option
def credit(workspace: str, amount_nanousd: int, reference: str | None, conf_file: Path) -> None:
    """Put AMOUNT in USD ("50", "12.5") into the wallet of WORKSPACE and print the balance.

    With a reference it is safe to repeat: an amount is credited only once under one reference. Correct a mistake with a
    debit: wallet debit acme 450 --reference "typo of May 4"
    """
    if amount_nanousd < 0 and reference is None:
        raise click.UsageError("a negative AMOUNT needs a --reference that says what it corrects")
    _enter(conf_file, make_credit(workspace, amount_nanousd, reference), is_debit=False)


@wallet.command()
@click.argument("workspace")
@click.argument("amount_nanousd", metavar="AMOUNT", callback=_parse_with(parse_debit))
@click.option(
    "--reference",
    metavar="TEXT",
    required=True,
    callback=_parse_with(parse_reference),
    help="The reason. One reference is debited or credited only once.",
)
@conf_option
def debit(workspace: str, amount_nanousd: int, reference: str, conf_file: Path) -> None:
    """Take AMOUNT in USD ("50", "12.5") out of the wallet of WORKSPACE and print the balance.

    Use it to correct a credit, or for a refund. It is safe to repeat: an amount is entered only once
    under one reference.
    """
    _enter(conf_file, make_credit(workspace, -amount_nanousd, reference), is_debit=True)


@wallet.command()
@click.argument("workspace", required=False)
@listing_options
@conf_option
def balance(workspace: str | None, form: Form, conf_file: Path) -> None:
    """Show the balance of WORKSPACE, or of all, with what calls in flight hold and what is left."""
    with report_errors():
        conf = load_conf(conf_file)
        with open_ledger(find_ledger(conf)) as ledger:
            known = sorted({*_list_workspaces(conf), *find_wallets(ledger)})
            if workspace is not None and workspace not in known:
                raise unknown_workspace_error(workspace, known)
            read_used = ledger_counters(ledger)
            table = find_balances(read_used, known if workspace is None else [workspace])
    echo_table(table, form, "There is no workspace.")


@wallet.command()
@click.argument("workspace")
@limit_option("entries", HISTORY_ROWS)
@ledger_option
@listing_options
@conf_option
def history(workspace: str, limit: int, ledger_file: Path | None, form: Form, conf_file: Path) -> None:
    """Show the entries of WORKSPACE, newest first: credits, and the costs of calls (reference "call")."""
    with report_errors():
        conf = load_conf(conf_file)
        with open_ledger(choose_ledger(conf, ledger_file)) as ledger:
            table = find_entries(ledger, workspace, limit)
            if len(table.rows) < limit:
                note_missing(find_missing(ledger, None, None))
            if not table.rows and workspace not in (known := _list_workspaces(conf)):
                raise unknown_workspace_error(workspace, [*known, *find_wallets(ledger)])
    echo_table(table, form, f"The wallet of {workspace} has no entries.")


def _enter(conf_file: Path, entry: WalletEntry, *, is_debit: bool) -> None:
    """Write an entry and print the result."""
    with report_errors():
        conf = load_conf(conf_file)
        known = _list_workspaces(conf)
        if entry.workspace not in known:
            raise unknown_workspace_error(entry.workspace, known)
        with _report_refused():
            balance_nanousd = read_balance_nanousd(conf, entry.workspace)
            check_balance(balance_nanousd, entry)
            record = CommandRecord(conf, "wallet debit" if is_debit else "wallet credit")
            with record(record_entry(entry, balance_nanousd)) as recording:
                recording.is_made = save_entry(conf, entry)
            _print_result(conf, entry, recording.is_made, is_debit=is_debit)


@contextmanager
def _report_refused() -> Iterator[None]:
    try:
        yield
    except EntryRefused as error:
        raise click.ClickException(str(error)) from None


def _list_workspaces(conf: ProxyConf) -> list[str]:
    """Return the workspaces that have a file, even one that does not load."""
    return [file.stem for file in Sources().list_toml(conf.paths.workspaces)]


def _print_result(conf: ProxyConf, entry: WalletEntry, is_new: bool, *, is_debit: bool) -> None:
    if not is_new:
        done = f"already {'debited' if is_debit else 'credited'}: {describe_stored(conf, entry)}"
    elif is_debit:
        done = f"debited {format_nanousd(-entry.amount_nanousd)} USD from {entry.workspace}"
    else:
        done = f"credited {format_nanousd(entry.amount_nanousd)} USD to {entry.workspace}"
    left_nanousd = read_balance_nanousd(conf, entry.workspace)
    click.echo(f"{done}; balance {format_nanousd(left_nanousd)} USD")
    if left_nanousd < 0:
        click.echo(BELOW_ZERO, err=True)
