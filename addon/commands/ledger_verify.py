"""``tollgate ledger verify``: the checks of the ledger, or of an archive. Source: docs/commands.md."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from addon.commands.errors import report_errors, report_ledger_errors
from addon.commands.options import conf_option, ledger_option, listing_options
from addon.commands.output import Form
from addon.commands.readers import choose_ledger, open_ledger
from addon.settings.conf_schema import ProxyConf
from addon.settings.settings import load_conf
from addon.store.backends import find_ledger
from addon.store.money.archives.archive_check import compare_with_record, is_archive_of
from addon.store.money.archives.archives import find_month_of_file
from addon.store.money.audit.audit_chain import Chain, read_chain
from addon.store.money.ledger import LedgerPlace
from addon.store.money.reports.report import count_rows
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.money.verify.price_check import count_not_kept
from addon.store.money.verify.verify import verify as verify_file
from addon.text.table import Table
from addon.text.table_formats import format_csv, format_json
from addon.text.unprintable import escape_unprintable


def _parse_head(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    if text is not None and not re.fullmatch("[0-9a-f]{64}", text):
        raise click.BadParameter("must be the 64 hexadecimal digits of a head", context, option)
    return text


@click.command()
@click.option(
    "--head",
    metavar="HASH",
    callback=_parse_head,
    help="Check that the audit log still has the line with this hash, which an earlier check printed.",
)
@ledger_option
@listing_options
@conf_option
def verify(head: str | None, ledger_file: Path | None, form: Form, conf_file: Path) -> None:
    """Check that calls, counters, wallets and holds agree to the nano-dollar. Exit with status 1 if not.

    Check the chain of the audit log, too, and print its head. Compare an archive with its record in the ledger.
    """
    with report_errors():
        conf = load_conf(conf_file)
        place = choose_ledger(conf, ledger_file)
        exists = place.exists()
        checked, discrepancies = (
            _verify_ledger(place) if ledger_file is None else _verify_file(ledger_file, conf)
        )
        with open_ledger(place) as connection:
            chain, not_kept = read_chain(connection, head), count_not_kept(connection)
    if head is not None and chain.wanted_line is None:
        discrepancies.append(f"audit: {head} is not in the chain: lines before it were changed or cut off")
    if form == "json":
        of_chain = {"audit_head": chain.head, "audit_line": chain.line, "wanted_line": chain.wanted_line}
        found = {"checked": checked, "prices_not_kept": not_kept, "discrepancies": discrepancies}
        click.echo(format_json({**found, **of_chain}))
    elif form == "csv":
        click.echo(format_csv(Table(("discrepancy",), [(line,) for line in discrepancies])), nl=False)
    elif exists or discrepancies:
        lines = map(escape_unprintable, discrepancies)
        counts = describe_counts(checked, discrepancies)
        click.echo("\n".join([*lines, *_describe_not_kept(not_kept), counts, *_describe_chain(chain)]))
    else:
        click.echo(f"There is no ledger yet in {place.name}: nothing was recorded.")
    if discrepancies:
        sys.exit(1)


def _describe_not_kept(calls: int) -> Sequence[str]:
    return (
        [f"{calls} calls of earlier versions have no kept prices: their costs were left out"] if calls else []
    )


def _describe_chain(chain: Chain) -> Sequence[str]:
    found = (
        [f"the audit log has that hash in line {chain.wanted_line}"] if chain.wanted_line is not None else []
    )
    return [*found, f"head of the audit log: {chain.head}, line {chain.line}"] if chain.line else found


def _verify_file(file: Path, conf: ProxyConf) -> tuple[dict[str, int], list[str]]:
    """Check an archive or a backup by itself, and an archive of this ledger against its record."""
    place = find_ledger(conf)
    with open_ledger(SqlitePlace(file)) as connection:
        checked, discrepancies = count_rows(connection), verify_file(connection)
        with open_ledger(place) as ledger:
            if is_archive_of(connection, ledger):
                with report_ledger_errors(file):
                    discrepancies += compare_with_record(connection, file, ledger)
            elif month := find_month_of_file(connection):
                click.echo(f"the archive of {month} is of another ledger than {place.name}", err=True)
    return checked, discrepancies


def _verify_ledger(place: LedgerPlace) -> tuple[dict[str, int], list[str]]:
    """Return the number of each kind that was checked, and the discrepancies."""
    with open_ledger(place) as connection:
        return count_rows(connection), verify_file(connection)


def describe_counts(counts: Mapping[str, int], discrepancies: Sequence[str]) -> str:
    listed = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
    return f"{listed}: {len(discrepancies) or 'no'} discrepancies"
