"""``tollgate wallet``: credits to wallets, their balances and their entries.

An entry never changes: another entry corrects a mistake. Source: docs/commands.md.
"""

import asyncio
import secrets
from datetime import UTC, datetime
from pathlib import Path

import click

from addon.commands.errors import report_errors, unknown_workspace_error
from addon.commands.options import conf_option, limit_option, listing_options
from addon.commands.output import Form, echo_table
from addon.commands.readers import open_ledger
from addon.settings.conf_schema import ProxyConf
from addon.settings.settings import load_conf
from addon.settings.sources import Sources
from addon.store.backends import open_counters, open_store
from addon.store.ledger.report import find_balances, find_entries, find_entry, find_wallets
from addon.store.ledger.rows import CALL
from addon.store.protocol import WalletEntry
from addon.text.masking import mask_credentials
from policies.money import MAX_CAP_USD, format_nanousd, parse_usd_nanousd

HISTORY_ROWS = 20
MAX_REFERENCE_CHARS = 200


def _parse_amount(context: click.Context, argument: click.Parameter, text: str) -> int:
    """Return nano-USD. A negative amount takes money out."""
    is_negative = text.startswith("-")
    try:
        amount_nanousd = parse_usd_nanousd(text[is_negative:])
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}", context, argument) from None
    if amount_nanousd == 0:
        raise click.BadParameter("must not be zero", context, argument)
    return -amount_nanousd if is_negative else amount_nanousd


def _parse_debit(context: click.Context, argument: click.Parameter, text: str) -> int:
    """Return nano-USD, more than 0."""
    if text.startswith("-"):
        raise click.BadParameter(
            "must not be negative: a debit takes it out of the wallet", context, argument
        )
    return _parse_amount(context, argument, text)


def _parse_reference(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    if text is not None and mask_credentials(text) != text:
        raise click.BadParameter(
            "looks like a credential, and would be written into the ledger", context, option
        )
    if text is None or (0 < len(text) <= MAX_REFERENCE_CHARS and text.isprintable() and text != CALL):
        return text
    reason = f'must be printable, at most {MAX_REFERENCE_CHARS} characters, and not "{CALL}", the reference of calls'
    raise click.BadParameter(reason, context, option)


@click.group()
def wallet() -> None:
    """Credit wallets, and show their balances and entries. Works while the gateway runs."""


@wallet.command()
@click.argument("workspace")
@click.argument("amount_nanousd", metavar="AMOUNT", callback=_parse_amount)
@click.option(
    "--reference",
    metavar="TEXT",
    callback=_parse_reference,
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
@click.argument("amount_nanousd", metavar="AMOUNT", callback=_parse_debit)
@click.option(
    "--reference",
    metavar="TEXT",
    required=True,
    callback=_parse_reference,
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
        with open_ledger(conf.paths.database) as ledger:
            known = sorted({*_list_workspaces(conf), *find_wallets(ledger)})
            if workspace is not None and workspace not in known:
                raise unknown_workspace_error(workspace, known)
            with open_counters(conf, ledger) as read_used:
                table = find_balances(read_used, known if workspace is None else [workspace])
    echo_table(table, form, "There is no workspace.")


@wallet.command()
@click.argument("workspace")
@limit_option("entries", HISTORY_ROWS)
@listing_options
@conf_option
def history(workspace: str, limit: int, form: Form, conf_file: Path) -> None:
    """Show the entries of WORKSPACE, newest first: credits, and the costs of calls (reference "call")."""
    with report_errors():
        conf = load_conf(conf_file)
        with open_ledger(conf.paths.database) as ledger:
            table = find_entries(ledger, workspace, limit)
            if not table.rows and workspace not in (known := _list_workspaces(conf)):
                raise unknown_workspace_error(workspace, [*known, *find_wallets(ledger)])
    echo_table(table, form, f"The wallet of {workspace} has no entries.")


def make_credit(workspace: str, amount_nanousd: int, reference: str | None) -> WalletEntry:
    """Return the entry of a credit. With a reference it is always the same entry; without, always a new one."""
    # Neither the ids of calls nor the names of workspaces hold a slash. So two ids are equal only if both parts are.
    entry_id = f"credit_{secrets.token_hex(16)}" if reference is None else f"{workspace}/{reference}"
    return WalletEntry(entry_id, datetime.now(UTC), workspace, amount_nanousd, reference or "")


def _enter(conf_file: Path, entry: WalletEntry, *, is_debit: bool) -> None:
    """Write an entry and print the result."""
    with report_errors():
        conf = load_conf(conf_file)
        known = _list_workspaces(conf)
        if entry.workspace not in known:
            raise unknown_workspace_error(entry.workspace, known)
        _check_balance(conf, entry)
        _print_result(conf, entry, save_entry(conf, entry), is_debit=is_debit)


def save_entry(conf: ProxyConf, entry: WalletEntry) -> bool:
    """Write an entry to the store; return whether it is new. Raises ``StoreUnavailable``."""

    async def credit_and_close() -> bool:
        store = open_store(conf)
        try:
            return await store.credit(entry)
        finally:
            await store.close()

    return asyncio.run(credit_and_close())


def _list_workspaces(conf: ProxyConf) -> list[str]:
    """Return the workspaces that have a file, even one that does not load."""
    return [file.stem for file in Sources().list_toml(conf.paths.workspaces)]


def _read_balance_nanousd(conf: ProxyConf, workspace: str) -> int:
    with open_ledger(conf.paths.database) as ledger, open_counters(conf, ledger) as read_used:
        [of_workspace] = find_balances(read_used, [workspace]).records()
    found: int = of_workspace["balance_nanousd"]
    return found


def _check_balance(conf: ProxyConf, entry: WalletEntry) -> None:
    """Refuse a credit that brings the wallet near the largest integer. It is a typing error."""
    if abs(_read_balance_nanousd(conf, entry.workspace) + entry.amount_nanousd) > MAX_CAP_USD * 10**9:
        raise click.ClickException(
            f"the balance would exceed {MAX_CAP_USD} USD, the most that a wallet can hold"
        )


def _print_result(conf: ProxyConf, entry: WalletEntry, is_new: bool, *, is_debit: bool) -> None:
    if not is_new:
        done = f"already {'debited' if is_debit else 'credited'}: {_describe_stored(conf, entry)}"
    elif is_debit:
        done = f"debited {format_nanousd(-entry.amount_nanousd)} USD from {entry.workspace}"
    else:
        done = f"credited {format_nanousd(entry.amount_nanousd)} USD to {entry.workspace}"
    left_nanousd = _read_balance_nanousd(conf, entry.workspace)
    click.echo(f"{done}; balance {format_nanousd(left_nanousd)} USD")
    if left_nanousd < 0:
        click.echo(
            "The balance is below zero: metered calls are refused, unless the workspace is Pro.", err=True
        )


def _describe_stored(conf: ProxyConf, entry: WalletEntry) -> str:
    """Describe the entry with the same reference. Raises ``ClickException`` when its amount differs."""
    reference = f'reference "{entry.reference}"'
    with open_ledger(conf.paths.database) as ledger:
        stored = find_entry(ledger, entry.id)
    if stored is None:  # It is in the ledger of another machine, or still in Redis.
        return reference
    amount, day = f"{format_nanousd(stored.amount_nanousd)} USD", f"{stored.created_at:%Y-%m-%d %H:%M:%S} UTC"
    if stored.amount_nanousd != entry.amount_nanousd:
        raise click.ClickException(
            f"{reference} of {entry.workspace} has another amount, {amount} of {day}; nothing was changed"
        )
    return f"{amount}, {reference}, {day}"
