"""``tollgate ledger recount``: the repair of the sums by hour and by day. Source: docs/commands.md."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import click
from pydantic import SecretStr

from addon.commands.auditing import CommandRecord
from addon.commands.errors import report_errors, report_ledger_errors
from addon.commands.ledger_archive import report_archive_errors
from addon.commands.options import conf_option
from addon.commands.readers import open_ledger
from addon.edits.recording import ChangeRecord
from addon.settings.conf_schema import ProxyConf
from addon.settings.settings import load_conf
from addon.store.backends import find_archived_ledger, find_ledger, find_ledger_url
from addon.store.money.postgres.recount import repair as repair_in_postgres
from addon.store.money.reports.calls_by_id import count_wrong_ids, forget_client_ids
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sums.rollup_check import WrongPeriod, find_wrong, repair


class _Recounted(NamedTuple):
    periods: int
    wrong_ids: int
    archived: Sequence[str]


@click.command()
@conf_option
def recount(conf_file: Path) -> None:
    """Count the calls of each hour and day again whose sums ``tollgate ledger verify`` finds wrong."""
    with report_errors():
        conf = load_conf(conf_file)
        place = find_ledger(conf)
        if not place.exists():
            click.echo(f"There is no ledger yet in {place.name}: nothing was recorded.")
            return
        # The sums of a month whose calls are removed meanwhile would be counted from those that are left.
        with report_archive_errors(place.name), find_archived_ledger(conf).alone():
            url = conf.ledger.url
            done = _recount_database(conf, find_ledger_url(url, conf)) if url else _recount_file(conf)
    click.echo(f"{done.periods} hours and days were counted again")
    if done.wrong_ids:
        click.echo("the calls are listed again by the ids of their clients while a gateway serves")
    if done.archived:
        raise click.ClickException(
            f"the sums of {', '.join(done.archived)} can't be counted again here: the calls are archived"
        )


def _recount_file(conf: ProxyConf) -> _Recounted:
    path = conf.paths.database
    with report_ledger_errors(path), closing(LedgerFile(path)) as file:
        found, wrong_ids = list(find_wrong(file.connection)), count_wrong_ids(file.connection)
        wrong, archived = _divide(found)
        if wrong or wrong_ids:
            with CommandRecord(conf, "ledger recount")(ChangeRecord(_describe(wrong, wrong_ids))):
                for one in wrong:
                    repair(file.connection, one)
                if wrong_ids:
                    forget_client_ids(file.connection)
    return _Recounted(len(wrong), wrong_ids, archived)


def _recount_database(conf: ProxyConf, url: SecretStr) -> _Recounted:
    """Do it in PostgreSQL, where an index lists the calls by the ids of their clients.

    No other change of the ledger waits meanwhile: ``repair`` has the only lock that it needs.
    """
    from addon.store.money.postgres.ledger import PostgresPlace  # It takes long to import.

    place = PostgresPlace(url)
    with open_ledger(place) as ledger:
        wrong, archived = _divide(list(find_wrong(ledger)))
    if wrong:
        with CommandRecord(conf, "ledger recount")(ChangeRecord(_describe(wrong, 0))):
            for one in wrong:
                with place.change(_TIMEOUT_S) as ledger:
                    repair_in_postgres(ledger, one)
    return _Recounted(len(wrong), 0, archived)


_TIMEOUT_S = 600.0
"""The longest time to count the calls of a day."""


def _divide(found: Sequence[WrongPeriod]) -> tuple[list[WrongPeriod], list[str]]:
    """Return the periods that can be counted again, and the months that can't."""
    wrong = [one for one in found if not one.is_archived]
    return wrong, sorted({one.period for one in found if one.is_archived})


def _describe(wrong: Sequence[WrongPeriod], wrong_ids: int) -> str:
    parts = [f"count {len(wrong)} hours and days again"] if wrong else []
    parts += ["list calls again by the ids of their clients"] if wrong_ids else []
    return " and ".join(parts).capitalize()
